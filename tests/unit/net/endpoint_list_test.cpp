// Tests that a list of endpoints is read as it was written, and used in turn.
#include "schemas/base/net/endpoint_list.hpp"

#include <gtest/gtest.h>

namespace millrace::net {
namespace {

using Endpoints = std::vector<std::string>;

TEST(EndpointList, CommasPartEndpoints) {
  EXPECT_EQ(EndpointList("tcp://a:1").all(), Endpoints{"tcp://a:1"});
  EXPECT_EQ(EndpointList("tcp://a:1,ipc:///b").all(), (Endpoints{"tcp://a:1", "ipc:///b"}));
  EXPECT_EQ(EndpointList("ipc:///a,b,inproc://c").all(), (Endpoints{"ipc:///a,b", "inproc://c"}))
      << "a path may have commas";
  EXPECT_EQ(EndpointList("").all(), Endpoints{""});
  EXPECT_EQ(EndpointList("tcp://a:1,,tcp://b:1").all(), (Endpoints{"tcp://a:1,", "tcp://b:1"}))
      << "what is no endpoint is left for the socket to refuse";
}

TEST(EndpointList, TheFirstFollowsTheLast) {
  EndpointList list("tcp://a:1,tcp://b:1");
  EXPECT_FALSE(list.alone());
  EXPECT_EQ(list.current(), "tcp://a:1");
  list.next();
  EXPECT_EQ(list.current(), "tcp://b:1");
  list.next();
  EXPECT_EQ(list.current(), "tcp://a:1");
  EXPECT_TRUE(EndpointList("tcp://a:1").alone());
}

}  // namespace
}  // namespace millrace::net
