#pragma once
// A ledger in memory, for tests, the simulator and brokers whose jobs need not outlive them.
// Several handles on one store act as several brokers on one ledger. Errors: those of ledger.hpp,
// without disk_full and ledger_corrupt; `apply` itself never fails. Thread safety: one thread at a
// time for each handle; several threads may use handles on one store.
#include <cstdint>
#include <memory>
#include <string>

#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

class MemoryStore;

struct MemoryStoreOptions {
  Publish publish;    // required
  std::string epoch;  // empty: a random one
  std::uint64_t max_queued_jobs = limits::queued_jobs;
};

std::shared_ptr<MemoryStore> make_memory_store(MemoryStoreOptions options);
std::unique_ptr<Ledger> make_memory_ledger(std::shared_ptr<MemoryStore> store);

}  // namespace millrace::broker
