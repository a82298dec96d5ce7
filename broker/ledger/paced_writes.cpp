#include "broker/ledger/paced_writes.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

namespace millrace::broker {
namespace {

constexpr std::size_t writes_at_once = 3;
constexpr sqlite3_int64 largest_write = 32 * page_bytes;  // pages side by side are one write

}  // namespace

// The methods of the connection's file, of which one is replaced. SQLite finds the file's methods
// through the file, and so they lead back to the state.
struct PacedWrites::State : sqlite3_io_methods {
  struct Written {
    sqlite3_int64 begin = 0, end = 0;
  };
  const sqlite3_io_methods* theirs = nullptr;
  int descriptor = -1;
  std::vector<Written> waiting;
  std::atomic<bool> hurried = false;

  static int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
    auto& self = const_cast<State&>(static_cast<const State&>(*file->pMethods));
    const int rc = self.theirs->xWrite(file, bytes, count, at);
    if (rc == SQLITE_OK) self.add({at, at + count});
    return rc;
  }
  void add(Written next) {
    if (hurried) return;
    if (!waiting.empty() && waiting.back().end == next.begin &&
        next.end - waiting.back().begin <= largest_write) {
      waiting.back().end = next.end;
      return;
    }
    if (waiting.size() == writes_at_once) write_back();
    waiting.push_back(next);
  }
  void write_back() {
    for (const unsigned step : {SYNC_FILE_RANGE_WRITE, SYNC_FILE_RANGE_WAIT_AFTER}) {
      for (const Written& one : waiting) {
        ::sync_file_range(descriptor, one.begin, one.end - one.begin, step);
      }
    }
    waiting.clear();
  }
};

PacedWrites::PacedWrites() : state_(std::make_unique<State>()) {}

PacedWrites::~PacedWrites() {
  if (state_->descriptor >= 0) ::close(state_->descriptor);
}

void PacedWrites::hurry(bool on) {
  state_->hurried = on;
}

Status PacedWrites::attach(Database& database) {
  sqlite3_file* file = nullptr;
  const int rc = sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_FILE_POINTER,
                                      static_cast<void*>(&file));
  if (rc == SQLITE_OK) state_->descriptor = ::open(database.path().c_str(), O_RDWR | O_CLOEXEC);
  if (rc != SQLITE_OK || state_->descriptor < 0) {
    return fail(Code::io_error,
                "ledger " + database.path() + ": cannot be opened for checkpoints: " +
                    (rc == SQLITE_OK ? std::strerror(errno) : sqlite3_errstr(rc)),
                "look at the permissions of the ledger's folder, then start again");
  }
  state_->theirs = file->pMethods;
  static_cast<sqlite3_io_methods&>(*state_) = *file->pMethods;
  state_->xWrite = State::write;
  file->pMethods = state_.get();
  return {};
}

}  // namespace millrace::broker
