#include "broker/ledger/ledger_copy.hpp"

#include "schemas/base/hash.hpp"

namespace millrace::broker {
namespace {

constexpr std::uint64_t rows_between_reports = 2048;

// Reads or writes one table, row by row, and sums it up.
class Pass {
 public:
  Pass(const CopyWatch& watch, const char* doing, const CopiedTable& table, std::uint64_t rows)
      : watch_(watch), progress_{doing, table.name, 0, rows} {
    report_.table = table.name;
  }

  Status begin() { return tell(); }
  Status add(std::string_view row) {
    ++report_.rows;
    report_.bytes += row.size();
    report_.checksum = hash64(row, report_.checksum);
    progress_.rows = report_.rows;
    return report_.rows % rows_between_reports == 0 ? tell() : Status();
  }
  const CopiedTableReport& report() const { return report_; }

 private:
  Status tell() {
    if (!watch_ || watch_(progress_)) return {};
    return fail(Code::interrupted, "the copy was stopped; its target is not complete",
                "the same command begins anew");
  }

  const CopyWatch& watch_;
  CopyProgress progress_;
  CopiedTableReport report_;
};

Result<CopiedTableReport> copy_table(CopiedLedger& from, CopyTarget& to, const CopiedTable& table,
                                     const CopyWatch& watch) {
  MILLRACE_ASSIGN(const std::uint64_t rows, from.count(table));
  Pass pass(watch, "copying", table, rows);
  MILLRACE_TRY(pass.begin());
  MILLRACE_ASSIGN(const auto reader, from.read(table));
  MILLRACE_TRY(to.begin_table(table));
  std::string row;
  while (true) {
    MILLRACE_ASSIGN(const bool there, reader->next(row));
    if (!there) break;
    MILLRACE_TRY(to.add(row));
    MILLRACE_TRY(pass.add(row));
  }
  MILLRACE_TRY(to.end_table());
  return pass.report();
}

std::unexpected<Error> differ(const std::string& what) {
  return fail(Code::ledger_corrupt, "the copy differs from its source: " + what,
              "look at the disks and the memory of both machines, and run the command again");
}

// Both tables once more, side by side, for the first row that one of them has not.
Status find_difference(CopiedLedger& from, CopiedLedger& to, const CopiedTable& table) {
  MILLRACE_ASSIGN(const auto source, from.read(table));
  MILLRACE_ASSIGN(const auto target, to.read(table));
  const std::string in = std::string("table ") + table.name + ", ";
  std::string wanted, found;
  while (true) {
    MILLRACE_ASSIGN(const bool more, source->next(wanted));
    MILLRACE_ASSIGN(const bool there, target->next(found));
    if (!more && !there) return differ(in + "although each row was equal when it was read again");
    if (more && there && wanted == found) continue;
    const int order = !there ? -1 : !more ? 1 : compare_keys(table, wanted, found);
    if (order < 0) return differ(in + key_of(table, wanted) + ": the target has no such row");
    if (order > 0) return differ(in + key_of(table, found) + ": the source has no such row");
    return differ(in + key_of(table, wanted) + ": the row has other values");
  }
}

Status compare_table(CopiedLedger& from, CopiedLedger& to, const CopiedTable& table,
                     const CopiedTableReport& copied, const CopyWatch& watch) {
  Pass pass(watch, "comparing", table, copied.rows);
  MILLRACE_TRY(pass.begin());
  {
    MILLRACE_ASSIGN(const auto reader, to.read(table));
    std::string row;
    while (true) {
      MILLRACE_ASSIGN(const bool there, reader->next(row));
      if (!there) break;
      MILLRACE_TRY(pass.add(row));
    }
  }
  const CopiedTableReport& read = pass.report();
  if (read.rows == copied.rows && read.checksum == copied.checksum) return {};
  return find_difference(from, to, table);
}

}  // namespace

Result<CopyReport> copy_ledger(CopiedLedger& from, CopyTarget& to, const CopyWatch& watch) {
  CopyReport report;
  for (const CopiedTable& table : copied_tables()) {
    MILLRACE_ASSIGN(report.tables.emplace_back(), copy_table(from, to, table, watch));
  }
  MILLRACE_ASSIGN(report.facts, from.facts());
  MILLRACE_TRY(to.write_facts(report.facts));
  for (std::size_t i = 0; i < report.tables.size(); ++i) {
    MILLRACE_TRY(compare_table(from, to, copied_tables()[i], report.tables[i], watch));
  }
  MILLRACE_ASSIGN(const LedgerFacts written, to.facts());
  if (written != report.facts) return differ("its epoch or its counters");
  MILLRACE_TRY(to.complete());
  return report;
}

Error incomplete_copy(const std::string& place) {
  return {Code::ledger_corrupt,
          place + ": this ledger is the beginning of a copy that was not completed",
          "run the same millrace migrate again, which begins anew, or use another ledger"};
}

std::unexpected<Error> not_empty(const std::string& place, const CopiedTable& table,
                                 std::uint64_t rows, const std::string& hint) {
  return fail(Code::conflict,
              place + ": the target of a copy must be empty, and its table " + table.name +
                  " has " + std::to_string(rows) + (rows == 1 ? " row" : " rows"),
              hint);
}

}  // namespace millrace::broker
