#pragma once
// A ledger in memory, for tests, the simulator and brokers whose jobs need not outlive them. It is
// a store like the others: transactions that can be rolled back, several handles, and the rules on
// top. Several brokers may use one store, as they may use one database: each lease has the name of
// its broker, and brokers tell each other their news. Errors: those of ledger.hpp, without
// disk_full and ledger_corrupt; `apply` itself never fails. Thread safety: one thread at a time for
// each handle; several threads may use handles on one store.
#include <cstdint>
#include <memory>
#include <string>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/store.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::broker {

class MemoryStore;

struct MemoryStoreOptions {
  Publish publish;    // required
  std::string epoch;  // empty: a random one
  // By whose wall time brokers live; not owned; null: the system's.
  const Clock* clock = nullptr;
};

std::shared_ptr<MemoryStore> make_memory_store(MemoryStoreOptions options);
std::unique_ptr<Ledger> make_memory_ledger(std::shared_ptr<MemoryStore> store);

// A handle without rules, whose transactions exclude those of the other handles. `broker` names the
// broker, the same in all of its handles; empty: the handle is no broker's.
std::unique_ptr<LedgerStore> make_memory_handle(std::shared_ptr<MemoryStore> store,
                                                std::string broker = {});

}  // namespace millrace::broker
