// Which roles a key needs for which message, and what it is told where it lacks them.
#include <gtest/gtest.h>

#include "tests/unit/broker/tenants.hpp"

namespace millrace::broker::testing {
namespace {

TEST(Roles, RolesDecideWhatAKeyMayDo) {
  Tenants world;
  world.join_client("reader");
  world.join_client("submitter");
  EXPECT_EQ(world.ask_as<Refused>("reader", Submit{{job_body("x", "*")}}).error.code,
            Code::unauthorized);
  EXPECT_EQ(world.ask_as<Refused>("reader", Cancel{{"x"}, {}}).error.code, Code::unauthorized);
  EXPECT_EQ(world.ask_as<Refused>("reader", ChangePause{"", "", true}).error.code,
            Code::unauthorized);
  EXPECT_EQ(world.ask_as<Refused>("submitter", fetch_from("results")).error.code,
            Code::unauthorized);
  EXPECT_EQ(world.ask_as<Refused>("submitter", Watch{"results", true}).error.code,
            Code::unauthorized);
  world.ask_as<Data>("reader", fetch_from("results"));
  world.ask_as<StatusAnswer>("reader", StatusRequest{});
  world.ask_as<StatusAnswer>("submitter", StatusRequest{});
  EXPECT_EQ(world.submit_as("submitter", {job_body("x", "*")}).size(), 1u);
  EXPECT_EQ(world.broker().counters().unauthorized, 5u);
}

TEST(Roles, AKeyWithoutTheRoleOfAnEndpointGetsNoSession) {
  Tenants world;
  const Peer client_as_engine = World::engine("client");
  world.keys[client_as_engine] = "key of a";
  Hello hello;
  hello.role = Role::engine;
  hello.instance = "i";
  world.say(client_as_engine, hello, 1);
  EXPECT_EQ(world.refusal(client_as_engine), Code::unauthorized);
  const Peer engine_as_client = World::client("engine");
  world.keys[engine_as_client] = "key of engine-a";
  world.say(engine_as_client, Hello{}, 1);  // it says that it is a client
  EXPECT_EQ(world.refusal(engine_as_client), Code::unauthorized);
  const Peer push{Endpoint::push, {}};
  world.keys[push] = "key of reader";
  world.say(push, Submit{{job_body("pushed", "*")}});
  StatusRequest of_job;
  of_job.job = "pushed";
  EXPECT_EQ(world.ask_as<Refused>("a", of_job).error.code, Code::not_found);
}

TEST(Roles, APeerAtTheWrongEndpointIsToldTheRightOneWhateverItsRoles) {
  Tenants world;
  const Peer client_as_engine = World::engine("client"), engine_as_client = World::client("engine");
  world.keys[client_as_engine] = "key of a";
  world.keys[engine_as_client] = "key of engine-a";
  world.say(client_as_engine, Hello{}, 1);
  auto refused = world.take<Refused>(client_as_engine);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::unexpected_message);
  EXPECT_EQ(refused[0].error.hint, "clients connect to the broker's client endpoint");
  Hello hello;
  hello.role = Role::engine;
  hello.instance = "i";
  world.say(engine_as_client, hello, 1);
  refused = world.take<Refused>(engine_as_client);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::unexpected_message);
  EXPECT_EQ(refused[0].error.hint, "engines connect to the broker's engine endpoint");
  world.keys[client_as_engine] = "key of nobody";  // is told nothing but that it is not allowed
  world.say(client_as_engine, Hello{}, 2);
  EXPECT_EQ(world.refusal(client_as_engine), Code::unauthorized);
}

TEST(Roles, ARefusalNamesEachRoleThatWouldDo) {
  auto grants = Tenants::grants();
  grants.push_back(grant_to("operator", "A", {KeyRole::operate, KeyRole::work}));
  Tenants world;
  world.reconfigure(Tenants::config(grants));
  world.keys[World::client("operator")] = "key of operator";
  world.restart();
  const auto told = [&](const char* who, Message message) {
    return world.ask_as<Refused>(who, std::move(message)).error.message;
  };
  EXPECT_EQ(told("operator", JobsRequest{}),
            "the key operator has the roles work, operate; this message needs one of the roles "
            "submit, read, admin");
  EXPECT_EQ(told("operator", Trim{"results", 2}),
            "the key operator has the roles work, operate; this message needs the role admin");
  EXPECT_EQ(told("reader", Drop{}),
            "the key reader has the role read; this message needs one of the roles submit, admin");
}

}  // namespace
}  // namespace millrace::broker::testing
