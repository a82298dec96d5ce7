// Which pages may use the server, by default none but its own.
#include "http/origin.hpp"

#include <gtest/gtest.h>

#include "raw_client.hpp"

namespace millrace::http {
namespace {

Request request(Headers headers, std::string method = "GET") {
  Request one;
  one.method = std::move(method);
  one.headers = std::move(headers);
  return one;
}

TEST(Origin, OfOthersIsRefusedByDefault) {
  const OriginPolicy closed;
  EXPECT_TRUE(closed.check(request({{"Host", "localhost:80"}})));
  EXPECT_TRUE(closed.check(request({{"Host", "a.b:80"}, {"Origin", "http://a.b:80"}})));
  for (const char* other : {"http://evil.example", "null", "http://a.b:81", "a.b:80"}) {
    const auto checked = closed.check(request({{"Host", "a.b:80"}, {"origin", other}}));
    ASSERT_FALSE(checked) << other;
    EXPECT_EQ(checked.error().code, Code::unauthorized);
  }
  EXPECT_TRUE(closed.headers(request({{"Origin", "http://evil.example"}})).empty());
}

TEST(Origin, ThatWasAllowedIsTold) {
  const OriginPolicy policy{{"https://page.example"}, false};
  const auto asked = request({{"Host", "a.b"}, {"Origin", "https://page.example"}});
  EXPECT_TRUE(policy.check(asked));
  EXPECT_EQ(policy.headers(asked)[0].second, "https://page.example");
  EXPECT_FALSE(policy.check(request({{"Host", "a.b"}, {"Origin", "https://other.example"}})));
  const OriginPolicy all{{"*"}, false};
  EXPECT_TRUE(all.check(request({{"Host", "a.b"}, {"Origin", "https://other.example"}})));
}

TEST(Origin, NamesThatAnybodyCanPointHereAreRefused) {
  const OriginPolicy local{{}, true};
  for (const char* host : {"127.0.0.1:80", "localhost:80", "[::1]:80", ""}) {
    EXPECT_TRUE(local.check(request({{"Host", host}}))) << host;
  }
  EXPECT_FALSE(local.check(request({{"Host", "evil.example:80"}})));
  EXPECT_FALSE(local.check(request({{"Host", "localhost.evil.example"}})));
}

TEST(Origin, QuestionsOfBrowsersAreAnswered) {
  const auto server = start(echo_routes(), {}, {{"https://page.example"}, false});
  RawClient client(server->url());
  const std::string ask =
      "OPTIONS /echo/a HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization\r\nOrigin: ";
  const auto allowed = client.ask(ask + "https://page.example\r\n\r\n");
  EXPECT_EQ(allowed.status, 204);
  EXPECT_TRUE(allowed.head.contains("Access-Control-Allow-Origin: https://page.example"));
  EXPECT_TRUE(allowed.head.contains("Access-Control-Allow-Headers: authorization"));
  RawClient other(server->url());
  const auto refused = other.ask(ask + "https://other.example\r\n\r\n");
  EXPECT_EQ(refused.status, 403);
  EXPECT_FALSE(refused.head.contains("Access-Control"));
}

}  // namespace
}  // namespace millrace::http
