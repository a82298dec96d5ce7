// `millrace doctor`: examines a machine for a broker and its engines, and says what to do.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timex.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/postgres_ledger.hpp"
#include "broker/ledger/postgres_schema.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "broker/server/settings.hpp"
#include "client/commands/command.hpp"
#include "client/commands/quiet_session.hpp"
#include "engine/core/device/device.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/net/socket.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/keys/keyring.hpp"

namespace millrace::client {
namespace {

constexpr int syncs = 50;
constexpr double slow_sync_ms = 5;
// A connection, and what ZeroMQ keeps for it.
constexpr std::uint64_t files_each_session = 1, files_besides = 200;

struct Flags {
  BrokerFlags broker;
  std::string config, ledger;
};

enum class Verdict : std::uint8_t { good, warning, bad };

// Prints what is found, line by line.
class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  void tell(Verdict verdict, const char* about, const std::string& what,
            const std::string& hint = "") {
    constexpr std::array<const char*, 3> words{"ok", "warn", "bad"};
    const char* const word = words[static_cast<std::size_t>(verdict)];
    bad_ = bad_ || verdict == Verdict::bad;
    if (!json_) {
      std::printf("%-4s  %-8s  %s\n", word, about, printable_name(what).c_str());
      if (!hint.empty()) std::printf("                -> %s\n", printable_name(hint).c_str());
      return;
    }
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("verdict", word).field("about", about).field("what", what);
    out.field("hint", hint).end_object();
    std::printf("%s\n", line.c_str());
  }
  void tell(const char* about, const Error& error) {
    tell(Verdict::bad, about, error.message, error.hint);
  }
  bool bad() const { return bad_; }

 private:
  const bool json_;
  bool bad_ = false;
};

void examine_versions(Findings& findings) {
  findings.tell(Verdict::good, "versions",
                std::string("millrace " MILLRACE_VERSION ", ") + broker::ledger_engine_version() +
                    ", ZeroMQ " + net::library_version());
  if (net::has_curve()) return;
  findings.tell(Verdict::warning, "versions", "this ZeroMQ has no CURVE: brokers cannot use keys",
                "install Debian's libzmq5");
}

std::optional<broker::Settings> examine_settings(const Flags& flags, Findings& findings) {
  broker::Settings settings;
  Status good = flags.config.empty() ? Status() : broker::read_settings(flags.config, settings);
  if (good) good = broker::check_settings(settings);
  broker::ServerOptions options;
  options.clients = settings.clients;
  options.engines = settings.engines;
  options.doorbell = settings.doorbell;
  options.push = settings.push;
  options.keys = settings.keys;
  if (good) good = broker::check_endpoints(options);
  if (!good) {
    findings.tell("settings", good.error());
    return {};
  }
  findings.tell(Verdict::good, "settings",
                flags.config.empty() ? "the defaults (--config names a file)" : flags.config);
  return settings;
}

// How long a small write takes to be on disk: what each commit of the broker waits for.
Result<std::pair<double, double>> sync_ms(Env& env, const std::string& folder) {
  const std::string path = folder + "/.doctor";
  MILLRACE_ASSIGN(const auto file, env.open(path, OpenMode::replace));
  std::vector<double> times;
  Status written;
  for (int i = 0; i < syncs && written; ++i) {
    const auto start = std::chrono::steady_clock::now();
    written = file->append(std::string(4096, 'x'));
    if (written) written = file->sync_data();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }
  MILLRACE_TRY(env.remove(path));
  MILLRACE_TRY(written);
  std::ranges::sort(times);
  return std::pair(times[times.size() / 2], times[times.size() - 1]);
}

std::string ms_text(double ms) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f ms", ms);
  return text.data();
}

void examine_sync(Env& env, const std::string& folder, Findings& findings) {
  const auto times = sync_ms(env, folder);
  if (!times) {
    Error error = times.error();
    if (error.hint.empty()) error.hint = "give the broker's user the right to write there";
    return findings.tell("disk", error);
  }
  const auto [median, longest] = *times;
  const std::string what = "a sync takes " + ms_text(median) + ", the longest of " +
                           std::to_string(syncs) + " took " + ms_text(longest);
  if (median < slow_sync_ms) return findings.tell(Verdict::good, "disk", what);
  findings.tell(Verdict::warning, "disk", what,
                "each commit waits for one: put the ledger on a faster local disk");
}

void examine_database(const broker::LedgerPlace& place, Findings& findings) {
  broker::PostgresConnection connection(place.url, broker::PostgresLedgerOptions().schema);
  Status good = connection.connect();
  if (good) good = broker::check_settings(connection);
  if (!good) return findings.tell("ledger", good.error());
  findings.tell(Verdict::good, "ledger",
                connection.place() + " answers, and its settings keep what is acknowledged");
}

