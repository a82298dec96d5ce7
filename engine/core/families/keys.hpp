#pragma once
// Reads the keys of one architecture, such as "llama.block_count", and remembers which were asked
// for. A key that nothing asks for might change the arithmetic, so refuse_unread() refuses it.
// Errors: gguf_malformed, unsupported_architecture. Thread safety: one thread.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// The blocks of a file: first the layers, then those that only draft tokens.
struct Blocks {
  std::uint32_t all = 0, layers = 0;
};

class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  const GgufFile& file() const { return file_; }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  bool contains(std::string_view name) const { return file_.metadata().contains(full(name)); }

  template <class T>
  Result<T> get(std::string_view name) {
    return file_.metadata().get<T>(ask(name));
  }
  template <class T>
  Result<T> get_or(std::string_view name, T fallback) {
    return file_.metadata().get_or<T>(ask(name), fallback);
  }
  // One number for each of `blocks`, from one number or an array. Absent: all are the fallback, or,
  // if there is none, an error.
  Result<std::vector<std::uint32_t>> by_block(std::string_view name, std::uint32_t blocks,
                                              std::optional<std::uint32_t> fallback);
  // One flag for each of `blocks`, from an array of bools.
  Result<std::vector<bool>> flags(std::string_view name, std::uint32_t blocks);

  // A factor; the fallback if it is absent or 0, which converters write for unset. Factors outside
  // 1e-6 to 1e6 are refused.
  Result<float> factor(std::string_view name, float fallback = 1.0f);

  // Refuses a factor that the family has not asked for, unless it has no effect: it is absent,
  // `neutral`, or 0, which converters write for unset.
  Status refuse_unless_neutral(std::string_view name, float neutral);
  void ignore(std::string_view name) { ask(name); }
  Status refuse_unread() const;

 private:
  std::string ask(std::string_view name) { return *asked_.insert(full(name)).first; }

  const GgufFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> asked_;
};

std::unexpected<Error> unsupported(const GgufFile& file, const std::string& what);
std::unexpected<Error> damaged(const GgufFile& file, const std::string& what);

}  // namespace millrace::engine
