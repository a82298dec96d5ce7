#pragma once
// What the ledger of a run stands on: the store in memory, which is unavailable now and then, or
// SQLite on a disk that fails. The disk loses what is not synced when the power fails, tears
// writes, returns errors at any call, fills up, and flips bits in the bodies of jobs.
// Thread safety: one thread.
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "broker/ledger/ledger.hpp"
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

class Storage {
 public:
  struct Surroundings {
    Clock& clock;
    Dice& dice;
    std::function<bool()> calm;  // no more faults
    Publish publish;
    Bug bug = Bug::none;
  };
  virtual ~Storage() = default;

  virtual std::size_t handles() const = 0;
  virtual Ledger& handle(std::size_t i) = 0;
  virtual Ledger& sound() = 0;        // for questions, which meet no fault
  virtual void connect() = 0;         // a new broker has new handles
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
