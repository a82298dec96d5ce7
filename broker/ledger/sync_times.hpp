#pragma once
// Measures how long the syncs of a connection's write-ahead log take: of a commit, the part that
// the disk is responsible for. Thread safety: the thread of the connection.
#include <cstdint>
#include <memory>

#include "broker/ledger/sqlite_database.hpp"

namespace millrace::broker {

class SyncTimes {
 public:
  SyncTimes();
  // Let it go after the connection, which finds the file's methods here.
  ~SyncTimes();
  SyncTimes(const SyncTimes&) = delete;
  SyncTimes& operator=(const SyncTimes&) = delete;

  // Measures the syncs of this connection from now on. It must have read from the file before, so
  // that its log is open; where it has none, nothing is measured.
  void attach(Database& database);
  // The time of the syncs since the last call, in microseconds, and at least 1 where there was one.
  std::uint64_t take_us();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
