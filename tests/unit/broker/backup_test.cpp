// Backups as a client asks for them: one at a time, in steps, each told how far it is.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer asker = World::client("c");

// The ledger's part: a backup of `steps` steps, which fails at the step `fails_at`.
struct Copies {
  int steps = 3, fails_at = 0;
  int done = 0, begun = 0;
  bool cancelled = false;

  Result<Reply> step(const BackUp& op) {
    if (op.cancel) {
      cancelled = true;
      return BackUpReply{};
    }
    begun += done == 0 ? 1 : 0;
    if (++done == fails_at) {
      done = 0;
      return fail(Code::disk_full, "no space for " + op.name, "free some");
    }
    return BackUpReply{"/backups/" + op.name, 300, 100u * static_cast<std::uint64_t>(done),
                       done == steps};
  }
};

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    world_.instead = [this](const Operation& operation) -> std::optional<Result<Reply>> {
      const auto* op = std::get_if<BackUp>(&operation);
      if (op == nullptr) return std::nullopt;
      return copies_.step(*op);
    };
    world_.join_client("c");
  }
  void ask(const std::string& name) { world_.say(asker, BackupRequest{name}, 3); }
  BackupAnswer answer() {
    auto answers = world_.take<BackupAnswer>(asker);
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? BackupAnswer{} : answers.front();
  }
  World world_;
  Copies copies_;
};

TEST_F(BackupTest, GoesOnByItselfAndTellsHowFarItIs) {
  world_.hold_commits = true;
  ask("a");
  ASSERT_TRUE(world_.commit_one());
  EXPECT_EQ(answer().copied, 100u);
  EXPECT_TRUE(world_.take<BackupAnswer>(asker).empty());
  ASSERT_TRUE(world_.commit_one());
  ask("a");
  EXPECT_EQ(answer().copied, 200u);
  world_.commit();
  ask("a");
  const BackupAnswer last = answer();
  EXPECT_TRUE(last.done);
  EXPECT_EQ(last.copied, last.bytes);
  EXPECT_EQ(last.folder, "/backups/a");
  EXPECT_EQ(copies_.begun, 1);
}

TEST_F(BackupTest, ItsEndIsToldOnceSoThatTheNameAskedForAgainIsNoOldCopy) {
  copies_.steps = 1;
  ask("a");
  EXPECT_TRUE(answer().done);
  EXPECT_TRUE(std::ranges::any_of(world_.notes, [](const auto& note) {
    return note.text == "the backup a is done: /backups/a, 300 bytes";
  }));
  world_.instead = [](const Operation&) -> std::optional<Result<Reply>> {
    return fail(Code::conflict, "there is a backup named a already", "choose another name");
  };
  ask("a");
  EXPECT_EQ(world_.refusal(asker), Code::conflict);
}

TEST_F(BackupTest, AnotherNameIsRefusedWhileOneIsUnderWay) {
  world_.hold_commits = true;
  ask("a");
  ask("b");
  EXPECT_EQ(world_.refusal(asker), Code::conflict);
  world_.commit();
  copies_.done = 0;
  ask("b");
  world_.commit();
  ask("b");
  EXPECT_EQ(world_.take<BackupAnswer>(asker).back().folder, "/backups/b");
}

TEST_F(BackupTest, AnErrorOfTheFirstStepIsTheAnswer) {
  copies_.fails_at = 1;
  ask("a");
  EXPECT_EQ(world_.refusal(asker), Code::disk_full);
  copies_.fails_at = 0;
  ask("a");
  EXPECT_EQ(answer().copied, 100u);
}

TEST_F(BackupTest, AnErrorInTheMiddleIsLoggedAndToldOnceAndThenItBeginsAnew) {
  copies_.fails_at = 2;
  ask("a");
  EXPECT_EQ(answer().copied, 100u);
  ASSERT_FALSE(world_.notes.empty());
  EXPECT_EQ(world_.notes.back().level, NoteLevel::error);
  EXPECT_NE(world_.notes.back().text.find("no space for a"), std::string::npos);
  copies_.fails_at = 0;
  ask("a");
  EXPECT_EQ(world_.refusal(asker), Code::disk_full);
  EXPECT_EQ(copies_.begun, 1) << "whoever asks how far it is begins no other backup";
  ask("a");
  EXPECT_EQ(answer().copied, 100u);
  EXPECT_EQ(copies_.begun, 2);
}

TEST_F(BackupTest, ADrainDropsTheOneUnderWayAndBeginsNone) {
  world_.hold_commits = true;
  copies_.steps = 1'000;
  ask("a");
  world_.feed(Drain{});
  ask("b");
  EXPECT_EQ(world_.refusal(asker), Code::draining);
  world_.commit();
  EXPECT_TRUE(copies_.cancelled);
  EXPECT_EQ(copies_.done, 1);
  EXPECT_TRUE(world_.broker().stopped()) << "a backup keeps no broker from its end";
}

TEST_F(BackupTest, ADrainBetweenItsStepsIsNotHeldUpByIt) {
  world_.hold_commits = true;
  copies_.steps = 1'000;
  ask("a");
  ASSERT_TRUE(world_.commit_one());
  world_.feed(Drain{});
  world_.commit();
  EXPECT_EQ(copies_.done, 2) << "the step that was asked for already";
  EXPECT_TRUE(world_.broker().stopped());
}

TEST(Backup, OfALedgerInMemoryIsRefused) {
  World world;
  world.join_client("c");
  world.say(asker, BackupRequest{"a"}, 3);
  const auto refused = world.take<Refused>(asker);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::usage);
  EXPECT_NE(refused[0].error.message.find("not in a file"), std::string::npos);
}

}  // namespace
}  // namespace millrace::broker::testing
