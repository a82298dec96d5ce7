// The lines of the audit: each request that changes more than the jobs that it names, with who sent
// it and what became of it; and each change of the list of keys.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/broker/tenants.hpp"

namespace millrace::broker::testing {
namespace {

using Lines = std::vector<std::string>;

struct Audited : Tenants {
  Audited() {
    auto grants = Tenants::grants();
    grants.push_back(grant_to("admin", "A", {KeyRole::admin}));
    grants.push_back(grant_to("operator", "A", {KeyRole::operate}));
    reconfigure(Tenants::config(grants));
    restart();
    for (const std::string name : {"a", "admin", "operator"}) {
      keys[client(name)] = "key of " + name;
      join_client(name);
    }
    notes.clear();
  }
  // The lines since the last call.
  Lines lines() {
    Lines found;
    for (const Note& note : std::exchange(notes, {})) {
      if (note.level == NoteLevel::audit) found.push_back(note.text);
    }
    return found;
  }
  Lines after(const std::string& who, Message message) {
    say(client(who), std::move(message), 9);
    return lines();
  }
};

TEST(Audit, ARequestIsToldOfWithWhatBecameOfIt) {
  Audited world;
  world.submit_as("a", {job_body("1", "*", "b"), job_body("2", "*", "b")});
  EXPECT_EQ(world.lines(), Lines());
  const std::string a = "key a of tenant A: ", admin = "key admin of tenant A: ";
  ChangeBatch change{.batch = "b", .close = true};
  change.metadata["owner"] = "somebody";
  const std::vector<std::tuple<std::string, Message, std::string>> cases{
      {"a", ChangePause{"", "", true},
       a + "done: change_pause all=true paused=true (changed=true)"},
      {"a", ChangePause{"", "", true, false},
       a + "done: change_pause all=true paused=false (changed=true)"},
      {"a", change, a + "done: change_batch batch=b close=true metadata=owner"},
      {"a", Cancel{{}, "b"},
       a + "done: cancel batch=b (cancelled=2 requested=0 ended=0 unknown=0)"},
      {"a", Retry{{}, "b"}, a + "done: retry batch=b (retried=0 not_failed=0 unknown=0)"},
      {"a", Drop{{}, "b"}, a + "done: drop batch=b (dropped=0 not_failed=0 unknown=0)"},
      {"admin", Keep{"results", {60, {}, {}}}, admin + "done: keep stream=results age_s=60"},
      {"admin", Trim{"results", 2}, admin + "done: trim stream=results first=2"},
      {"admin", Remove{"results", ""}, admin + "done: remove stream=results"},
      {"operator", DrainRequest{}, "key operator of tenant A: begun: drain_request engines=false"},
  };
  for (const auto& [who, message, line] : cases) {
    auto lines = world.after(who, message);
    ASSERT_EQ(lines.size(), 1u) << line;
    EXPECT_TRUE(lines[0].starts_with(line)) << lines[0] << "\n" << line;
  }
}

TEST(Audit, ARefusedRequestDoesNotLookLikeOneThatWasDone) {
  Audited world;
  const std::string a = "key a of tenant A: refused as ";
  const std::vector<std::tuple<std::string, Message, std::string>> cases{
      {"a", ChangePause{"", "nobody"}, a + "unknown_model: change_pause model=nobody"},
      {"a", ChangePause{"b", "", true}, a + "invalid_value: change_pause batch=b all=true"},
      {"a", ChangeBatch{.batch = "none"}, a + "not_found: change_batch batch=none"},
      {"a", Cancel{{}, "none"}, a + "not_found: cancel batch=none"},
      {"a", Retry{{"j"}, "none"}, a + "invalid_value: retry batch=none"},
      {"a", Drop{{}, "none"}, a + "not_found: drop batch=none"},
      {"admin", Trim{"nowhere", 2},
       "key admin of tenant A: refused as not_found: trim stream=nowhere first=2 ("},
      {"operator", BackupRequest{"../x"},
       "key operator of tenant A: refused as usage: backup_request name=../x ("},
  };
  for (const auto& [who, message, line] : cases) {
    const Lines lines = world.after(who, message);
    ASSERT_EQ(lines.size(), 1u) << line;
    EXPECT_TRUE(lines[0].starts_with(line)) << lines[0] << "\n" << line;
  }
}

TEST(Audit, TheLineComesWithTheAnswerAndAtTheLatestWhenTheBrokerStops) {
  Audited world;
  world.submit_as("a", {job_body("1", "*", "b")});
  world.hold_commits = true;
  EXPECT_EQ(world.after("a", Cancel{{}, "b"}), Lines());
  EXPECT_EQ(world.after("a", ChangePause{"", "", true}), Lines());
  EXPECT_TRUE(world.commit_one());
  EXPECT_EQ(world.lines().size(), 1u);
  world.feed(Drain{.engines = false, .at_once = true});
  EXPECT_EQ(world.lines(), Lines{"key a of tenant A: no answer before the broker stopped: "
                                 "change_pause all=true paused=true"});
}

TEST(Audit, WhatNamesJobsAndWhatOnlyReadsLeavesNoLine) {
  Audited world;
  world.submit_as("a", {job_body("1", "*", "b")});
  for (const Message& message : std::vector<Message>{
           Cancel{{"1"}, {}}, Retry{{"1"}, {}}, Drop{{"1"}, {}}, JobsRequest{}, BatchesRequest{},
           StatusRequest{}, StreamsRequest{}, Watch{"results", true}}) {
    EXPECT_EQ(world.after("a", message), Lines());
  }
}

TEST(Audit, EachChangeOfTheListOfKeysIsToldOfWithoutAKey) {
  Audited world;
  auto grants = Tenants::grants();  // without admin and operator
  std::erase_if(grants, [](const Grant& grant) { return grant.name == "b"; });
  grants.push_back(grant_to("fresh", "C", {KeyRole::read}));
  for (Grant& grant : grants) {
    if (grant.name == "a") grant.roles = {KeyRole::read};
    if (grant.name == "reader") grant.key = "another";
  }
  world.feed(GrantsChanged{grants});
  const Lines lines = world.lines();
  const std::string list = "the list of keys: ";
  EXPECT_EQ(lines, (Lines{list + "changed a (tenant A, roles submit,read -> tenant A, roles read)",
                          list + "removed admin (tenant A, roles admin)",
                          list + "removed b (tenant B, roles submit,read)",
                          list + "removed operator (tenant A, roles operate)",
                          list + "changed reader (tenant A, roles read -> tenant A, roles read), "
                                 "which is another key now",
                          list + "added fresh (tenant C, roles read)"}));
  for (const std::string& line : lines) EXPECT_EQ(line.find("key of"), std::string::npos) << line;
  world.feed(GrantsChanged{grants});
  EXPECT_EQ(world.lines(), Lines());
}

}  // namespace
}  // namespace millrace::broker::testing
