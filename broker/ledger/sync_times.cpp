#include "broker/ledger/sync_times.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace millrace::broker {

// The methods of the log's file, of which one is replaced. SQLite finds the file's methods through
// the file, and so they lead back to the state.
struct SyncTimes::State : sqlite3_io_methods {
  const sqlite3_io_methods* theirs = nullptr;
  std::uint64_t taken_us = 0;

  static int sync(sqlite3_file* file, int flags) {
    using Steady = std::chrono::steady_clock;
    auto& self = const_cast<State&>(static_cast<const State&>(*file->pMethods));
    const auto start = Steady::now();
    const int rc = self.theirs->xSync(file, flags);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - start);
    self.taken_us += static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 1));
    return rc;
  }
};

SyncTimes::SyncTimes() : state_(std::make_unique<State>()) {}

SyncTimes::~SyncTimes() = default;

void SyncTimes::attach(Database& database) {
  sqlite3_file* file = nullptr;
  const int rc = sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER,
                                      static_cast<void*>(&file));
  if (rc != SQLITE_OK || file == nullptr || file->pMethods == nullptr) return;
  state_->theirs = file->pMethods;
  static_cast<sqlite3_io_methods&>(*state_) = *file->pMethods;
  state_->xSync = State::sync;
  file->pMethods = state_.get();
}

std::uint64_t SyncTimes::take_us() {
  return std::exchange(state_->taken_us, 0);
}

}  // namespace millrace::broker
