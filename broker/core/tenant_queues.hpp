#pragma once
// Tells what waits and runs, by tenant: for a key that may operate the broker of all tenants, for
// another one of its own. What waits is asked of the ledger; what runs is in the table of engines.
// Thread safety: none.
#include <functional>
#include <string>
#include <vector>

#include "broker/core/engine_table.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class TenantQueues {
 public:
  TenantQueues(Outbox& out, const EngineTable& table) : out_(out), table_(table) {}

  struct Found {
    std::vector<TenantQueue> queues;
    bool more = false;  // tenants that are not among them
  };
  using Then = std::function<void(const Result<Found>&)>;
  // Calls `then` once, with an error where the ledger gives one. The first tenants by name are
  // told, as many as Tally names.
  void ask(const Asker& asker, Then then);

 private:
  void count(const std::vector<std::string>& tenants, bool more, Then then);

  Outbox& out_;
  const EngineTable& table_;
};

}  // namespace millrace::broker
