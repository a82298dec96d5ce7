#pragma once
// The engines of one command, a process each: one engine on the device that is asked for, or one on
// each of several devices. Each has a supervisor. The end of one does not end the others: an engine
// that is given up is reported, and the fleet goes on while there is another. All devices are of
// one kind, because only then do the engines give the same bits (engine/core/device/select.hpp).
// Thread safety: one thread, which must live as long as the engines may.
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/supervise/supervisor.hpp"

namespace millrace::supervise {

// The line that an engine with --tell-joined writes when a broker has taken it.
inline constexpr std::string_view joined_line = "millrace-engine: joined";

struct FleetOptions {
  std::string program;
  std::vector<std::string> arguments;  // of each engine, without --device, --devices and --name
  std::string device;                  // as --device is given
  std::string devices;                 // as --devices is given; empty: one engine on `device`
  std::string name;                    // of the engine; of several: NAME:PLATFORM:DEVICE
  std::string log_path;                // of the file that errors name; empty: none
  // Further arguments of the engine of this number, from 0 on; may be empty.
  std::function<std::vector<std::string>(std::size_t number)> more_arguments{};
  Patience patience = Patience::run;
};

struct FleetHooks {
  std::function<void(const std::string& name)> died;  // at once
  std::function<void(const std::string& event, const Error& error)> trouble;
  // Whole lines; those of several engines begin with the device.
  std::function<Status(const std::string& lines)> log;
};

class Fleet {
 public:
  Fleet(FleetOptions options, const Clock& clock, FleetHooks hooks);

  // Errors: those of list_devices, and of the start of a process.
  Status start();
  // Watches all engines. Error, once none is left: of the last one that was given up.
  Status tick();
  void joined(const std::string& name);  // call this when an engine has joined the broker
  void hung(const std::string& name);    // call this when an engine makes no progress
  void silent(const std::string& name);  // as hung, for an engine that has joined and is gone
  void drain();                          // see Supervisor::drain
  void stop();

  std::size_t size() const { return members_.size(); }
  bool over() const;  // no engine runs, and none will be started again
  std::size_t given_up() const { return given_up_; }
  std::uint32_t starts() const;  // of all engines

 private:
  struct Member {
    Member(std::string tag_text, std::string name_text, SupervisorOptions options,
           const Clock& clock, SupervisorHooks hooks);
    std::string tag;   // "0:1"; empty: it is the only engine
    std::string name;  // that it says to the broker
    std::string line;  // that is not whole yet
    Supervisor supervisor;
  };
  void add(const std::string& device, const std::string& tag, const std::string& name);
  Status keep(Member& member, const std::string& text);
  Member* find(const std::string& name);
  void tell_given_up();

  FleetOptions options_;
  const Clock& clock_;
  FleetHooks hooks_;
  std::deque<Member> members_;
  std::vector<Error> untold_;  // of engines that were given up before any had joined
  std::size_t given_up_ = 0;
};

}  // namespace millrace::supervise
