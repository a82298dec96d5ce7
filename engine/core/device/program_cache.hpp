#pragma once
// Compiled programs on disk, one file each, so that a second start compiles nothing. The key covers
// all that the binary depends on. A damaged file is reported and built again.
//
//   file := "MRPROG01" | key high, key low (u64 LE) | payload hash64 (u64 LE) | size (u64 LE) |
//           payload
//
// Several processes may share a folder, because a file is written under another name and then
// renamed. Disk errors are logged and never fail a build. Thread safety: any thread, each with
// other keys.
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/hash.hpp"

namespace millrace::engine {

// The folder of our caches, $XDG_CACHE_HOME/millrace or $HOME/.cache/millrace; "" if neither
// variable is set. It is never a folder such as /tmp, where others can write: programs in a cache
// are executed.
std::string cache_home();

class ProgramCache {
 public:
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}  // "": no cache
  bool on() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  static std::string default_folder();  // "" if cache_home() is empty

  // Whether there is a file for the program, damaged or not.
  bool holds(const Hash128& key, std::string_view name) const;
  // The stored binary; nothing if there is none, or if it is damaged.
  std::optional<std::string> load(const Hash128& key, std::string_view name) const;
  void store(const Hash128& key, std::string_view name, std::string_view binary) const;
  std::string path_of(const Hash128& key, std::string_view name) const;

 private:
  std::string folder_;
};

}  // namespace millrace::engine
