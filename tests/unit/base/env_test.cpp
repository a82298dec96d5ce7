#include "schemas/base/env.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <utility>

namespace millrace {
namespace {

class PosixEnvTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "millrace-env-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string at(const char* name) const { return folder_ + "/" + name; }
  std::unique_ptr<Env> env_ = posix_env();
  std::string folder_;
};

TEST_F(PosixEnvTest, WritesReadsAndCuts) {
  auto file = env_->open(at("a"), OpenMode::write).value();
  ASSERT_TRUE(file->append("hello"));
  ASSERT_TRUE(file->append(" world"));
  ASSERT_TRUE(file->write_at(0, "J"));
  ASSERT_TRUE(file->write_at(13, "!"));
  ASSERT_TRUE(file->sync());
  ASSERT_TRUE(file->sync_data());
  EXPECT_EQ(file->size().value(), 14u);
  std::array<char, 32> buffer{};
  EXPECT_EQ(file->read_at(0, buffer).value(), 14u);
  EXPECT_EQ(std::string(buffer.data(), 14), std::string("Jello world\0\0!", 14));
  EXPECT_EQ(file->read_at(100, buffer).value(), 0u);
  ASSERT_TRUE(file->truncate(5));
  EXPECT_EQ(read_file(*env_, at("a"), 100).value(), "Jello");
}

TEST_F(PosixEnvTest, ModesMeanWhatTheySay) {
  EXPECT_EQ(env_->open(at("none"), OpenMode::read).error().code, Code::not_found);
  ASSERT_TRUE(env_->open(at("a"), OpenMode::create_new).value()->append("x"));
  EXPECT_EQ(env_->open(at("a"), OpenMode::create_new).error().code, Code::io_error);
  EXPECT_EQ(env_->open(at("a"), OpenMode::write).value()->size().value(), 1u);
  EXPECT_EQ(env_->open(at("a"), OpenMode::replace).value()->size().value(), 0u);
  ASSERT_TRUE(env_->open(at("t"), OpenMode::temporary).value()->append("x"));
  EXPECT_EQ(env_->open(at("t"), OpenMode::temporary).error().code, Code::io_error);
  EXPECT_TRUE(env_->drop(at("t")));
  EXPECT_EQ(env_->drop(at("t")).error().code, Code::not_found);
  EXPECT_EQ(env_->open(folder_, OpenMode::read).error().code, Code::io_error);
  EXPECT_EQ(env_->open(at("no/folder"), OpenMode::write).error().code, Code::not_found);
  const auto read_only = env_->open(at("a"), OpenMode::read).value();
  EXPECT_EQ(read_only->append("x").error().code, Code::io_error);
}

TEST_F(PosixEnvTest, FoldersAndNames) {
  ASSERT_TRUE(env_->make_directories(at("x/y/z")));
  ASSERT_TRUE(env_->make_directories(at("x/y/z")));
  ASSERT_TRUE(write_file_atomically(*env_, at("x/b"), "1"));
  ASSERT_TRUE(write_file_atomically(*env_, at("x/a"), "2"));
  ASSERT_TRUE(env_->rename(at("x/a"), at("x/b")));
  EXPECT_EQ(env_->list(at("x")).value(), (std::vector<std::string>{"b", "y"}));
  EXPECT_EQ(read_file(*env_, at("x/b"), 10).value(), "2");
  ASSERT_TRUE(env_->remove(at("x/b")));
  EXPECT_EQ(env_->remove(at("x/b")).error().code, Code::not_found);
  EXPECT_FALSE(env_->exists(at("x/b")).value());
  EXPECT_TRUE(env_->exists(at("x")).value());
  EXPECT_EQ(env_->list(at("none")).error().code, Code::not_found);
  ASSERT_TRUE(write_file_atomically(*env_, at("f"), "1"));
  EXPECT_EQ(env_->make_directories(at("f")).error().code, Code::io_error);
  EXPECT_NE(env_->make_directories(at("f/g")).error().hint.find("is a file"), std::string::npos);
  EXPECT_TRUE(env_->sync_directory(folder_));
  EXPECT_GT(env_->free_bytes(folder_).value(), 0u);
}

TEST_F(PosixEnvTest, LockIsExclusiveEvenWithinOneProcess) {
  auto lock = env_->lock(at("l")).value();
  EXPECT_EQ(env_->lock(at("l")).error().code, Code::output_in_use);
  lock.reset();
  EXPECT_TRUE(env_->lock(at("l")));
}

TEST_F(PosixEnvTest, FullDiskIsNamed) {
  if (!env_->exists("/dev/full").value()) GTEST_FAIL() << "this test needs /dev/full";
  auto file = env_->open("/dev/full", OpenMode::write).value();
  EXPECT_EQ(file->write_at(0, "x").error().code, Code::disk_full);
}

TEST_F(PosixEnvTest, ReadFileKeepsItsLimit) {
  ASSERT_TRUE(write_file_atomically(*env_, at("a"), "12345"));
  EXPECT_EQ(read_file(*env_, at("a"), 4).error().code, Code::too_large);
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

// Sets the process's umask for a scope.
class ScopedMask {
 public:
  explicit ScopedMask(mode_t mask) : before_(::umask(mask)) {}
  ~ScopedMask() { ::umask(before_); }

 private:
  mode_t before_;
};

TEST_F(PosixEnvTest, NewFilesArePrivateUnlessAUserNamesThem) {
  const ScopedMask open_to_all(0);
  ASSERT_TRUE(env_->make_directories(at("x/y")));
  EXPECT_EQ(mode_of(at("x")), 0700u);
  EXPECT_EQ(mode_of(at("x/y")), 0700u);
  for (const auto& [name, mode] : {std::pair("write", OpenMode::write),
                                   {"new", OpenMode::create_new},
                                   {"replace", OpenMode::replace}}) {
    ASSERT_TRUE(env_->open(at(name), mode));
    EXPECT_EQ(mode_of(at(name)), 0600u) << name;
  }
  ASSERT_TRUE(env_->lock(at("lock")));
  EXPECT_EQ(mode_of(at("lock")), 0600u);
  ASSERT_TRUE(write_file_atomically(*env_, at("whole"), "1"));
  EXPECT_EQ(mode_of(at("whole")), 0600u);

  const ScopedMask group_may_read(027);
  ASSERT_TRUE(env_->open(at("output"), OpenMode::write, Access::by_umask));
  EXPECT_EQ(mode_of(at("output")), 0640u);
  ASSERT_TRUE(write_file_atomically(*env_, at("plot"), "1", Access::by_umask));
  EXPECT_EQ(mode_of(at("plot")), 0640u);
  ASSERT_TRUE(env_->open(at("output"), OpenMode::write, Access::by_umask));
  EXPECT_EQ(mode_of(at("output")), 0640u) << "an output that exists keeps its mode";
  ASSERT_TRUE(env_->open(at("output"), OpenMode::read));
  EXPECT_EQ(mode_of(at("output")), 0640u) << "reading changes nothing";
  ASSERT_TRUE(env_->open(at("output"), OpenMode::write));
  EXPECT_EQ(mode_of(at("output")), 0600u) << "a file of ours was left open to others";
}

TEST(Paths, ParentDirectory) {
  EXPECT_EQ(parent_directory("a"), ".");
  EXPECT_EQ(parent_directory("/a"), "/");
  EXPECT_EQ(parent_directory("x/y/"), "x");
  EXPECT_EQ(parent_directory("/"), "/");
}

}  // namespace
}  // namespace millrace
