#pragma once
// Compiled programs on disk, one file each, so that a second start compiles nothing. The key holds
// all that the binary depends on; a file that cannot be trusted is reported once and rebuilt.
//
//   file := "MRPROG01" | key high, key low (u64 LE) | payload hash64 (u64 LE) | size (u64 LE) |
//           payload
//
// Several processes may share a folder: files are written beside and renamed into place. Errors of
// the disk never fail a build; they are logged. Thread safety: one owner thread.
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/hash.hpp"

namespace millrace::engine {

// The folder of our caches, $XDG_CACHE_HOME/millrace or $HOME/.cache/millrace; "" where neither
// variable is set. Never a folder that others can write to: what lies in a cache is run.
std::string cache_home();

class ProgramCache {
 public:
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}  // "": no cache
  bool on() const { return !folder_.empty(); }
  static std::string default_folder();  // "" where there is no home for it

  // The stored binary; nothing when there is none, or none that can be trusted.
  std::optional<std::string> load(const Hash128& key, std::string_view name) const;
  void store(const Hash128& key, std::string_view name, std::string_view binary) const;
  std::string path_of(const Hash128& key, std::string_view name) const;

 private:
  std::string folder_;
};

}  // namespace millrace::engine
