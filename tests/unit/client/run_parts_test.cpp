// Tests the files from which a run goes on: manifest, checkpoint, output file, line ids.
#include <gtest/gtest.h>

#include <filesystem>

#include "client/lines/checkpoint.hpp"
#include "client/lines/line_id.hpp"
#include "client/lines/output_file.hpp"
#include "client/run/backend.hpp"
#include "client/run/manifest.hpp"
#include "client/run/run_folder.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

std::string output_line(std::uint64_t number, const std::string& rest = "\"error\":null}") {
  return "{\"id\":\"" + line_id(number, number * 31) + "\"," + rest + "\n";
}

constexpr std::uint64_t everything = ~0ull;  // bytes of the output that are known to be on disk

class RunParts : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(RunParts, LineIdsAreParsedBack) {
  EXPECT_EQ(line_id(17, 0xc0ffee), "17-0000000000c0ffee");
  EXPECT_EQ(parse_line_id("17-0000000000c0ffee"), (LineId{17, 0xc0ffee}));
  EXPECT_EQ(line_id(17, 0xc0ffee, 2), "17-0000000000c0ffee.2");
  EXPECT_EQ(parse_line_id("17-0000000000c0ffee.2"), (LineId{17, 0xc0ffee, 2}));
  for (const char* bad :
       {"", "17", "17-", "-0000000000c0ffee", "x-0000000000c0ffee", "17-0000000000c0ffeg",
        "17-0000000000c0ffee0", "0-0000000000c0ffee", "17-0000000000c0ffee.",
        "17-0000000000c0ffee.0", "17-0000000000c0ffee.x", "17-0000000000c0ffee.1.1"}) {
    EXPECT_EQ(parse_line_id(bad), std::nullopt) << bad;
  }
}

TEST_F(RunParts, ManifestIsReadBackAndNamesWhatDiffers) {
  Manifest manifest;
  manifest.input_path = "in \"x\"";
  manifest.input.lines = 3;
  manifest.input.last_number = 4;
  manifest.input.hash = "ab";
  manifest.settings = {{"--kv", "f16"}, {"--strict", "false"}};
  manifest.fingerprint = "f00d";
  manifest.kv = {"q8", "q8g64/q8g64 x30"};
  ASSERT_TRUE(save_manifest(*env_, folder_ / "m", manifest));
  EXPECT_EQ(load_manifest(*env_, folder_ / "m"), manifest);
  EXPECT_TRUE(check_settings(manifest, manifest.settings));
  const Status other = check_settings(manifest, {{"--kv", "q8"}, {"--strict", "false"}});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::settings_changed);
  EXPECT_NE(other.error().message.find("--kv"), std::string::npos);
  EXPECT_NE(other.error().hint.find("--restart"), std::string::npos);
  EXPECT_FALSE(check_settings(manifest, {{"--kv", "f16"}}).has_value());
}

TEST_F(RunParts, AnOlderManifestHasNoKvPolicy) {
  Manifest manifest;
  manifest.settings = {{"--kv", "auto"}};
  manifest.fingerprint = "f00d";
  folder_.write("m", R"({"version":1,"input":"","lines":0,"last_line":0,"lines_hash":"",)"
                     R"("settings":{"--kv":"auto"},"fingerprint":"f00d"})");
  EXPECT_EQ(load_manifest(*env_, folder_ / "m"), manifest);
  const Error other = other_engine(manifest, "beef", {"q8", "q8g64/q8g64 x30"});
  EXPECT_NE(other.message.find("fingerprint is beef, but this run began with f00d"),
            std::string::npos);
  EXPECT_NE(other.message.find("KV policy"), std::string::npos);
}

TEST_F(RunParts, PoliciesOfTheSameMeaningAreNoChange) {
  const auto same = [](const std::string& then, const std::string& now,
                       const EffectiveKv& kv = {}) {
    Manifest manifest;
    manifest.settings = {{"--kv", then}};
    manifest.kv = kv;
    return check_settings(manifest, {{"--kv", now}}).has_value();
  };
  EXPECT_TRUE(same("k5v3", "r5/r3"));
  EXPECT_TRUE(same("k5v3 --kv-protect first:2,last:1", "r5/r3~2,1"));
  EXPECT_TRUE(same("q8 --kv-center a b.keys", "q8g64 --kv-center a b.keys"));
  EXPECT_TRUE(same("auto --kv-protect layer:3,none", "auto --kv-protect none,layer:3"));
  EXPECT_FALSE(same("k5v3", "k4v3"));
  EXPECT_FALSE(same("k5v3", "k5v3 --kv-protect first:2"));
  EXPECT_FALSE(same("q8 --kv-center a.keys", "q8"));
  EXPECT_FALSE(same("q8 --kv-center a.keys", "q8 --kv-center b.keys"));
  // The policy that auto chose, given by name.
  const EffectiveKv kv{"k8v4", "q8g64/r4 x30"};
  EXPECT_TRUE(same("auto", "q8g64/r4", kv));
  EXPECT_FALSE(same("auto", "q8", kv));
  EXPECT_FALSE(same("auto", "k8v4"));
  EXPECT_FALSE(same("k8v4", "auto", kv));
}

