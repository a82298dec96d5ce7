#include "broker/ledger/disk_reserve.hpp"

#include <gtest/gtest.h>

#include "schemas/base/fault_env.hpp"
#include "schemas/base/limits.hpp"

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

}  // namespace
}  // namespace millrace::broker
