// The engines of several devices, with shell scripts in the place of the engine program. A script
// gets its device as the value of --device and its name as that of --name.
#include "engine/supervise/fleet.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "engine/supervise/device_list.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::supervise {
namespace {

constexpr auto longest_wait = std::chrono::seconds(60);  // more mean that a process hangs

// Reads the options that a fleet gives, and prints the devices that $devices holds if it is asked.
constexpr const char* begin_of_script =
    "#!/bin/sh\n"
    "while [ $# -gt 0 ]; do\n"
    "  case $1 in\n"
    "    --device) device=$2; shift 2;;\n"
    "    --devices) devices=$2; shift 2;;\n"
    "    --name) name=$2; shift 2;;\n"
    "    --print-devices) [ \"$devices\" = bad ] &&\n"
    "        { echo 'millrace-engine: no_device: no OpenCL device is \"bad\"' >&2; exit 3; }\n"
    "      echo '05:12:08 a line of the log'; echo '0:0 - first of two'; echo '0:1 abcd second'; "
    "exit;;\n"
    "    *) shift;;\n"
    "  esac\n"
    "done\n";

class FleetTest : public ::testing::Test {
 protected:
  FleetOptions options(const std::string& script) {
    FleetOptions out;
    out.program = folder_.write("engine", begin_of_script + script);
    std::filesystem::permissions(out.program, std::filesystem::perms::owner_all);
    out.arguments = {"--model", "m"};
    out.devices = "all";
    out.name = "host";
    return out;
  }
  FleetHooks hooks() {
    FleetHooks out;
    out.died = [this](const std::string& name) { ++deaths_[name]; };
    out.trouble = [this](const std::string& event, const Error& error) {
      troubles_.push_back(event + ": " + error.message);
    };
    out.log = [this](const std::string& lines) {
      log_ += lines;
      return Status();
    };
    return out;
  }
  Status tick(Fleet& fleet, const std::function<bool()>& until) {
    const auto end = std::chrono::steady_clock::now() + longest_wait;
    while (!until()) {
      if (std::chrono::steady_clock::now() > end) return fail(Code::internal, "nothing happens");
      MILLRACE_TRY(fleet.tick());
      clock_.advance_us(1'000'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }
  bool logged(const std::string& text) const { return log_.find(text) != std::string::npos; }

  client::TemporaryFolder folder_;
  ManualClock clock_;
  std::map<std::string, int> deaths_;
  std::vector<std::string> troubles_;
  std::string log_;
};

constexpr const char* stays = "while :; do sleep 0.01; done\n";

TEST_F(FleetTest, EachDeviceHasAnEngineWithANameAndAMarkInTheLog) {
  Fleet fleet(
      options(std::string("echo \"$name runs on $device\"; echo '{\"level\":1}'; ") + stays),
      clock_, hooks());
  ASSERT_TRUE(fleet.start());
  EXPECT_EQ(fleet.size(), 2U);
  ASSERT_TRUE(tick(fleet, [&] {
    return logged("[0:0] host:0:0 runs on 0:0\n") && logged("[0:1] host:0:1 runs on abcd\n") &&
           logged("{\"engine\":\"0:1\",\"level\":1}\n");
  })) << log_;
  EXPECT_EQ(fleet.starts(), 2U);
  fleet.stop();
  EXPECT_TRUE(fleet.over());
}

TEST_F(FleetTest, AnEngineAloneKeepsItsNameAndItsLinesAsTheyAre) {
  FleetOptions one = options(std::string("echo \"$name on $device\"; ") + stays);
  one.device = "gpu";
  one.devices.clear();
  Fleet fleet(std::move(one), clock_, hooks());
  ASSERT_TRUE(fleet.start());
  ASSERT_TRUE(tick(fleet, [&] { return log_ == "host on gpu\n"; })) << log_;
}

TEST_F(FleetTest, OneThatDiesIsStartedAgainAndTheOtherGoesOn) {
  Fleet fleet(options("echo up; if [ $device = abcd ] && [ ! -e " + (folder_ / "died") +
                      " ]; then touch " + (folder_ / "died") + "; exit 1; fi\n" + stays),
              clock_, hooks());
  ASSERT_TRUE(fleet.start());
  for (const char* name : {"host:0:0", "host:0:1"}) fleet.joined(name);
  ASSERT_TRUE(tick(fleet, [&] { return fleet.starts() == 3; }));
  EXPECT_EQ(deaths_, (std::map<std::string, int>{{"host:0:1", 1}}));
  ASSERT_EQ(troubles_.size(), 1U);
  EXPECT_EQ(troubles_[0].find("engine_died: the engine on 0:1 ended with exit status 1"), 0U);
}

TEST_F(FleetTest, OneThatIsGivenUpIsToldOnceAnotherHasJoinedAndTheFleetGoesOn) {
  Fleet fleet(
      options("if [ $device = abcd ]; then echo 'millrace-engine: out_of_memory: full' >&2; "
              "exit 3; fi\necho 'millrace-engine: joined'\n" +
              std::string(stays)),
      clock_, hooks());
  ASSERT_TRUE(fleet.start());
  ASSERT_TRUE(tick(fleet, [&] { return !troubles_.empty(); }));
  EXPECT_EQ(troubles_, std::vector<std::string>{
                           "engine_given_up: an engine is given up, the others go on: full"});
  EXPECT_EQ(fleet.given_up(), 1U);
  EXPECT_FALSE(fleet.over());
  EXPECT_FALSE(logged("joined")) << "this line is for the fleet";
  fleet.drain();
}

TEST_F(FleetTest, AnErrorThatAllEnginesShareIsTheFleetsErrorAndToldOnce) {
  Fleet fleet(options("echo 'millrace-engine: gguf_malformed: no model' >&2; exit 3\n"), clock_,
              hooks());
  ASSERT_TRUE(fleet.start());
  const Status status = tick(fleet, [] { return false; });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::gguf_malformed);
  EXPECT_EQ(troubles_, std::vector<std::string>());
  EXPECT_TRUE(fleet.over());
}

TEST_F(FleetTest, OnlyTheProcessThatHasJoinedIsKilledWhenTheBrokerMissesItsName) {
  Fleet fleet(options(stays), clock_, hooks());
  ASSERT_TRUE(fleet.start());
  fleet.joined("host:0:0");
  fleet.silent("host:0:0");
  fleet.silent("host:0:1");  // it still loads its model
  fleet.silent("another");
  ASSERT_TRUE(tick(fleet, [&] { return fleet.starts() == 3; }));
  EXPECT_EQ(deaths_, (std::map<std::string, int>{{"host:0:0", 1}}));
}

TEST_F(FleetTest, ADrainEndsAllAndNoneIsStartedAgain) {
  FleetOptions service = options("trap 'exit 0' TERM; echo up; " + std::string(stays));
  service.patience = Patience::service;
  Fleet fleet(std::move(service), clock_, hooks());
  ASSERT_TRUE(fleet.start());
  ASSERT_TRUE(tick(fleet, [&] { return logged("[0:0] up") && logged("[0:1] up"); }));
  fleet.drain();
  ASSERT_TRUE(tick(fleet, [&] { return fleet.over(); }));
  EXPECT_EQ(fleet.starts(), 2U);
  EXPECT_EQ(fleet.given_up(), 0U);
}

TEST_F(FleetTest, ADeviceThatTheProgramDoesNotKnowIsRefusedInItsWords) {
  FleetOptions wrong = options(stays);
  wrong.devices = "bad";
  Fleet fleet(std::move(wrong), clock_, hooks());
  const Status status = fleet.start();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::no_device);
  EXPECT_EQ(fleet.size(), 0U);
}

TEST_F(FleetTest, TheLogIsNoPartOfTheListOfDevices) {
  const auto devices = list_devices(options("").program, {"--devices", "all"});
  ASSERT_TRUE(devices) << devices.error().text();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[0].id, "0:0");
  EXPECT_EQ((*devices)[0].argument, "0:0") << "it has no uuid";
  EXPECT_EQ((*devices)[1].argument, "abcd");
  EXPECT_EQ((*devices)[0].name, "first of two");
}

}  // namespace
}  // namespace millrace::supervise
