#pragma once
// The file system behind an interface, so that lost writes, cuts of power and full disks can be
// tried in tests (schemas/base/fault_env.hpp).
//
// Durability: what a file holds survives a power cut after sync() or sync_data() returned; that a
// name exists, or no longer does, after sync_directory() of its folder. open() that creates a file,
// rename(), remove() and make_directories() sync the folder themselves: when they return, the name
// is as safe as it can be. An error of a sync is final: what reached the disk is unknown, and a
// second try may lie; the caller must stop and recover from what can be read.
//
// Errors: io_error (with path and the system's reason), disk_full, not_found. Thread safety: an Env
// may be used from any thread, a File by one at a time.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace {

class File {
 public:
  virtual ~File() = default;  // closes; nothing is synced
  virtual Status append(std::string_view bytes) = 0;
  virtual Status write_at(std::uint64_t offset, std::string_view bytes) = 0;
  // Bytes read; fewer than asked only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<char> into) = 0;
  virtual Result<std::uint64_t> size() = 0;
  virtual Status truncate(std::uint64_t size) = 0;  // cuts, or extends with zeros
  virtual Status sync() = 0;                        // fsync
  virtual Status sync_data() = 0;                   // fdatasync
  virtual const std::string& path() const = 0;
};

// Held until it is destroyed. The file stays; a holder may remove it as its last act.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class OpenMode : std::uint8_t {
  read,        // must exist
  write,       // read and write; created when absent
  create_new,  // read and write; must not exist
  replace      // read and write; created, or emptied when it exists
};

// Who may read and write a file that is created. What we keep for ourselves is its owner's alone;
// outputs that a user names are open to whom the process's umask lets.
enum class Access : std::uint8_t { owner, by_umask };

class Env {
 public:
  virtual ~Env() = default;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode,
                                     Access access = Access::owner) {
    return open_file(path, mode, access);
  }
  // Exclusive between processes and within one. Errors: output_in_use when another holds it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;  // names, sorted
  virtual Status make_directories(const std::string& folder) = 0;             // those missing: 0700
  virtual Status rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  virtual Status remove(const std::string& path) = 0;  // a file; absent is an error (not_found)
  virtual Status sync_directory(const std::string& folder) = 0;
  virtual Result<std::uint64_t> free_bytes(const std::string& folder) = 0;

 private:
  virtual Result<std::unique_ptr<File>> open_file(const std::string& path, OpenMode mode,
                                                  Access access) = 0;
};

std::unique_ptr<Env> posix_env();

// The whole file. Errors: too_large above max_bytes.
Result<std::string> read_file(Env& env, const std::string& path, std::uint64_t max_bytes);
// The file holds either its old or its new content, whatever happens in between.
Status write_file_atomically(Env& env, const std::string& path, std::string_view content,
                             Access access = Access::owner);

std::string parent_directory(std::string_view path);  // "." for a bare name

}  // namespace millrace
