#include "engine/core/device/program_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/log.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;
using testing::download;
using testing::must;
using testing::open_device;
using testing::upload;

class ProgramCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("millrace-cache-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    set_up_logging(
        {.level = LogLevel::warn, .sink = [this](std::string_view line) { log_ += line; }});
  }
  void TearDown() override {
    set_up_logging({.level = LogLevel::off});
    fs::remove_all(folder_);
  }

  // Builds on a new device, runs the kernel, and returns its result.
  std::uint32_t run(const std::string& factor = "3") {
    const auto device = open_device({.cache_dir = folder_.string()});
    const Program program = must(
        device->build({.name = "cached",
                       .sources = {},
                       .defines = {"FACTOR=" + factor},
                       .text = "__kernel void f(__global uint* x) { x[0] = x[0] * FACTOR; }"}));
    Kernel kernel = must(device->kernel(program, "f"));
    const Buffer x = upload(*device, std::vector<std::uint32_t>{5});
    must(device->launch(kernel, {}, {x}));
    return download<std::uint32_t>(*device, x, 1)[0];
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    if (!fs::exists(folder_)) return out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path());
    return out;
  }

  static std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void replace(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  fs::path folder_;
  std::string log_;
};

TEST_F(ProgramCacheTest, ASecondStartUsesTheFile) {
  EXPECT_EQ(run(), 15u);
  const auto before = files();
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(before[0]).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);  // only the owner may read or write
  const auto written = fs::last_write_time(before[0]);
  EXPECT_EQ(run(), 15u);
  EXPECT_EQ(files(), before);
  EXPECT_EQ(fs::last_write_time(before[0]), written);
  EXPECT_EQ(log_, "");
}

TEST_F(ProgramCacheTest, OtherOptionsAreAnotherEntry) {
  EXPECT_EQ(run("3"), 15u);
  EXPECT_EQ(run("4"), 20u);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(ProgramCacheTest, ADamagedEntryIsRebuiltWithAWarning) {
  EXPECT_EQ(run(), 15u);
  const fs::path path = files().at(0);
  const std::string good = content(path);
  std::vector<std::string> damaged{"", "MR", good.substr(0, 40), good.substr(0, good.size() - 1),
                                   good + "x"};
  for (const std::size_t at : {std::size_t{0}, std::size_t{12}, std::size_t{27}, std::size_t{33},
                               std::size_t{40}, good.size() / 2, good.size() - 1}) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x40);
  }
  for (const std::string& bytes : damaged) {
    replace(path, bytes);
    log_.clear();
    EXPECT_EQ(run(), 15u);
    EXPECT_NE(log_.find("a cached program is damaged and is built again"), std::string::npos);
    EXPECT_NE(log_.find(path.string()), std::string::npos) << log_;
    log_.clear();
    EXPECT_EQ(run(), 15u);  // the rebuilt entry is good again
    EXPECT_EQ(log_, "");
  }
}

TEST_F(ProgramCacheTest, ABinaryThatTheDriverRefusesIsRebuiltWithAWarning) {
  EXPECT_EQ(run(), 15u);
  const fs::path path = files().at(0);
  // An entry with the right key and hash that is not a program.
  const std::string name = path.stem().string();
  const std::string hex = name.substr(name.find('-') + 1);
  const Hash128 key{std::stoull(hex.substr(0, 16), nullptr, 16),
                    std::stoull(hex.substr(16), nullptr, 16)};
  ProgramCache(folder_.string()).store(key, "cached", "this is no program");
  EXPECT_EQ(run(), 15u);
  EXPECT_NE(log_.find("the driver refuses a cached program"), std::string::npos) << log_;
}

// Sets or removes an environment variable for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~ScopedVariable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_F(ProgramCacheTest, LiesInTheHomeOrNowhere) {
  const ScopedVariable home("HOME", "/somewhere");
  {
    const ScopedVariable cache("XDG_CACHE_HOME", "/elsewhere");
    EXPECT_EQ(ProgramCache::default_folder(), "/elsewhere/millrace/programs");
  }
  const ScopedVariable cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(ProgramCache::default_folder(), "/somewhere/.cache/millrace/programs");
  EXPECT_EQ(log_, "");
  const ScopedVariable nobody("HOME", nullptr);
  EXPECT_EQ(ProgramCache::default_folder(), "");
  EXPECT_NE(log_.find("HOME"), std::string::npos);
  const ProgramCache none("");
  none.store({}, "program", "binary");
  EXPECT_FALSE(none.load({}, "program"));
}

TEST_F(ProgramCacheTest, AFolderThatCannotBeWrittenOnlyCostsTime) {
  replace(folder_, "a file where the folder should be");
  EXPECT_EQ(run(), 15u);
  EXPECT_NE(log_.find("the program cache cannot be written"), std::string::npos) << log_;
}

}  // namespace
}  // namespace millrace::engine
