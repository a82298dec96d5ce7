// Programs that are announced are built on other threads and are there when they are asked for.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;
using testing::download;
using testing::must;
using testing::open_device;

ProgramSpec writes(std::uint32_t number) {
  return {.name = "writes",
          .text = "__kernel void f(__global uint *out) { out[get_group_id(0)] = " +
                  std::to_string(number) + "; }\n"};
}

TEST(AnnouncedPrograms, AreThereWhenTheyAreAskedFor) {
  const auto device = open_device({.build_threads = 4});
  constexpr std::uint32_t count = 12;
  std::vector<Kernel> kernels(count);
  const auto prepare = [&]() -> Status {
    for (std::uint32_t i = 0; i < count; ++i) {
      MILLRACE_ASSIGN(const Program program, device->build(writes(100 + i)));
      MILLRACE_ASSIGN(kernels[i], device->kernel(program, "f"));
    }
    return {};
  };
  must(device->announce(prepare));
  for (const Kernel& kernel : kernels) EXPECT_FALSE(kernel) << "nothing is there yet";
  EXPECT_EQ(device->program_times().compiled + device->program_times().cached, 0u);
  must(prepare());
  must(device->announce(prepare));  // costs nothing the second time
  must(prepare());
  EXPECT_EQ(device->program_times().compiled + device->program_times().cached, 2 * count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Buffer out = must(device->allocate_zeroed(4, "out"));
    must(device->launch(kernels[i], {}, {out}));
    EXPECT_EQ(download<std::uint32_t>(*device, out, 1)[0], 100 + i);
  }
}

TEST(AnnouncedPrograms, FailWhereTheyAreAskedFor) {
  const auto device = open_device({.build_threads = 3});
  const ProgramSpec broken{.name = "broken", .text = "__kernel void f() { nonsense }"};
  must(device->announce([&]() -> Status {
    for (std::uint32_t i = 0; i < 5; ++i) MILLRACE_TRY(device->build(writes(200 + i)));
    MILLRACE_TRY(device->build(broken));
    return {};
  }));
  for (int i = 0; i < 2; ++i) {
    const auto program = device->build(broken);
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, Code::kernel_build);
    EXPECT_NE(program.error().message.find("nonsense"), std::string::npos);
  }
  must(device->build(writes(7)));  // one that was not announced
  // The others are never asked for; the device closes all the same.
}

TEST(AnnouncedPrograms, ThatCannotBeJoinedFailAtOnce) {
  const auto device = open_device({.build_threads = 2});
  const auto done = device->announce([&]() -> Status {
    MILLRACE_TRY(device->build({.name = "missing", .sources = {"no/such_file.cl"}}));
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::internal);
  must(device->build(writes(8)));
}

TEST(AnnouncedPrograms, AreNoneWhereOneThreadBuilds) {
  const auto device = open_device({.build_threads = 1});
  must(device->announce([&]() -> Status {
    ADD_FAILURE() << "nothing should be prepared";
    return {};
  }));
}

// Helpers fill the cache, from which programs are then built here.
class ProgramHelpers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program)) GTEST_SKIP() << "needs " << program;
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Builds some programs and a broken one; `helper` is what compiles them.
  ProgramTimes build(const std::string& helper, std::uint64_t own_number) {
    const auto device = open_device({.cache_dir = folder_.string(),
                                     .build_threads = 3,
                                     .program_helper = helper,
                                     .program_helpers = 2});
    const ProgramSpec broken{.name = "broken", .text = "__kernel void f() { nonsense }"};
    std::vector<Kernel> kernels(count);
    const auto prepare = [&]() -> Status {
      for (std::uint32_t i = 0; i < count; ++i) {
        MILLRACE_ASSIGN(const Program made,
                        device->build(writes(static_cast<std::uint32_t>(own_number) + i)));
        MILLRACE_ASSIGN(kernels[i], device->kernel(made, "f"));
      }
      return {};
    };
    must(device->announce([&]() -> Status {
      MILLRACE_TRY(device->build(broken));
      return prepare();
    }));
    const auto refused = device->build(broken);
    EXPECT_TRUE(!refused && refused.error().message.contains("nonsense"));
    must(prepare());
    for (std::uint32_t i = 0; i < count; ++i) {
      const Buffer out = must(device->allocate_zeroed(4, "out"));
      must(device->launch(kernels[i], {}, {out}));
      EXPECT_EQ(download<std::uint32_t>(*device, out, 1)[0], own_number + i);
    }
    return device->program_times();
  }

  static constexpr std::uint32_t count = 8;
  const std::string program = std::string(MILLRACE_BIN_DIR) + "/program_helper";
  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("millrace-helpers-" + std::to_string(::getpid()));
};

TEST_F(ProgramHelpers, CompileWhatIsNotInTheCache) {
  const ProgramTimes first = build(program, 300);
  EXPECT_EQ(first.compiled, count);
  EXPECT_GT(first.by_helpers, 0u);
  EXPECT_EQ(first.cached, 0u);
  const ProgramTimes second = build(program, 300);
  EXPECT_EQ(second.by_helpers, 0u);
  EXPECT_EQ(second.cached, count);
}

// One that does not exist, and one that ends at once.
TEST_F(ProgramHelpers, AreDoneWithoutWhereTheyFail) {
  for (const auto& [helper, number] :
       {std::pair("/no/such/program", 400), std::pair("/bin/false", 500)}) {
    const ProgramTimes times = build(helper, static_cast<std::uint64_t>(number));
    EXPECT_EQ(times.compiled, count) << helper;
    EXPECT_EQ(times.by_helpers, 0u) << helper;
  }
}

}  // namespace
}  // namespace millrace::engine
