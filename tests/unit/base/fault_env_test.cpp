// FaultEnv must fail as real disks do, or the tests that use it prove nothing.
#include "schemas/base/fault_env.hpp"

#include <gtest/gtest.h>

#include <set>

namespace millrace {
namespace {

std::string content(Env& env, const std::string& path) {
  const auto read = read_file(env, path, 1 << 20);
  return read ? *read : "<" + std::string(code_name(read.error().code)) + ">";
}

TEST(FaultEnv, BehavesAsAFileSystem) {
  FaultEnv env;
  ASSERT_TRUE(env.make_directories("/a/b"));
  auto file = env.open("/a/b/f", OpenMode::write).value();
  ASSERT_TRUE(file->append("hello"));
  ASSERT_TRUE(file->write_at(7, "x"));
  EXPECT_EQ(content(env, "/a/b/f"), std::string("hello\0\0x", 8));
  ASSERT_TRUE(file->truncate(2));
  ASSERT_TRUE(env.rename("/a/b/f", "/a/b/g"));
  EXPECT_EQ(content(env, "/a/b/g"), "he");
  EXPECT_EQ(env.list("/a").value(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(env.list("/a/b").value(), (std::vector<std::string>{"g"}));
  EXPECT_EQ(env.open("/a/b/f", OpenMode::read).error().code, Code::not_found);
  EXPECT_EQ(env.open("/no/f", OpenMode::write).error().code, Code::not_found);
  EXPECT_EQ(env.open("/a/b/g", OpenMode::create_new).error().code, Code::io_error);
  EXPECT_EQ(env.open("/a/b/g", OpenMode::replace).value()->size().value(), 0u);
  EXPECT_FALSE(env.open("/a/b/g", OpenMode::read).value()->append("x"));
  ASSERT_TRUE(env.remove("/a/b/g"));
  EXPECT_FALSE(env.exists("/a/b/g").value());
  auto lock = env.lock("/a/lock").value();
  EXPECT_EQ(env.lock("/a/lock").error().code, Code::output_in_use);
  lock.reset();
  EXPECT_TRUE(env.lock("/a/lock"));
}

TEST(FaultEnv, ACutLosesWhatWasNotSynced) {
  FaultEnv env;
  auto file = env.open("/f", OpenMode::write).value();
  ASSERT_TRUE(file->append("kept"));
  ASSERT_TRUE(file->sync());
  ASSERT_TRUE(file->append(" lost"));
  env.cut_now();
  EXPECT_FALSE(file->append("x"));
  EXPECT_FALSE(env.open("/f", OpenMode::read));
  env.restart();
  EXPECT_EQ(content(env, "/f"), "kept");
  EXPECT_FALSE(file->append("x"));  // opened before the cut
}

TEST(FaultEnv, TheCutFallsOnTheChosenOperation) {
  // create, write, sync, write: whatever is synced before the cut must be there after it.
  for (std::uint64_t at = 1; at <= 4; ++at) {
    FaultEnv env;
    env.cut_after(at);
    const auto file = env.open("/f", OpenMode::write);
    EXPECT_EQ(file.has_value(), at > 1);
    if (file) {
      EXPECT_EQ((*file)->append("a").has_value(), at > 2);
      EXPECT_EQ((*file)->sync().has_value(), at > 3);
      EXPECT_FALSE((*file)->append("b"));
    }
    EXPECT_TRUE(env.is_cut());
    env.restart();
    EXPECT_EQ(content(env, "/f"), at == 1 ? "<not_found>" : at <= 3 ? "" : "a") << at;
  }
}

TEST(FaultEnv, SeedsKeepSomeUnsyncedWritesAndTearSome) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FaultEnv env;
    auto file = env.open("/f", OpenMode::write).value();
    ASSERT_TRUE(file->append("1111"));
    ASSERT_TRUE(file->sync());
    ASSERT_TRUE(file->append("2222"));
    ASSERT_TRUE(file->append("3333"));
    env.cut_now();
    env.restart(seed);
    const std::string left = content(env, "/f");
    EXPECT_EQ(left.substr(0, 4), "1111");
    seen.insert(left);
  }
  EXPECT_TRUE(seen.contains("1111"));
  EXPECT_TRUE(seen.contains("111122223333"));
  EXPECT_TRUE(seen.contains(std::string("1111\0\0\0\0", 8) + "3333"));  // out of order
  EXPECT_TRUE(seen.contains("111122"));                                 // torn
}

TEST(FaultEnv, AtomicWritesLeaveOldOrNewAtEveryCut) {
  std::set<std::string> seen;
  for (std::uint64_t at = 1; at < 10; ++at) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      FaultEnv env;
      ASSERT_TRUE(write_file_atomically(env, "/f", "old"));
      env.cut_after(at);
      const bool done = write_file_atomically(env, "/f", "new").has_value();
      env.cut_now();
      env.restart(seed);
      const std::string left = content(env, "/f");
      EXPECT_TRUE(left == "new" || (left == "old" && !done)) << at << " " << seed << " " << left;
      seen.insert(left);
    }
  }
  EXPECT_EQ(seen.size(), 2u);
}

TEST(FaultEnv, AWriteWithoutSyncIsDetected) {
  // The mistake that write_file_atomically avoids: renaming a file that was not synced.
  bool lost = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FaultEnv env;
    ASSERT_TRUE(write_file_atomically(env, "/f", "old"));
    ASSERT_TRUE(env.open("/f.new", OpenMode::replace).value()->append("new"));
    ASSERT_TRUE(env.rename("/f.new", "/f"));
    env.cut_now();
    env.restart(seed);
    lost = lost || (content(env, "/f") != "new" && content(env, "/f") != "old");
  }
  EXPECT_TRUE(lost);
}

TEST(FaultEnv, FullDisksAndHooks) {
  FaultEnv env;
  env.set_capacity(5);
  auto file = env.open("/f", OpenMode::write).value();
  ASSERT_TRUE(file->append("1234"));
  EXPECT_EQ(env.free_bytes("/").value(), 1u);
  EXPECT_EQ(file->append("56").error().code, Code::disk_full);
  EXPECT_EQ(content(env, "/f"), "1234");
  ASSERT_TRUE(file->write_at(0, "9999"));
  env.set_hook([](std::string_view operation, const std::string&) -> Status {
    if (operation == "sync_data") return fail(Code::io_error, "a bad sector");
    return {};
  });
  EXPECT_EQ(file->sync_data().error().message, "a bad sector");
  EXPECT_TRUE(file->sync());
}

}  // namespace
}  // namespace millrace
