#pragma once
// Connects the core, which asks for several operations at once and waits for all their replies, to
// the ledger thread, which replies to each. Keeps the order of requests when the inbox is full.
// Thread safety: the owner's thread only.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "broker/core/events.hpp"
#include "broker/ledger/ledger_thread.hpp"

namespace millrace::broker {

class LedgerClient {
 public:
  LedgerClient(std::vector<std::unique_ptr<Ledger>> handles, std::function<void()> wake,
               LedgerThreadOptions options = {});

  // Errors: the ledger's failure; the process must stop.
  Status post(LedgerRequest request);
  // Returns the requests whose operations are all answered. Errors: the ledger's failure.
  Result<std::vector<Completed>> take();
  void stop() { thread_.stop(); }
  void give_up_soon() { thread_.give_up_soon(); }
  LedgerStatistics statistics() const { return thread_.statistics(); }

 private:
  struct Waiting {
    std::size_t operations = 0;  // without a reply yet
    std::vector<Result<Reply>> replies;
  };
  Result<bool> try_post(LedgerRequest& request);  // false: the inbox has no room

  LedgerThread thread_;
  std::unordered_map<std::uint64_t, Waiting> waiting_;
  std::deque<LedgerRequest> backlog_;
};

}  // namespace millrace::broker
