// Makes the ledger of an earlier version: README.md tells how to build this beside its sources.
// Usage: fill_ledger FILE
#include "tests/golden/ledgers/fill_ledger.hpp"

#include <cstdio>

namespace {

using namespace millrace::broker;

#if FILLED_VERSION >= 3
Published publish(const EndingJob& job, const Outcome& outcome) {
  Published out;
  out.body = outcome.reason ? "the end of " + job.job : outcome.result;
  out.state = outcome.state;
#if FILLED_VERSION >= 7
  out.error = outcome.error;
#endif
  return out;
}
#else
millrace::Body end_body(const EndingJob& job, millrace::JobState, millrace::Code, std::int64_t) {
  return "the end of " + job.job;
}
#endif

}  // namespace

int main(int words, char** word) {
  if (words != 2) return 2;
  SqliteLedgerOptions options;
#if FILLED_VERSION >= 3
  options.publish = publish;
#else
  options.end_body = end_body;
#endif
  options.ballast_bytes = 0;
  auto ledger = open_sqlite_ledger(word[1], std::move(options));
  const auto done = ledger ? filled::fill(**ledger) : millrace::fail(ledger.error());
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().text().c_str());
  return 1;
}
