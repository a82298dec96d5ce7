#pragma once
// The file system behind an interface, so that tests can simulate lost writes, power cuts and full
// disks (schemas/base/fault_env.hpp).
//
// Durability: a file's content survives a power cut once sync() or sync_data() has returned; the
// creation or removal of a name survives it once sync_directory() of its folder has returned. An
// open() that creates a file, rename(), remove() and make_directories() sync the folder themselves.
// Where a folder is emptied at each start, OpenMode::temporary and drop() do without that.
// An error of a sync is final: nobody knows what reached the disk, and a second try may report
// success wrongly; the caller must stop and recover from what it can read.
//
// Errors: io_error (with path and the system's reason), disk_full, not_found. Thread safety: any
// thread may use an Env, one thread at a time a File.
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
  virtual ~File() = default;  // closes without a sync
  virtual Status append(std::string_view bytes) = 0;
  virtual Status write_at(std::uint64_t offset, std::string_view bytes) = 0;
  // Returns the number of bytes read, which is smaller than asked only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<char> into) = 0;
  virtual Result<std::uint64_t> size() = 0;
  virtual Status truncate(std::uint64_t size) = 0;  // cuts, or extends with zeros
  virtual Status sync() = 0;                        // fsync
  virtual Status sync_data() = 0;                   // fdatasync
  virtual const std::string& path() const = 0;
};

// A lock that is held until it is destroyed. The file stays; its holder may remove it at the end.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class OpenMode : std::uint8_t {
  read,        // must exist
  write,       // read and write; created when absent
  create_new,  // read and write; must not exist
  replace,     // read and write; created, or emptied when it exists
  temporary    // as create_new, but its folder is not synced
};

// Who may read and write a file: only its owner for the product's own files, also for one that
// existed before and is opened for writing; whoever the process's umask allows for new outputs that
// a user names.
enum class Access : std::uint8_t { owner, by_umask };

class Env {
 public:
  virtual ~Env() = default;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode,
                                     Access access = Access::owner) {
    return open_file(path, mode, access);
  }
  // Takes a lock that excludes other processes and other holders in this one. Errors: output_in_use
  // when another holds it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;  // names, sorted
  virtual Status make_directories(const std::string& folder) = 0;             // missing ones: 0700
  virtual Status rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  virtual Status remove(const std::string& path) = 0;  // a file; not_found if it is absent
  // As remove, but the folder is not synced: after a power cut the name may be there again.
  virtual Status drop(const std::string& path) { return remove(path); }
  virtual Status sync_directory(const std::string& folder) = 0;
  virtual Result<std::uint64_t> free_bytes(const std::string& folder) = 0;

 private:
  virtual Result<std::unique_ptr<File>> open_file(const std::string& path, OpenMode mode,
                                                  Access access) = 0;
};

std::unique_ptr<Env> posix_env();

// Reads the whole file. Errors: too_large above max_bytes.
Result<std::string> read_file(Env& env, const std::string& path, std::uint64_t max_bytes);
// Replaces the file's content: after a crash it has either the old or the new content.
Status write_file_atomically(Env& env, const std::string& path, std::string_view content,
                             Access access = Access::owner);

std::string parent_directory(std::string_view path);  // "." for a bare name

}  // namespace millrace
