#pragma once
// Copies a whole ledger into an empty one, record by record, and compares the two: jobs with their
// bodies, queues, leases, counts, batches, pauses, results, streams and cursors, with their numbers
// and under the same epoch, so that engines and readers find what they know.
//
// While a target is being filled its tables have a negative version, which no broker serves
// (ledger_corrupt). The mark goes when the comparison has found both equal, so a copy that was
// interrupted at any moment is none; another run begins anew.
//
// Memory is flat: one row at a time, and what the stores buffer. Thread safety: none.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "broker/ledger/copied_tables.hpp"

namespace millrace::broker {

// Gives the rows of one table in the order of its key.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual Result<bool> next(std::string& row) = 0;  // false: there are no more
};

// A ledger that nobody changes as long as this lives. At most one reader exists at a time.
class CopiedLedger {
 public:
  virtual ~CopiedLedger() = default;
  virtual Result<LedgerFacts> facts() = 0;
  virtual Result<std::uint64_t> count(const CopiedTable& table) = 0;
  virtual Result<std::unique_ptr<RowReader>> read(const CopiedTable& table) = 0;
};

// An empty ledger with the mark of a copy under way, which stays until `complete`.
class CopyTarget : public CopiedLedger {
 public:
  virtual Status begin_table(const CopiedTable& table) = 0;
  virtual Status add(std::string_view row) = 0;
  virtual Status end_table() = 0;
  virtual Status write_facts(const LedgerFacts& facts) = 0;
  virtual Status complete() = 0;  // everything is on the disk, and brokers may serve it
};

struct CopyProgress {
  const char* doing = "";  // "copying", "comparing"
  const char* table = "";
  std::uint64_t rows = 0, all_rows = 0;  // of the table
};
// Called when a table begins and every few thousand rows. False ends the copy (interrupted).
using CopyWatch = std::function<bool(const CopyProgress&)>;

struct CopiedTableReport {
  std::string table;
  std::uint64_t rows = 0, bytes = 0;
  std::uint64_t checksum = 0;  // of all rows in order (XXH3)
};
struct CopyReport {
  std::vector<CopiedTableReport> tables;
  LedgerFacts facts;
};

// Errors: those of the stores; interrupted; ledger_corrupt, where what was read back from the
// target is not what was read from the source: it names the table and the first key that differs.
Result<CopyReport> copy_ledger(CopiedLedger& from, CopyTarget& to, const CopyWatch& watch);

// Opens both by their places, and copies. `from` and `to` are a folder, sqlite:///FOLDER or
// postgresql://... Errors also: usage (another place, or the same twice), not_found (no source),
// ledger_in_use (a broker serves one of them, or another copy fills the target), conflict (the
// target is not empty), ledger_older, ledger_newer, ledger_corrupt (the source is such a rest).
Result<CopyReport> migrate_ledger(const std::string& from, const std::string& to,
                                  const CopyWatch& watch);

// What a broker, or a reader of the ledger, says to the mark.
Error incomplete_copy(const std::string& place);
// What a target says that holds something.
std::unexpected<Error> not_empty(const std::string& place, const CopiedTable& table,
                                 std::uint64_t rows, const std::string& hint);

}  // namespace millrace::broker
