// Where the server may listen.
#include "http/address.hpp"

#include <gtest/gtest.h>

namespace millrace::http {
namespace {

TEST(Address, IsHostAndPort) {
  EXPECT_EQ(parse_address("127.0.0.1:8080")->host, "127.0.0.1");
  EXPECT_EQ(parse_address("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_address(":80")->host, "");
  EXPECT_EQ(parse_address("localhost:0")->port, 0);
  for (const char* bad : {"", "8080", "localhost", "localhost:", "localhost:x", "localhost:70000",
                          "::1:80", "localhost:-1", "localhost:80/"}) {
    EXPECT_EQ(parse_address(bad).error().code, Code::usage) << bad;
  }
}

TEST(Address, TellsWhetherOthersCanReachIt) {
  EXPECT_TRUE(*is_loopback({"127.0.0.1", 80}));
  EXPECT_TRUE(*is_loopback({"127.8.9.1", 80}));
  EXPECT_TRUE(*is_loopback({"::1", 80}));
  EXPECT_FALSE(*is_loopback({"", 80}));
  EXPECT_FALSE(*is_loopback({"0.0.0.0", 80}));
  EXPECT_FALSE(*is_loopback({"192.0.2.1", 80}));
  EXPECT_EQ(is_loopback({"no such host", 80}).error().code, Code::usage);
}

TEST(Address, OnlyKeysOpenItToOthers) {
  EXPECT_TRUE(check_listen("127.0.0.1:80", false, "a server", ""));
  EXPECT_TRUE(check_listen(":80", true, "a server", ""));
  const Status open = check_listen(":80", false, "a server", "make keys");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code, Code::unauthorized);
  EXPECT_TRUE(open.error().message.starts_with("a server at :80: other machines"));
  EXPECT_EQ(open.error().hint, "make keys");
  EXPECT_EQ(check_listen("80", true, "a server", "").error().code, Code::usage);
}

TEST(Address, ListensAndTellsTheRealPort) {
  auto listener = Listener::open({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  const auto real = parse_address(listener->authority());
  ASSERT_TRUE(real);
  EXPECT_NE(real->port, 0);
  EXPECT_EQ(Listener::open(*real).error().code, Code::io_error);
}

TEST(Address, HostsAreCutOutOfAuthorities) {
  EXPECT_EQ(host_of("localhost:80"), "localhost");
  EXPECT_EQ(host_of("localhost"), "localhost");
  EXPECT_EQ(host_of("[::1]:80"), "::1");
  EXPECT_EQ(host_of("[::1"), "::1");
  EXPECT_TRUE(is_numeric_host("127.0.0.1"));
  EXPECT_TRUE(is_numeric_host("::1"));
  EXPECT_FALSE(is_numeric_host("127.0.0.1.example.org"));
}

}  // namespace
}  // namespace millrace::http
