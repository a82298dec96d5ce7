#pragma once
// The broker's ledger in the simulation: requests that wait, and a batch of them in flight on each
// handle of the storage. It does what LedgerThread and LedgerClient do, on the simulated clock.
// Thread safety: one thread.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/core/events.hpp"
#include "broker/ledger/ledger_inbox.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/planted_bugs.hpp"
#include "tests/simulation/storage.hpp"

namespace millrace::broker::simulation {

class Commits {
 public:
  struct Surroundings {
    Clock& clock;
    Dice& dice;
    Storage& storage;
    std::uint64_t look_ahead = 0;  // places that a claim looks ahead; 0: as many as ever
    std::function<std::int64_t()> unix_us;
    std::function<bool()> paused;                            // the process is stopped
    std::function<void(std::span<const Operation>)> begins;  // just before a commit
    // Just after it.
    std::function<void(std::span<const Operation>, std::span<const Result<Reply>>)> carried_out;
    std::function<void(const Operation&)> asked;  // the broker wants it done
    // A commit may have taken place, and will be tried again.
    std::function<void()> unknown;
    std::function<void(std::vector<Completed>)> done;  // requests whose operations are all durable
    std::function<void()> ended;                       // the ledger failed: the process must stop
    std::function<void()> late;  // a commit took place after its process had gone
    std::function<void(std::string)> violation;
  };
  Commits(Surroundings around, Bug bug);

  void connect(const std::string& broker);  // a new broker has new handles
  void push(LedgerRequest request);
  void schedule();  // begins what may be carried out beside the batches in flight
  // As SIGKILL does: some of the requests may have been committed without an answer.
  void kill();
  bool idle() const { return waiting_.empty(); }      // all requests have their answers
  std::uint64_t excused() const { return excused_; }  // jobs that waited in an engine that died

 private:
  struct Slot {                        // of a handle
    std::optional<LedgerBatch> batch;  // in flight
    std::vector<Operation> operations;
    int tries = 0;  // that failed
  };
  struct Waiting {
    std::size_t left = 0;
    std::vector<Result<Reply>> replies;
  };
  void begin(std::size_t slot, LedgerBatch batch);
  void commit_later(std::size_t slot);
  void commit_after_all(std::size_t slot);
  void clear();
  void commit(std::size_t slot);
  void end(const Error& error);
  std::vector<Completed> complete(std::size_t slot, std::vector<Result<Reply>> replies);

  Surroundings around_;
  std::vector<Slot> slots_;
  LedgerInbox inbox_;
  std::map<std::uint64_t, Waiting> waiting_;  // by ticket
  std::uint64_t incarnation_ = 0;
  const Bug bug_;
  std::uint64_t excused_ = 0;
};

}  // namespace millrace::broker::simulation
