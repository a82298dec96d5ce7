#pragma once
// Asks the ledger what it holds, for metrics, beside the core and without its knowledge: first for
// the tenants, then for their jobs, batches and streams, and last for the cursors of the streams.
// Its requests only read and share commits with whatever else waits.
//
//   begin() ─▶ requests ─▶ ledger ─▶ completed() ─▶ more requests, until done()
//
// Thread safety: the owner's thread only.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/events.hpp"
#include "broker/server/measures.hpp"

namespace millrace::broker {

class Survey {
 public:
  // Whether a request is a survey's and not the core's.
  static bool owns(std::uint64_t ticket) { return ticket >= first_ticket; }

  // The request to begin with. A survey that is under way is begun anew.
  LedgerRequest begin();
  // Takes the replies of the last request. Returns the next one; none: the survey is done, or it
  // has failed.
  std::optional<LedgerRequest> completed(const Completed& completed);
  bool running() const { return running_; }
  // Once it is done. Errors: the ledger's, where it has refused to answer.
  Result<LedgerMeasures> take();

 private:
  static constexpr std::uint64_t first_ticket = std::uint64_t{1} << 63;
  enum class Step : std::uint8_t { tenants, counts, cursors };

  bool all_answered(const std::vector<Result<Reply>>& replies);
  LedgerRequest ask(Step step, std::vector<Operation> operations);
  std::optional<LedgerRequest> ask_counts(const std::vector<Result<Reply>>& replies);
  std::optional<LedgerRequest> ask_cursors(const std::vector<Result<Reply>>& replies);
  void take_cursors(const std::vector<Result<Reply>>& replies);

  bool running_ = false;
  Step step_ = Step::tenants;
  std::uint64_t ticket_ = first_ticket;
  LedgerMeasures found_;
  std::optional<Error> refused_;
  std::vector<std::pair<std::size_t, std::size_t>> asked_;  // tenant and stream, by place
};

}  // namespace millrace::broker
