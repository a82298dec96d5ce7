#include <gtest/gtest.h>

#include <limits>
#include <regex>

#include "schemas/base/clock.hpp"
#include "schemas/base/log.hpp"

namespace millrace {
namespace {

TEST(Clock, ManualMovesOnlyWhenTold) {
  ManualClock clock(1'000);
  const std::int64_t start = clock.monotonic_us();
  EXPECT_EQ(clock.wall_us(), 1'000);
  clock.advance_us(5);
  EXPECT_EQ(clock.monotonic_us(), start + 5);
  EXPECT_EQ(clock.wall_us(), 1'005);
  clock.set_wall_us(0);
  EXPECT_EQ(clock.monotonic_us(), start + 5);
}

TEST(Clock, SystemTimeIsPlausible) {
  const SystemClock clock;
  const std::int64_t before = clock.monotonic_us();
  EXPECT_GE(clock.monotonic_us(), before);
  EXPECT_GT(clock.wall_us(), 1'600'000'000'000'000);
}

class Log : public testing::Test {
 protected:
  void start(LogLevel level, bool json) {
    set_up_logging({level, json, [this](std::string_view line) { lines_ += line; }});
  }
  void TearDown() override {
    set_up_logging({LogLevel::off, false, [](std::string_view) {}});
  }
  std::string lines_;
};

TEST_F(Log, TextHasTimeLevelMessageAndFields) {
  start(LogLevel::info, false);
  log_info("engine joined", {{"engine", "gpu 1"}, {"leases", 12}, {"rate", 1.5}, {"ok", true}});
  EXPECT_TRUE(std::regex_match(
      lines_, std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info +engine joined )"
                         R"(engine="gpu 1" leases=12 rate=1\.5 ok=true\n)")))
      << lines_;
}

TEST_F(Log, JsonIsOneObjectALineWhateverTheText) {
  start(LogLevel::debug, true);
  log_debug("a \"quoted\"\nline", {{"bytes", std::string("\xFF\x01", 2)},
                                   {"none", std::numeric_limits<double>::quiet_NaN()},
                                   {"big", std::numeric_limits<std::uint64_t>::max()}});
  EXPECT_TRUE(std::regex_match(
      lines_,
      std::regex(R"re(\{"time":"[^"]+Z","level":"debug","message":"a \\"quoted\\"\\nline",)re"
                 "\"bytes\":\"\xEF\xBF\xBD"
                 R"re(\\u0001","none":null,"big":18446744073709551615\}\n)re")))
      << lines_;
}

TEST_F(Log, LevelsBelowAreLeftOut) {
  start(LogLevel::warn, false);
  log_info("quiet");
  EXPECT_FALSE(log_enabled(LogLevel::info));
  EXPECT_EQ(lines_, "");
  log_error("loud", Error{Code::io_error, "disk gone", "look"});
  EXPECT_NE(lines_.find("loud code=io_error error=\"disk gone\" hint=look"), std::string::npos);
}

TEST_F(Log, BracesInTextAreNotFormatted) {
  start(LogLevel::info, false);
  log_info("{} {0}", {{"k", "{}"}});
  EXPECT_NE(lines_.find("{} {0} k={}"), std::string::npos);
}

TEST_F(Log, LevelNames) {
  EXPECT_EQ(log_level_from_name("warn").value(), LogLevel::warn);
  EXPECT_EQ(log_level_from_name("off").value(), LogLevel::off);
  EXPECT_EQ(log_level_from_name("loud").error().code, Code::usage);
}

}  // namespace
}  // namespace millrace
