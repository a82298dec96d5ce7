#include "engine/worker/fleet_program.hpp"

#include <signal.h>
#include <time.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/supervise/fleet.hpp"
#include "engine/worker/metrics_server.hpp"
#include "schemas/base/log.hpp"

namespace millrace::worker {
namespace {

constexpr std::int64_t look_ns = 100'000'000;  // between two looks at the engines
// An engine that does not end when told to is killed this long after its drain should be over.
constexpr std::uint32_t grace_s = 15;

// Blocks the signals that end the program, so that sigtimedwait takes them. Engine processes begin
// with no signal blocked.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

std::vector<std::string> arguments_of(const EngineFlags& engine, const ProgramFlags& flags,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> out = {"--model", engine.model};
  out.insert(out.end(), more.begin(), more.end());
  for (std::string& word : engine_arguments(engine)) out.push_back(std::move(word));
  for (std::string& word : program_arguments(flags)) out.push_back(std::move(word));
  out.emplace_back("--tell-joined");
  return out;
}

// The path of this program's file.
std::string own_program() {
  constexpr const char* self = "/proc/self/exe";
  std::error_code error;
  const auto path = std::filesystem::read_symlink(self, error);
  return error ? self : path.string();
}

supervise::FleetHooks hooks_of() {
  supervise::FleetHooks hooks;
  hooks.died = [](const std::string&) {};  // the broker misses its heartbeats
  hooks.trouble = [](const std::string&, const Error& error) { log_warn("supervisor", error); };
  hooks.log = [](const std::string& lines) {
    std::fwrite(lines.data(), 1, lines.size(), stderr);
    return Status();
  };
  return hooks;
}

}  // namespace

int serve_devices(const EngineFlags& engine, const ProgramFlags& flags, const char* program,
                  const std::vector<std::string>& more) {
  const sigset_t signals = block_signals();
  const SystemClock clock;
  supervise::FleetOptions options;
  options.program = own_program();
  options.arguments = arguments_of(engine, flags, more);
  options.device = engine.device;
  options.devices = engine.devices;
  options.name = flags.name.empty() ? host_name() : flags.name;
  options.patience = supervise::Patience::service;
  if (!flags.metrics.empty()) {
    options.more_arguments = [first = flags.metrics](std::size_t number) {
      return std::vector<std::string>{"--metrics", next_address(first, number)};
    };
  }
  supervise::Fleet fleet(std::move(options), clock, hooks_of());
  if (const Status started = fleet.start(); !started) return report(program, started.error());
  log_info("engines start, one a device", {{"engines", fleet.size()}});
  std::optional<std::int64_t> end_us;  // when engines that still run are killed
  int stopped_by = 0;
  Status last;
  while (!fleet.over()) {
    const timespec pause{0, look_ns};
    if (const int signal = ::sigtimedwait(&signals, nullptr, &pause); signal > 0) {
      stopped_by = signal;
      fleet.drain();
      if (!end_us) {
        end_us = clock.monotonic_us() + (flags.drain_timeout_s + grace_s) * std::int64_t{1'000'000};
      }
    }
    if (end_us && clock.monotonic_us() > *end_us) {
      log_warn("engines that did not leave are killed");
      fleet.stop();
      return 1;
    }
    if (Status status = fleet.tick(); !status) last = std::move(status);
  }
  if (!last && stopped_by == 0) return report(program, last.error());
  log_info("all engines have left", {{"given_up", fleet.given_up()}});
  if (fleet.given_up() > 0) return 1;
  return stopped_by == SIGINT ? 130 : 0;
}

}  // namespace millrace::worker
