#include "broker/ledger/disk_reserve.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "schemas/base/fault_env.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::broker {
namespace {

TEST(DiskReserve, SaysHowMuchSpaceIsNeededOrThatTheDiskTakesNoMore) {
  constexpr std::uint64_t ballast = limits::MiB;
  FaultEnv env;
  ASSERT_TRUE(env.make_directories("/d"));
  DiskReserve disk(env, "/d/ballast", ballast);
  const auto refused = [&] {
    const Status status = disk.room_for(1);
    return status ? Error{} : status.error();
  };
  env.set_capacity(2 * ballast - 1);
  EXPECT_EQ(refused().code, Code::disk_full);
  EXPECT_NE(refused().message.find("2097151 bytes left and 2097152 are needed"), std::string::npos)
      << refused().message;
  env.set_capacity(8 * ballast);
  env.set_hook([](std::string_view, const std::string& path) -> Status {
    if (path != "/d/ballast") return {};
    return fail(Code::disk_full, "a quota");
  });
  EXPECT_NE(refused().hint.find("quota"), std::string::npos) << refused().message;
  EXPECT_NE(refused().message.find("8388608 bytes left"), std::string::npos) << refused().message;
  env.set_hook({});
  EXPECT_TRUE(disk.room_for(1));
  EXPECT_TRUE(disk.held());
}

// A disk with exactly so many bytes free, the ballast aside.
struct SmallDisk {
  static constexpr std::uint64_t ballast = limits::MiB;
  FaultEnv env;
  std::shared_ptr<DiskMarks> marks = std::make_shared<DiskMarks>();
  std::optional<DiskReserve> reserve;

  SmallDisk() {
    EXPECT_TRUE(env.make_directories("/d"));
    reserve.emplace(env, "/d/ballast", ballast, marks);
    EXPECT_TRUE(reserve->keep());
  }
  bool takes_work_with_free(std::uint64_t mib) {
    env.set_capacity(ballast + mib * limits::MiB);
    const Status room = reserve->room_for(0);
    EXPECT_TRUE(room || (room.error().code == Code::disk_full && room.error().retry_ms));
    return room.has_value();
  }
};

TEST(DiskReserve, NewWorkIsRefusedBelowTheLowMarkUntilTheHighOneIsReached) {
  SmallDisk disk;
  disk.marks->low = 20 * limits::MiB;
  disk.marks->high = 30 * limits::MiB;
  EXPECT_TRUE(disk.takes_work_with_free(20));
  EXPECT_FALSE(disk.takes_work_with_free(19));
  EXPECT_FALSE(disk.takes_work_with_free(29));
  EXPECT_TRUE(disk.takes_work_with_free(30));
  EXPECT_TRUE(disk.takes_work_with_free(20));
}

TEST(DiskReserve, NoMarkIsBelowTheBallastAndMarksMayChange) {
  SmallDisk disk;
  EXPECT_TRUE(disk.takes_work_with_free(1));
  EXPECT_FALSE(disk.takes_work_with_free(0));
  EXPECT_TRUE(disk.takes_work_with_free(1)) << "without a high mark";
  disk.marks->low = disk.marks->high = 5 * limits::MiB;
  EXPECT_FALSE(disk.takes_work_with_free(4));
  disk.marks->low = disk.marks->high = 0;
  EXPECT_TRUE(disk.takes_work_with_free(4));
}

TEST(DiskReserve, WarnsOnceEachTimeThatTheDiskFillsUp) {
  std::size_t warnings = 0;
  set_up_logging({LogLevel::warn, false, [&](std::string_view line) {
                    warnings += line.find("disk fills up") != line.npos ? 1 : 0;
                  }});
  SmallDisk disk;
  disk.marks->warn = 40 * limits::MiB;
  EXPECT_TRUE(disk.takes_work_with_free(40));
  EXPECT_EQ(warnings, 0U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(disk.takes_work_with_free(39));
  EXPECT_TRUE(disk.takes_work_with_free(41));
  EXPECT_TRUE(disk.takes_work_with_free(39));
  EXPECT_EQ(warnings, 1U) << "it is about the same";
  EXPECT_TRUE(disk.takes_work_with_free(60));
  disk.env.set_capacity(30 * limits::MiB);
  EXPECT_TRUE(disk.reserve->keep());
  EXPECT_EQ(warnings, 2U) << "without new work too";
  set_up_logging({LogLevel::off, false, {}});
}

}  // namespace
}  // namespace millrace::broker