void examine_ledger(const broker::Settings& settings, Findings& findings) {
  const auto place = broker::parse_ledger_place(settings.ledger);
  if (!place) return findings.tell("ledger", place.error());
  if (place->kind == broker::LedgerPlace::Kind::memory) {
    return findings.tell(Verdict::warning, "ledger", "in memory: nothing outlives the broker",
                         "name a folder, except for trials");
  }
  if (place->kind == broker::LedgerPlace::Kind::postgres) {
    return examine_database(*place, findings);
  }
  const auto env = posix_env();
  const std::string& folder = place->folder;
  struct stat info {};
  const bool there = ::stat(folder.c_str(), &info) == 0;
  if (!there) {
    findings.tell(Verdict::good, "ledger", folder + " is not there yet: the broker makes it");
  } else if ((info.st_mode & 077) != 0) {
    findings.tell(Verdict::warning, "ledger", folder + " may be entered by other users",
                  "chmod 700 " + folder);
  } else {
    findings.tell(Verdict::good, "ledger", folder + ", closed to other users");
  }
  std::string above = folder;
  while (!above.empty() && ::stat(above.c_str(), &info) != 0) above = parent_directory(above);
  const auto free = env->free_bytes(above);
  if (!free) return findings.tell("disk", free.error());
  const std::string left = std::to_string(*free / limits::MiB) + " MiB are free";
  const std::uint64_t least = std::max(settings.disk_low, 2 * limits::ballast_bytes);
  if (*free < least) {
    findings.tell(Verdict::bad, "disk", left + ": the broker takes no new jobs",
                  "free space, or keep less (retention.bytes)");
  } else if (*free < settings.disk_warn) {
    findings.tell(Verdict::warning, "disk", left + ", less than disk.warn",
                  "free space, or keep less (retention.bytes)");
  } else {
    findings.tell(Verdict::good, "disk", left);
  }
  examine_sync(*env, above, findings);
}

void examine_keys(const broker::Settings& settings, Findings& findings) {
  if (settings.keys.empty()) {
    return findings.tell(Verdict::good, "keys",
                         "none: only this user, or this machine, may connect");
  }
  const auto keyring = Keyring::open(settings.keys);
  if (!keyring) return findings.tell("keys", keyring.error());
  const std::size_t keys = keyring->grants().size();
  if (keys == 0) {
    return findings.tell(Verdict::warning, "keys", "no key may connect yet",
                         "make one with `millrace keys new`");
  }
  findings.tell(Verdict::good, "keys",
                count_text(keys, "key") + " may connect, file modes are right");
}

void examine_limits(const broker::Settings& settings, Findings& findings) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const std::uint64_t wanted = settings.sessions * files_each_session + files_besides;
  const std::string what = "a process may open " + std::to_string(files.rlim_cur) + " files";
  if (files.rlim_cur >= wanted) return findings.tell(Verdict::good, "limits", what);
  findings.tell(Verdict::warning, "limits",
                what + ", " + std::to_string(settings.sessions) + " sessions may need " +
                    std::to_string(wanted),
                "raise it (ulimit -n, LimitNOFILE of systemd), or lower limits.sessions");
}

void examine_clock(Findings& findings) {
  constexpr std::int64_t year_2024_s = 1'704'067'200;
  timex state{};
  const int synchronized = ::adjtimex(&state);
  if (SystemClock().wall_us() / 1'000'000 < year_2024_s) {
    return findings.tell(Verdict::bad, "clock", "the clock shows a time before 2024",
                         "set it: deadlines and retention go by it");
  }
  if (synchronized == TIME_ERROR) {
    return findings.tell(Verdict::warning, "clock", "nothing keeps the clock right",
                         "run an NTP client, such as systemd-timesyncd: deadlines go by the clock");
  }
  findings.tell(Verdict::good, "clock", "it is synchronized");
}

void examine_devices(Findings& findings) {
  const auto devices = engine::list_devices();
  if (!devices) {
    return findings.tell(Verdict::warning, "devices", devices.error().message,
                         devices.error().hint);
  }
  for (const engine::DeviceInfo& device : *devices) {
    findings.tell(Verdict::good, "devices",
                  std::to_string(device.platform_index) + ":" +
                      std::to_string(device.device_index) + " " + device.name);
  }
  if (!devices->empty()) return;
  findings.tell(Verdict::warning, "devices", "there is no OpenCL device: no engine can run here",
                "install the GPU's driver, or pocl-opencl-icd to use the processor");
}

Result<StatusAnswer> ask_status(const BrokerFlags& flags) {
  const SystemClock clock;
  MILLRACE_ASSIGN(const auto session, open_quiet_session(flags, clock));
  return EventLoop(*session, clock, loop_options(flags)).request_as<StatusAnswer>(StatusRequest{});
}

void examine_broker(const Flags& flags, Findings& findings) {
  const auto status = ask_status(flags.broker);
  if (!status) {
    return findings.tell(Verdict::warning, "broker", status.error().message, status.error().hint);
  }
  findings.tell(Verdict::good, "broker",
                "it answers at " + endpoint_of(flags.broker) + ", with " +
                    count_text(status->engines.size(), "engine") +
                    (status->draining ? ", and drains" : ""));
}

int run(const Flags& flags, bool json) {
  Findings findings(json);
  examine_versions(findings);
  if (auto settings = examine_settings(flags, findings)) {
    if (!flags.ledger.empty()) settings->ledger = flags.ledger;
    examine_ledger(*settings, findings);
    examine_keys(*settings, findings);
    examine_limits(*settings, findings);
  }
  examine_clock(findings);
  examine_devices(findings);
  examine_broker(flags, findings);
  return findings.bad() ? exit_some_failed : exit_all_done;
}

}  // namespace

void add_doctor_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "doctor",
      "Examine this machine for a broker and its engines.\n\n"
      "It looks at settings, disk, keys, limits, clock, OpenCL devices and the running broker, and "
      "says what to do. The exit code is 1 if something is bad.\n\n"
      "Examples:\n  millrace doctor\n  millrace doctor --config /etc/millrace/broker.toml\n"
      "  millrace doctor --ledger postgresql://millrace@db.example/millrace");
  auto flags = std::make_shared<Flags>();
  flags->broker.timeout_s = 2;
  command->add_option("--config", flags->config, "the broker's configuration file [the defaults]")
      ->type_name("FILE");
  command->add_option("--ledger", flags->ledger, "the broker's ledger [that of its configuration]")
      ->type_name("PLACE");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