TEST_F(RunParts, AnotherChoiceOfAutoNamesBothPolicies) {
  folder_.write("in", "a\nb\n");
  auto run = RunFolder::open(*env_, {{folder_ / "in"}, folder_ / "out"}, {{"--kv", "auto"}}, false);
  ASSERT_TRUE(run.has_value()) << run.error().text();
  ASSERT_TRUE(run->meet_engine("one", {"q8", "q8g64/q8g64 x30"}));
  EXPECT_TRUE(run->meet_engine("one", {"q8", "q8g64/q8g64 x30"}));
  const Status other = run->meet_engine("two", {"k8v4", "q8g64/r4 x30"});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::settings_changed);
  EXPECT_EQ(other.error().message,
            "--kv auto meant q8 (q8g64/q8g64 x30) when this run began and means k8v4 "
            "(q8g64/r4 x30) now: the output would mix results of both");
  EXPECT_EQ(other.error().hint, "give --kv q8, or start over with --restart");
  EXPECT_NE(run->meet_engine("two", {"q8", "q8g64/q8g64 x30"}).error().message.find("fingerprint"),
            std::string::npos);
}

TEST_F(RunParts, DamagedOrNewerManifest) {
  folder_.write("m", "{\"version\":");
  EXPECT_EQ(load_manifest(*env_, folder_ / "m").error().code, Code::ledger_corrupt);
  folder_.write("m", "{\"version\":1}");
  EXPECT_EQ(load_manifest(*env_, folder_ / "m").error().code, Code::ledger_corrupt);
  folder_.write("m", "{\"version\":99}");
  EXPECT_EQ(load_manifest(*env_, folder_ / "m").error().code, Code::ledger_newer);
}

TEST_F(RunParts, CheckpointIsReadBackAndEmptyIfAbsent) {
  EXPECT_EQ(load_checkpoint(*env_, folder_ / "c"), Checkpoint{});
  const Checkpoint checkpoint{"e", 5, 600};
  ASSERT_TRUE(save_checkpoint(*env_, folder_ / "c", checkpoint));
  EXPECT_EQ(load_checkpoint(*env_, folder_ / "c"), checkpoint);
}

TEST_F(RunParts, OutputKnowsItsLinesAndCutsATornOne) {
  folder_.write("out", output_line(2) + output_line(5, "\"error\":{}}") + "{\"id\":\"1-00");
  auto output = OutputFile::open(*env_, folder_ / "out", 6, everything);
  ASSERT_TRUE(output.has_value()) << output.error().text();
  EXPECT_TRUE(output->holds(2) && output->holds(5));
  EXPECT_FALSE(output->holds(1) || output->holds(6) || output->holds(7));
  EXPECT_EQ(output->lines(), 2U);
  EXPECT_EQ(output->failed_lines(), 1U);
  EXPECT_EQ(output->cut_bytes(), 11U);
  ASSERT_TRUE(output->append(1, output_line(1), false));
  ASSERT_TRUE(output->sync());
  EXPECT_EQ(folder_.read("out"), output_line(2) + output_line(5, "\"error\":{}}") + output_line(1));
  EXPECT_FALSE(output->append(1, output_line(1), false).has_value()) << "written twice";
}

TEST_F(RunParts, OutputKeepsOnlyWhatWasSynced) {
  const std::string kept = output_line(2) + output_line(1);
  folder_.write("out", kept + output_line(3) + std::string(40, '\0') + output_line(4));
  const auto output = OutputFile::open(*env_, folder_ / "out", 6, kept.size());
  ASSERT_TRUE(output.has_value()) << output.error().text();
  EXPECT_EQ(output->lines(), 2U);
  EXPECT_FALSE(output->holds(3) || output->holds(4));
  EXPECT_EQ(folder_.read("out"), kept);
}

TEST_F(RunParts, RefusesAnOutputThatHoldsSomethingElse) {
  for (const std::string& content :
       {std::string("mine\n"), std::string("mine"), output_line(1) + "mine", output_line(9),
        output_line(1) + output_line(1)}) {
    folder_.write("out", content);
    const auto output = OutputFile::open(*env_, folder_ / "out", 3, everything);
    ASSERT_FALSE(output.has_value());
    EXPECT_EQ(output.error().code, Code::conflict);
    EXPECT_EQ(folder_.read("out"), content);
  }
}

