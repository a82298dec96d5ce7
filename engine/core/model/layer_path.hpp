#pragma once
// How the layers of a loaded model run: all in one launch, in several launches, or in parts, with
// one launch for every operation. The bits are the same, but the time is not: a step of a model
// with thirty layers takes 5 launches or more than 200. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::engine {

struct LayerPath {
  std::uint32_t layers = 0;    // layers of the model
  std::uint32_t launches = 0;  // launches for layers that run whole, one or many in a launch
  std::uint32_t in_parts = 0;  // layers that run in parts
  std::string reason{};        // why not all run in one launch, for the first layer concerned

  void add_whole(std::uint32_t count, std::string_view why_apart);
  void add_in_parts(std::string_view why);

  void add(const LayerPath& path);  // of the layers after these, on another device

  std::string_view name() const;  // "one launch", "several launches" or "parts"
  std::string text() const;       // for people: numbers and reason
  void log() const;               // writes one line; call it when the model is loaded
};

}  // namespace millrace::engine
