#pragma once
// What the ledger of a broker stands on: the store in memory, which is unavailable now and then, or
// SQLite on a disk that fails. The disk loses what is not synced when the power fails, tears
// writes, returns errors at any call, fills up, and flips bits in the bodies of jobs. Several
// brokers may stand on one store in memory, as on a database: it may be out of reach for all of
// them, and a commit may take place after its broker has gone.
// Thread safety: one thread.
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "broker/ledger/memory_ledger.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/planted_bugs.hpp"

namespace millrace::broker::simulation {

enum class StorageKind : std::uint8_t { memory, unavailable_memory, disk };

// The text in each job's prompt in which the disk flips bits.
inline constexpr const char* padding = "................................";

// Ends a run: what is on the disk cannot be opened.
class LostLedger : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A database that several brokers use.
struct Server {
  std::shared_ptr<MemoryStore> store;
  std::int64_t down_until_us = 0;  // until then nobody reaches it
};
// `clock`: by which it counts heartbeats; outlives it.
std::shared_ptr<Server> make_server(const Publish& publish, const millrace::Clock& clock);

class SimulatedClock final : public millrace::Clock {
 public:
  explicit SimulatedClock(const simulation::Clock& clock) : clock_(clock) {}
  std::int64_t monotonic_us() const override { return clock_.now_us(); }
  std::int64_t wall_us() const override { return 1'700'000'000 * second + clock_.now_us(); }

 private:
  const simulation::Clock& clock_;
};

class Storage {
 public:
  // What took place in one commit, and whose it is.
  using Committed = std::function<void(const std::string& broker, std::span<const Operation>,
                                       std::span<const Result<Reply>>)>;
  struct Surroundings {
    Clock& clock;
    Dice& dice;
    std::function<bool()> calm;  // no more faults
    Publish publish;
    Bug bug = Bug::none;
    std::shared_ptr<Server> server{};  // null: no other broker uses the store
    Committed committed{};             // of a server
  };
  virtual ~Storage() = default;

  virtual std::size_t handles() const = 0;
  virtual std::shared_ptr<Ledger> handle(std::size_t i) = 0;
  // For questions, which meet no fault and find the leases of all brokers.
  virtual Ledger& sound() = 0;
  virtual void connect(const std::string& broker) = 0;  // a new broker has new handles
  // A commit may take place after the process that asked for it has gone.
  virtual bool outlives_processes() const { return false; }
  virtual void before_commit() = 0;   // may prepare a fault
  virtual void after_commit() = 0;    // questions meet none
  virtual void interrupt() = 0;       // the next commit is cut off in its middle
  virtual void crash() = 0;           // the process is killed, or the power fails
  virtual bool may_end() const = 0;   // whether an error of the disk may end the ledger
  virtual bool was_full() const = 0;  // whether submits may have been refused
  virtual std::uint64_t faults() const = 0;
  virtual std::uint64_t flips() const = 0;  // bodies of jobs in which a bit was flipped
};

std::unique_ptr<Storage> make_storage(StorageKind kind, Storage::Surroundings around);

}  // namespace millrace::broker::simulation
