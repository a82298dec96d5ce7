#pragma once
// A JSON object of a model folder (config.json and the like), read by key and type. A value that is
// null counts as absent, as in the library that writes these files, and infinity may be in a list
// of numbers, bare or as an object, as older and newer versions of that library write it. Errors:
// folder_unreadable (the file cannot be read), folder_malformed (no JSON object; a key that is
// absent or has another type, named with its file). Thread safety: immutable.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::engine {

// Reads a whole file of a model folder.
Result<std::string> read_folder_file(const std::string& path);

class Settings {
 public:
  Settings();  // an empty object
  static Result<Settings> parse(std::string_view text, std::string source);
  static Result<Settings> read(const std::string& path);
  // An empty object if the file does not exist.
  static Result<Settings> read_if_there(const std::string& path);

  bool has(std::string_view key) const;
  // T is one of std::uint32_t, double, bool, std::string, and vectors of double and std::string.
  template <class T>
  Result<std::optional<T>> find(std::string_view key) const;

  template <class T>
  Result<T> get(std::string_view key) const {
    MILLRACE_ASSIGN(auto value, find<T>(key));
    if (value) return *std::move(value);
    return std::unexpected(absent(key));
  }
  template <class T>
  Result<T> get_or(std::string_view key, T fallback) const {
    MILLRACE_ASSIGN(auto value, find<T>(key));
    return value ? *std::move(value) : std::move(fallback);
  }

  // An object within this one; an empty one if there is none.
  Result<Settings> object(std::string_view key) const;
  bool is_object(std::string_view key) const;
  bool is_text(std::string_view key) const;
  // A text; of a list of objects, that of the one named "default", or else of the first.
  Result<std::string> named_text(std::string_view key, std::string_view text) const;
  std::vector<std::string> keys() const;
  // These settings with those of `other` in the place of, or beside, its own.
  Settings with(const Settings& other) const;
  Settings named(std::string source) const;  // the same with another name in messages
  // The value of `from` alone, as that of `to`.
  Settings renamed(std::string_view from, std::string_view to) const;
  const std::string& source() const;

 private:
  struct State;
  explicit Settings(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  Error absent(std::string_view key) const;
  Error wrong(std::string_view key, std::string_view wanted) const;

  std::shared_ptr<const State> state_;
};

}  // namespace millrace::engine