TEST_F(RunParts, OutputLinesLongerThanTheScanBuffer) {
  const std::string filler = "\"x\":\"" + std::string(3'000'000, 'x') + "\",\"error\":null}";
  folder_.write("out", output_line(1, filler) + output_line(2) + output_line(3, filler));
  const auto output = OutputFile::open(*env_, folder_ / "out", 3, everything);
  ASSERT_TRUE(output.has_value()) << output.error().text();
  EXPECT_EQ(output->lines(), 3U);
  EXPECT_EQ(output->failed_lines(), 0U);
}

TEST_F(RunParts, AFolderBeginsGoesOnAndLocks) {
  folder_.write("in", "a\nb\n");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  {
    auto first = RunFolder::open(*env_, paths, {{"--kv", "f16"}}, false);
    ASSERT_TRUE(first.has_value()) << first.error().text();
    EXPECT_FALSE(first->resumed());
    EXPECT_EQ(RunFolder::open(*env_, paths, {{"--kv", "f16"}}, false).error().code,
              Code::output_in_use);
    ASSERT_TRUE(first->meet_engine("one"));
    ASSERT_TRUE(first->meet_engine("one"));
    EXPECT_EQ(first->meet_engine("two").error().code, Code::settings_changed);
  }
  auto again = RunFolder::open(*env_, paths, {{"--kv", "f16"}}, false);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->resumed());
  EXPECT_EQ(again->meet_engine("two").error().code, Code::settings_changed);
  again = fail(Code::internal, "closed");
  EXPECT_EQ(RunFolder::open(*env_, paths, {{"--kv", "q8"}}, false).error().code,
            Code::settings_changed);
}

TEST_F(RunParts, ARunThatNoEngineJoinedMayGetOtherSettings) {
  folder_.write("in", "a\nb\n");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  const auto open = [&](const std::string& device) {
    return RunFolder::open(*env_, paths, {{"--device", device}}, false);
  };
  {
    auto mistyped = open("nonsens");
    ASSERT_TRUE(mistyped.has_value()) << mistyped.error().text();
    // A bad line gets its error before any engine joins.
    ASSERT_TRUE(mistyped->output().append(1, output_line(1, "\"error\":{}}"), true));
    ASSERT_TRUE(mistyped->settle("", 0));
  }
  {
    auto mended = open("nonsense");
    ASSERT_TRUE(mended.has_value()) << mended.error().text();
    EXPECT_FALSE(mended->resumed());
    EXPECT_EQ(mended->output().lines(), 0U);
    ASSERT_TRUE(mended->output().append(1, output_line(1, "\"error\":{}}"), true));
    ASSERT_TRUE(mended->settle("", 0));
  }
  const std::string precious(folder_.read("out").size(), 'p');
  folder_.write("out", precious);
  EXPECT_EQ(open("other").error().code, Code::settings_changed);
  EXPECT_EQ(folder_.read("out"), precious);
}

TEST_F(RunParts, UndoRemovesWhatTheRunMadeAndNothingElse) {
  namespace fs = std::filesystem;
  folder_.write("in", "a\nb\n");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  const auto undo = [&](const std::string& theirs) {
    auto run = RunFolder::open(*env_, paths, {}, false);
    ASSERT_TRUE(run.has_value()) << run.error().text();
    for (const char* ours : {"engine.log", "ledger.sqlite", "ledger.sqlite-wal"}) {
      folder_.write(std::string("out.millrace/") + ours, "x");
    }
    ASSERT_TRUE(run->settle("", 0));
    if (!theirs.empty()) fs::create_directories(folder_ / ("out.millrace/" + theirs));
    EXPECT_TRUE(run->undo(UndoLog::remove));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  };
  undo("");
  EXPECT_FALSE(fs::exists(folder_ / "out.millrace"));
  undo("papers/old");  // another program put it there meanwhile
  EXPECT_TRUE(fs::exists(folder_ / "out.millrace/papers/old"));
  folder_.write("out.millrace/mine.txt", "precious");
  undo("");  // the folder existed before
  EXPECT_EQ(folder_.read("out.millrace/mine.txt"), "precious");
  EXPECT_EQ(env_->list(folder_ / "out.millrace"), (std::vector<std::string>{"mine.txt", "papers"}));
  fs::remove_all(folder_ / "out.millrace");
  fs::create_directory(folder_ / "out.millrace");
  undo("");
  EXPECT_TRUE(fs::is_empty(folder_ / "out.millrace"));
}

