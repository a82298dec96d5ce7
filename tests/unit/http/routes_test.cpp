// Methods and paths find their handlers, and tricks with paths find none.
#include "http/routes.hpp"

#include <gtest/gtest.h>

#include "raw_client.hpp"

namespace millrace::http {
namespace {

Routes::Match find(const Routes& routes, std::string_view method, std::string_view path) {
  const auto segments = split_path(path);
  EXPECT_TRUE(segments) << path;
  return segments ? routes.find(method, *segments) : Routes::Match{};
}

TEST(Routes, NamePartsOfPaths) {
  Routes routes;
  routes.add("GET", "/v1/models", echo);
  routes.add("GET", "/v1/models/{id*}", echo);
  routes.add("POST", "/v1/batches/{id}/cancel", echo);
  EXPECT_TRUE(find(routes, "GET", "/v1/models").route);
  EXPECT_EQ(find(routes, "GET", "/v1/models/a/b%2Fc").parts.at("id"), "a/b/c");
  EXPECT_EQ(find(routes, "POST", "/v1/batches/x%20y/cancel").parts.at("id"), "x y");
  EXPECT_TRUE(find(routes, "HEAD", "/v1/models").route);
  for (const char* path : {"/", "/v1", "/v1/models/", "//v1/models", "/v1/batches//cancel",
                           "/v1/batches/a/b/cancel", "/V1/models"}) {
    const auto match = find(routes, "GET", path);
    EXPECT_FALSE(match.route) << path;
    EXPECT_TRUE(match.allowed.empty()) << path;
  }
  EXPECT_EQ(find(routes, "GET", "/v1/batches/a/cancel").allowed, std::vector<std::string>{"POST"});
}

TEST(Routes, TellWhatIsNear) {
  Routes routes;
  const Handler nothing = [](const std::shared_ptr<Exchange>&) {};
  routes.add("GET", "/health", nothing);
  routes.add("POST", "/v1/chat/completions", nothing);
  routes.add("GET", "/v1/models", nothing);
  routes.add("POST", "/v1/models", nothing);
  routes.add("GET", "/v1/models/{id*}", nothing);
  const auto hint = [&](std::string_view path) { return routes.hint_for(*split_path(path)); };
  const std::string base = "; look at the base URL that the client was given";
  EXPECT_EQ(hint("/chat/completions"), "the address is /v1/chat/completions" + base);
  EXPECT_EQ(hint("/v1/v1/models"), "the address is /v1/models" + base);
  EXPECT_EQ(hint("/v1/health"), "the address is /health" + base);
  EXPECT_EQ(hint("/v1/embeddings"), "there are /v1/chat/completions, /v1/models, /v1/models/{id}");
  for (const char* path : {"/nothing", "/api/generate", "/"}) {
    EXPECT_EQ(hint(path), "there are /health, /v1/chat/completions, /v1/models, /v1/models/{id}");
  }
  EXPECT_EQ(Routes().hint_for({"nothing"}), "check the address");
}

// llama-server has /completion beside its /v1/completions.
TEST(Routes, TellThePluralOfAnEnd) {
  Routes routes;
  routes.add("POST", "/v1/chat/completions", echo);
  routes.add("POST", "/v1/completions", echo);
  routes.add("GET", "/", echo);
  routes.add("GET", "/page/main.js", echo);
  const auto hint = [&](std::string_view path) { return routes.hint_for(*split_path(path)); };
  EXPECT_EQ(hint("/completion"), "the address is /v1/completions");
  EXPECT_EQ(hint("/v1/completion"), "the address is /v1/completions");
  EXPECT_EQ(hint("/v1/chat/completion"), "the address is /v1/chat/completions");
  EXPECT_TRUE(hint("/completions").starts_with("the address is /v1/completions; look at "));
  EXPECT_EQ(hint("/slots"), "there are /v1/chat/completions, /v1/completions");
}

TEST(Routes, TricksWithPathsAreErrors) {
  for (const char* path : {"", "x", "/a/../b", "/a/%2e%2E/b", "/./a", "/%", "/%4", "/%zz", "/a%00b",
                           "/a%0d%0ab", "/%ff", "/%c0%ae"}) {
    EXPECT_FALSE(split_path(path)) << path;
  }
  EXPECT_EQ(split_path("/a%2e%2fb").value(), (std::vector<std::string>{"a./b"}));
  EXPECT_EQ(split_path("/%41")->front(), "A");
}

TEST(Routes, TricksWithPathsAreRefusedOverSockets) {
  const auto server = start(echo_routes());
  for (const char* path : {"/echo/../echo/a", "/echo/%2e%2e", "/echo/%00", "/echo/%", "/echo/%ff",
                           "http://localhost/echo/a", "/echo/a?q=%zz"}) {
    RawClient client(server->url());
    EXPECT_EQ(client.ask(get(path)).status, 400) << path;
  }
  for (const char* path : {"/echo", "/echo/", "/echo/a/b", "//echo/a", "/ECHO/a"}) {
    RawClient client(server->url());
    EXPECT_EQ(client.ask(get(path)).status, 404) << path;
  }
}

}  // namespace
}  // namespace millrace::http
