#pragma once
// A disk in memory behind an SQLite VFS. It knows which changes are not yet synced and can lose any
// of them. It counts the calls that change something; at the chosen one the power fails: that call
// and all later ones fail. `restore` then leaves what a disk might hold: everything synced, and an
// arbitrary part of the rest, with writes torn at sectors of 512 bytes and unsynced names perhaps
// gone. Locks, sector size and device properties are those of SQLite's own VFS for Unix.
// Thread safety: one thread.
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "schemas/base/env.hpp"

struct sqlite3_vfs;

namespace millrace::broker::test {

class PowerCutDisk {
 public:
  PowerCutDisk();  // registers the VFS
  ~PowerCutDisk();
  PowerCutDisk(const PowerCutDisk&) = delete;
  PowerCutDisk& operator=(const PowerCutDisk&) = delete;

  const std::string& vfs_name() const { return name_; }
  Env& env() { return *env_; }

  void cut_at(std::uint64_t call) { cut_at_ = call; }  // 0: never
  // The size of the disk: beyond it a file cannot grow. 0: unlimited.
  void capacity(std::uint64_t bytes) { capacity_ = bytes; }
  bool is_cut() const { return cut_; }
  std::uint64_t calls() const { return calls_; }
  std::uint64_t syncs() const { return syncs_; }
  void restore(std::uint64_t seed);

  struct Change {
    std::uint64_t offset = 0;
    std::string bytes;
    bool truncation = false;  // to `offset`
  };
  struct File {
    bool exists = false, existed = false;  // now, and in the folder as it is on the disk
    std::string content, durable;
    std::vector<Change> unsynced;
  };

  // For the VFS: true while there is power.
  bool step();
  File& file(const std::string& path) { return files_[path]; }
  std::uint64_t used() const;
  bool room_for(std::uint64_t more) const { return capacity_ == 0 || used() + more <= capacity_; }
  std::uint64_t free_bytes() const;
  void sync(File& file);
  void sync_names();

 private:
  std::string name_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  std::map<std::string, File> files_;
  std::uint64_t calls_ = 0, cut_at_ = 0, syncs_ = 0, capacity_ = 0;
  bool cut_ = false;
};

}  // namespace millrace::broker::test
