#pragma once
// A disk in memory behind an SQLite VFS. It knows which changes are not yet synced and can lose any
// of them. It counts the calls that change something; at the chosen one the power fails: that call
// and all later ones fail. `restore` then leaves what a disk might hold: everything synced, and
// of the rest all, nothing, or an arbitrary part, with writes torn at sectors of 512 bytes and
// unsynced names perhaps gone. A test that wants to see every such point of a run looks at the disk
// `before_each_call` and has another disk `take` what this one would hold if the power failed then.
// Locks, sector size and device properties are those of SQLite's own VFS for Unix.
// Thread safety: one thread.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/env.hpp"

struct sqlite3_vfs;

namespace millrace::broker::test {

enum class Kept : std::uint8_t { nothing, everything, some };  // of what is not synced

class PowerCutDisk {
 public:
  PowerCutDisk();  // registers the VFS
  ~PowerCutDisk();
  PowerCutDisk(const PowerCutDisk&) = delete;
  PowerCutDisk& operator=(const PowerCutDisk&) = delete;

  const std::string& vfs_name() const { return name_; }
  Env& env() { return *env_; }

  void cut_at(std::uint64_t call) { cut_at_ = call; }  // 0: never
  void cut_now() { cut_ = true; }
  // One call fails and the disk works on. A sync that fails drops what it should have saved, as
  // Linux does: it is read as if it were there, and later syncs do not save it.
  void fail_at(std::uint64_t call) { fail_at_ = call; }
  void fail_read_at(std::uint64_t read) { fail_read_at_ = read; }
  bool has_failed() const { return failed_; }
  // The size of the disk: beyond it a file cannot grow. 0: unlimited.
  void capacity(std::uint64_t bytes) { capacity_ = bytes; }
  bool is_cut() const { return cut_; }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t reads() const { return reads_; }
  std::uint64_t syncs() const { return syncs_; }
  // The power is back. `seed` decides what is kept, where that is a part.
  void restore(std::uint64_t seed, Kept kept = Kept::some);
  void before_each_call(std::function<void()> look) { look_ = std::move(look); }
  void take(const PowerCutDisk& other, std::uint64_t seed, Kept kept);

  struct Change {
    std::uint64_t offset = 0;
    std::string bytes;
    bool truncation = false;  // to `offset`
  };
  // SQLite's index of a log: memory that the connections of a process share, and its locks.
  struct LogIndex {
    std::vector<std::unique_ptr<char[]>> regions;
    std::array<int, 8> shared{};  // holders of each lock
    unsigned exclusive = 0;       // bits: locks held alone
  };
  struct File {
    bool exists = false, existed = false;  // now, and in the folder as it is on the disk
    std::string content, durable;
    std::vector<Change> unsynced;
    std::uint64_t writes = 0, cuts = 0;  // how often it was written, and made shorter
    std::weak_ptr<LogIndex> index;       // of the connections that have this file open
  };

  // For the VFS: whether the call succeeds.
  bool step();
  bool step_read();
  File& file(const std::string& path) { return files_[path]; }
  void forget(const std::string& path) { files_.erase(path); }
  std::string new_name() { return "temporary-" + std::to_string(++names_); }
  std::uint64_t used() const;
  bool room_for(std::uint64_t more) const { return capacity_ == 0 || used() + more <= capacity_; }
  std::uint64_t free_bytes() const;
  void sync(File& file);
  void sync_names();

 private:
  static File left_of(const File& file, std::mt19937_64& random, Kept kept);

  std::string name_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  std::map<std::string, File> files_;
  std::function<void()> look_;
  std::uint64_t calls_ = 0, cut_at_ = 0, fail_at_ = 0, reads_ = 0, fail_read_at_ = 0;
  std::uint64_t syncs_ = 0, capacity_ = 0, names_ = 0;
  bool cut_ = false, failed_ = false;
};

}  // namespace millrace::broker::test