TEST_F(RunParts, ARestartKeepsTheEarlierRunUntilAnEngineJoins) {
  folder_.write("in", "a\nb\n");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  const auto open = [&](const char* device, bool restart) {
    return RunFolder::open(*env_, paths, {{"--device", device}}, restart);
  };
  const std::string line = output_line(1, "\"error\":null}");
  {
    auto run = open("a", false);
    ASSERT_TRUE(run && run->meet_engine("f") && run->output().append(1, line, false) &&
                run->settle("epoch", 1));
  }
  for (const UndoLog log : {UndoLog::remove, UndoLog::keep}) {
    auto run = open("b", true);
    ASSERT_TRUE(run.has_value()) << run.error().text();
    EXPECT_TRUE(run->replaces());
    EXPECT_EQ(run->output().lines(), 0U);
    folder_.write("out.millrace/engine.log", "words");
    EXPECT_TRUE(run->undo(log));
    EXPECT_EQ(folder_.read("out"), line);
    EXPECT_EQ(std::filesystem::exists(folder_ / "out.millrace/engine.log"), log == UndoLog::keep);
  }
  EXPECT_TRUE(open("b", true).has_value());  // like a killed run, which undoes nothing
  {
    auto run = open("a", false);
    ASSERT_TRUE(run.has_value()) << run.error().text();
    EXPECT_TRUE(run->resumed() && run->output().lines() == 1 && run->checkpoint().number == 1);
  }
  {
    auto run = open("b", true);
    ASSERT_TRUE(run && run->meet_engine("g"));
    EXPECT_FALSE(run->replaces() || run->undo(UndoLog::remove));
  }
  EXPECT_EQ(folder_.read("out"), "");
  EXPECT_EQ(env_->list(folder_ / "out.millrace"),
            (std::vector<std::string>{"engine.log", "lines", "lock", "manifest.json"}));
}

// Readers follow the link, and the file keeps its permissions.
TEST_F(RunParts, ARestartWritesTheFileThatALinkLeadsTo) {
  namespace fs = std::filesystem;
  folder_.write("in", "a\n");
  fs::create_directory(folder_ / "data");
  folder_.write("data/out", output_line(1, "\"error\":{}}"));
  fs::permissions(folder_ / "data/out", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("data/out", folder_ / "out");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  for (const bool meets : {false, true}) {
    auto run = RunFolder::open(*env_, paths, {}, true);
    ASSERT_TRUE(run.has_value()) << run.error().text();
    EXPECT_EQ(folder_.read("data/out"), "");
    EXPECT_TRUE(meets ? run->meet_engine("f").has_value() : run->undo(UndoLog::remove));
    EXPECT_EQ(folder_.read("data/out").empty(), meets);
    EXPECT_TRUE(fs::is_symlink(folder_ / "out"));
    EXPECT_EQ(fs::status(folder_ / "data/out").permissions(),
              fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_FALSE(fs::exists(folder_ / "data/out.replaced"));
  }
}

// The restart is killed between two moves. The link's target does not exist then, but its path is
// still where the results belong.
TEST_F(RunParts, AnInterruptedRestartRestoresTheFileThatALinkLeadsTo) {
  namespace fs = std::filesystem;
  folder_.write("in", "a\n");
  fs::create_directory(folder_ / "data");
  const std::string before = output_line(1, "\"error\":{}}");
  folder_.write("data/out", before);
  fs::create_symlink("data/out", folder_ / "out");
  const RunPaths paths{{folder_ / "in"}, folder_ / "out"};
  ASSERT_TRUE(RunFolder::open(*env_, paths, {}, true).has_value());
  fs::remove(folder_ / "data/out");  // the restart has not made it yet
  static_cast<void>(RunFolder::open(*env_, paths, {}, false));
  EXPECT_EQ(folder_.read("data/out"), before);
  EXPECT_TRUE(fs::is_symlink(folder_ / "out"));
  EXPECT_FALSE(fs::exists(folder_ / "data/out.replaced"));
}

TEST_F(RunParts, ARestartIsRefusedIfAFileIsInItsWay) {
  folder_.write("in", "a\n");
  folder_.write("out", output_line(1, "\"error\":{}}"));
  folder_.write("out.replaced", "precious");
  const std::string before = folder_.read("out");
  const auto run = RunFolder::open(*env_, {{folder_ / "in"}, folder_ / "out"}, {}, true);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::conflict);
  EXPECT_EQ(folder_.read("out.replaced"), "precious");
  EXPECT_EQ(folder_.read("out"), before);
}

// An engine that ends itself says why. A broker that ends it would blame the job.
TEST(Backend, ItsBrokerWaitsLongerForAStepThanItsEngine) {
  for (const std::uint32_t limit_s : {1u, 120u, 86'400u}) {
    EXPECT_GE(hang_ms(limit_s), limit_s * 1'000 + 5'000);
  }
}

}  // namespace
}  // namespace millrace::client
