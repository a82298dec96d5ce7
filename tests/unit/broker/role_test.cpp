// Which roles a key needs for which message, and what it is told where it lacks them.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string_view>

#include "broker/core/message_roles.hpp"
#include "schemas/base/env.hpp"
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

TEST(Roles, AnOperatorSeesThatTheBrokerWorksAndNoMore) {
  auto grants = Tenants::grants();
  grants.push_back(grant_to("operator", "A", {KeyRole::operate}));
  Tenants world;
  world.reconfigure(Tenants::config(grants));
  world.keys[World::client("operator")] = "key of operator";
  world.restart();
  world.join_client("a");
  world.join_client("operator");
  world.submit_as("a", {job_body("x", "*", "b")});
  EXPECT_EQ(world.ask_as<StatusAnswer>("operator", StatusRequest{}).counts.queued, 1u);
  StatusRequest of_job, of_stream, of_batch;
  of_job.job = "x";
  of_stream.stream = "results";
  of_batch.batch = "b";
  for (const StatusRequest& named : {of_job, of_stream, of_batch}) {
    EXPECT_EQ(world.ask_as<Refused>("operator", named).error.code, Code::unauthorized);
  }
}

using Table = std::map<std::pair<std::string, std::string>, std::string>;

// The words of a text that stand in backquotes.
std::vector<std::string> quoted_words(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t begin = text.find('`'), end = text.find('`', begin + 1);
    if (begin == text.npos || end == text.npos) return words;
    words.emplace_back(text.substr(begin + 1, end - begin - 1));
    text.remove_prefix(end + 1);
  }
}

// The table of schemas/README.md: the roles by endpoint and message.
Table documented_roles() {
  const std::string path = MILLRACE_SOURCE_DIR "/schemas/README.md";
  const std::string text = read_file(*posix_env(), path, limits::MiB).value_or("");
  const std::size_t begin = text.find("### What a key may send");
  if (begin == text.npos) return {};
  std::istringstream lines(text.substr(begin));
  Table table;
  for (std::string line; std::getline(lines, line) && !line.starts_with("The doorbell");) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    std::string roles;
    for (const auto& role : quoted_words(cells.at(2))) roles += (roles.empty() ? "" : ",") + role;
    const std::string messages = cells[1].substr(0, cells[1].find(';'));
    for (const std::string& message : quoted_words(messages)) {
      const auto [place, fresh] =
          table.emplace(std::pair(quoted_words(cells[0]).at(0), message), roles);
      EXPECT_TRUE(fresh) << message << " stands there twice";
    }
  }
  return table;
}

// Whether a broker without keys takes this kind of message at this endpoint.
bool is_taken(const Peer& peer, const Message& message) {
  if (std::holds_alternative<Hello>(message) || std::holds_alternative<Goodbye>(message)) {
    return true;
  }
  World world;
  peer.endpoint == Endpoint::client ? world.join_client("x") : world.join_engine("x");
  world.say(peer, message, 9);
  const auto refused = world.take<Refused>(peer);
  return refused.empty() || refused[0].error.message.find("do not send") == std::string::npos;
}

template <std::size_t... Is>
std::vector<Message> each_kind(std::index_sequence<Is...>) {
  return {Message(std::in_place_index<Is>)...};
}

TEST(Roles, TheTableForUsersIsThatOfTheBroker) {
  Table actual;
  for (const Message& message :
       each_kind(std::make_index_sequence<std::variant_size_v<Message>>())) {
    const std::string kind(kind_name(message));
    for (const auto& [place, peer] :
         {std::pair("clients", World::client("x")), std::pair("engines", World::engine("x"))}) {
      if (!is_taken(peer, message)) continue;
      actual[{place, kind}] = roles_for(peer.endpoint, message).text();
    }
  }
  actual[{"push", "submit"}] = roles_for(Endpoint::push, Submit{}).text();
  EXPECT_EQ(documented_roles(), actual);
}

}  // namespace
}  // namespace millrace::broker::testing
