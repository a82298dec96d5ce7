// `millrace backup`, `verify`, `restore` and `drain`: what operates a broker and its ledger.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "client/commands/command.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

constexpr std::chrono::milliseconds between_questions{100};

struct Flags {
  BrokerFlags broker;
  std::string name, backup, folder;
  bool engines = false;
};

std::string name_of_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &utc);
  return text.data();
}

void print_report(const char* what, const std::string& folder, const broker::LedgerReport& report,
                  bool json) {
  if (!json) {
    std::printf(
        "%s %s: version %d, %s, %s in %s, all sound\n", what, printable_name(folder).c_str(),
        report.version, count_text(report.jobs, "job").c_str(),
        count_text(report.results, "result").c_str(), count_text(report.streams, "stream").c_str());
    return;
  }
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("event", what).field("folder", folder).field("version", report.version);
  out.field("jobs", report.jobs).field("results", report.results);
  out.field("streams", report.streams).end_object();
  std::printf("%s\n", line.c_str());
}

Result<BackupAnswer> make_backup(const Flags& flags, bool json) {
  const SystemClock clock;
  MILLRACE_ASSIGN(auto session, open_session(flags.broker, clock, json));
  EventLoop loop(*session, clock, loop_options(flags.broker));
  while (true) {
    MILLRACE_ASSIGN(BackupAnswer answer, loop.request_as<BackupAnswer>(BackupRequest{flags.name}));
    if (answer.done) return answer;
    if (interrupted()) {
      return fail(Code::interrupted, "stopped by a signal; the broker goes on with the backup",
                  "millrace backup " + flags.name + " waits for it");
    }
    std::this_thread::sleep_for(between_questions);
  }
}

// The copy is read again where it is on this machine.
int backup(Flags flags, bool json) {
  if (flags.name.empty()) flags.name = name_of_now();
  remember_interrupts("", json);
  const auto made = make_backup(flags, json);
  if (!made) return report_error(made.error(), json);
  const auto report = broker::verify_ledger(made->folder);
  if (report) {
    print_report("backup", made->folder, *report, json);
    return exit_all_done;
  }
  if (report.error().code == Code::ledger_corrupt) return report_error(report.error(), json);
  print_notice("backup",
               "the backup is in " + made->folder +
                   " on the broker's machine; it was not verified " + "here (" +
                   report.error().message + "): run millrace verify there",
               json);
  return exit_all_done;
}

Result<broker::LedgerReport> verify_at(const broker::LedgerPlace& place) {
  if (place.kind == broker::LedgerPlace::Kind::postgres) {
    return broker::verify_postgres_ledger(place.url);
  }
  if (place.kind == broker::LedgerPlace::Kind::sqlite) return broker::verify_ledger(place.folder);
  return fail(Code::usage, "a ledger in memory ends with its broker",
              "name the folder of a backup or a ledger, or a postgresql:// URL");
}

int verify(const Flags& flags, bool json) {
  const auto place = broker::parse_ledger_place(flags.folder);
  if (!place) return report_error(place.error(), json);
  const auto report = verify_at(*place);
  if (!report) return report_error(report.error(), json);
  print_report("verified", place->shown, *report, json);
  return exit_all_done;
}

int restore(const Flags& flags, bool json) {
  const auto report = broker::restore_ledger(flags.backup, flags.folder);
  if (!report) return report_error(report.error(), json);
  print_report("restored", flags.folder, *report, json);
  print_notice("epoch",
               "the restored ledger has a new epoch: readers are told to read their streams again",
               json);
  return exit_all_done;
}

int drain(const Flags& flags, bool json) {
  const auto answer = ask_broker<DrainAnswer>(flags.broker, DrainRequest{flags.engines}, json);
  if (!answer) return report_error(answer.error(), json);
  print_notice("draining",
               "the broker takes no new jobs and ends when the running ones have, or after " +
                   std::to_string(answer->wait_ms) + " ms",
               json);
  return exit_all_done;
}

template <class Run>
void runs(CLI::App* command, Invocation& invocation, const std::shared_ptr<Flags>& flags, Run run) {
  command->callback([&invocation, flags, run] {
    invocation.action = [&invocation, flags, run] { return run(*flags, invocation.json); };
  });
}

}  // namespace

void add_backup_commands(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<Flags>();
  auto* make = app.add_subcommand(
      "backup",
      "Copy a broker's ledger while the broker works.\n\n"
      "The copy is in the folder `backups` of the ledger, or where the broker's configuration "
      "says. With keys it needs one with the role operate.\n\n"
      "Examples:\n  millrace backup\n  millrace backup before-the-update");
  make->add_option("name", flags->name, "name of the backup [the time]");
  add_broker_flags(*make, flags->broker);
  runs(make, invocation, flags, backup);

  auto* check = app.add_subcommand(
      "verify",
      "Check a backup, or a ledger that no broker holds.\n\n"
      "It reads everything: the file, checksums, numbers, counts. A ledger in PostgreSQL may be "
      "served meanwhile: it is read as it was at one moment.\n\n"
      "Examples:\n  millrace verify /var/lib/millrace/backups/monday");
  check
      ->add_option("folder", flags->folder,
                   "folder of the backup or ledger, or a postgresql:// URL")
      ->required();
  runs(check, invocation, flags, verify);

  auto* back = app.add_subcommand(
      "restore",
      "Make a ledger from a backup.\n\n"
      "Stop the broker first. Jobs and results since the backup are not in it: producers submit "
      "again, and readers are told that the streams have begun anew.\n\n"
      "Examples:\n  millrace restore /var/lib/millrace/backups/monday /var/lib/millrace-new");
  back->add_option("backup", flags->backup, "folder of the backup")->required();
  back->add_option("folder", flags->folder, "folder of the ledger to make")->required();
  runs(back, invocation, flags, restore);

  auto* stop = app.add_subcommand(
      "drain",
      "Stop a broker in order: running jobs may end.\n\n"
      "Queued jobs stay on disk for the next start. With keys it needs one with the role "
      "operate.\n\n"
      "Examples:\n  millrace drain\n  millrace drain --engines");
  stop->add_flag("--engines", flags->engines, "tell the engines to leave as well");
  add_broker_flags(*stop, flags->broker);
  runs(stop, invocation, flags, drain);
}

}  // namespace millrace::client
