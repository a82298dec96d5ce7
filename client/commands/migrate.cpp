// `millrace migrate`: copies a whole ledger into another store.
#include "client/commands/migrate.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "broker/ledger/ledger_copy.hpp"
#include "broker/ledger/open_ledger.hpp"
#include "client/commands/progress_line.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

struct Flags {
  std::string from, to;
};

void print_tables(const broker::CopyReport& report, bool json) {
  for (const broker::CopiedTableReport& table : report.tables) {
    if (!json) {
      std::printf("%-13s %12s  %s\n", table.table.c_str(), count_text(table.rows, "row").c_str(),
                  hex(table.checksum).c_str());
      continue;
    }
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("event", "table").field("table", table.table);
    out.field("rows", table.rows).field("bytes", table.bytes);
    out.field("checksum", hex(table.checksum)).end_object();
    std::printf("%s\n", line.c_str());
  }
}

// As people name a place, without a password.
std::string shown(const std::string& place) {
  const auto parsed = broker::parse_ledger_place(place);
  return printable_name(parsed ? parsed->shown : place);
}

void print_end(const Flags& flags, double seconds, bool json) {
  if (!json) {
    std::printf("migrated %s to %s: the copy is equal to its source\n", shown(flags.from).c_str(),
                shown(flags.to).c_str());
    return;
  }
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("event", "migrated").field("from", shown(flags.from));
  out.field("to", shown(flags.to)).field("seconds", seconds).end_object();
  std::printf("%s\n", line.c_str());
}

int migrate(const Flags& flags, bool json) {
  remember_interrupts("", json);
  const SystemClock clock;
  const std::int64_t begun_us = clock.monotonic_us();
  ProgressLine line(json);
  const auto report =
      broker::migrate_ledger(flags.from, flags.to, [&line](const broker::CopyProgress& progress) {
        line.show([&progress] {
          return std::string(progress.doing) + " " + progress.table + ": " +
                 std::to_string(progress.rows) + " of " + count_text(progress.all_rows, "row");
        });
        return !interrupted();
      });
  line.clear();
  if (!report) return report_error(report.error(), json);
  print_tables(*report, json);
  print_end(flags, static_cast<double>(clock.monotonic_us() - begun_us) / 1e6, json);
  return exit_all_done;
}

}  // namespace

void add_migrate_command(CLI::App& app, Invocation& invocation) {
  auto flags = std::make_shared<Flags>();
  auto* command = app.add_subcommand(
      "migrate",
      "Copy a whole ledger from a folder to PostgreSQL, or back.\n\n"
      "Stop the broker first. Everything goes over, under the same numbers and the same epoch, and "
      "is read again and compared. Leased jobs stay leased: their engines go on with them once the "
      "next broker serves the copy, or it reclaims them, as after its restart. The source stays as "
      "it is. Serve one of the two from then on.\n\n"
      "Until the copy is complete no broker serves it; after a stop the same command begins "
      "anew.\n\n"
      "Examples:\n"
      "  millrace migrate /var/lib/millrace postgresql://millrace@db.example/millrace\n"
      "  millrace migrate postgresql://millrace@db.example/millrace sqlite:///srv/millrace");
  command->add_option("from", flags->from, "a folder, sqlite:///FOLDER or postgresql://...")
      ->required();
  command->add_option("to", flags->to, "another such place, without a ledger or with an empty one")
      ->required();
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return migrate(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
