#pragma once
// The broker's ledger in the simulation: requests that wait, and two handles on one store, each
// with a batch of them in flight. It does what LedgerThread and LedgerClient do, on the simulated
// clock. In half of the runs the store is unavailable now and then. Thread safety: one thread.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "broker/core/events.hpp"
#include "broker/ledger/ledger_inbox.hpp"
#include "broker/ledger/memory_ledger.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/planted_bugs.hpp"
#include "tests/unit/ledger/faulty_store.hpp"

namespace millrace::broker::simulation {

class Commits {
 public:
  struct Surroundings {
    Clock& clock;
    Dice& dice;
    std::function<std::int64_t()> unix_us;
    std::function<bool()> calm;                        // no more faults
    std::function<void(std::vector<Completed>)> done;  // requests whose operations are all durable
    std::function<void(std::string)> violation;
  };
  Commits(std::shared_ptr<MemoryStore> store, Publish publish, Surroundings around, Bug bug);

  void connect();  // a new broker has new handles
  void push(LedgerRequest request);
  void schedule();  // begins what may be carried out beside the batches in flight
  // As SIGKILL does: some of the requests may have been committed without an answer.
  void kill();
  int faults() const { return faults_; }
  int excused() const { return excused_; }  // jobs that waited in an engine that died

 private:
  struct Handle {
    std::shared_ptr<test::FaultPlan> plan;
    std::unique_ptr<Ledger> ledger;
    std::optional<LedgerBatch> batch;  // in flight
    std::vector<Operation> operations;
  };
  struct Waiting {
    std::size_t left = 0;
    std::vector<Result<Reply>> replies;
  };
  void begin(Handle& handle, LedgerBatch batch);
  void commit_later(Handle& handle);
  void commit(Handle& handle);

  std::shared_ptr<MemoryStore> store_;
  const Publish publish_;
  Surroundings around_;
  const bool faulty_;
  std::mt19937_64 fault_dice_;
  std::array<Handle, 2> handles_;
  LedgerInbox inbox_;
  std::map<std::uint64_t, Waiting> waiting_;  // by ticket
  std::uint64_t incarnation_ = 0;
  const Bug bug_;
  int faults_ = 0, excused_ = 0;
};

}  // namespace millrace::broker::simulation
