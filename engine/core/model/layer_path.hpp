#pragma once
// How the layers of a loaded model run: all in one launch, in several, or each in parts, one launch
// for every operation. The bits are the same, the time is not: a step of a model with thirty layers
// takes 5 launches or more than 200. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::engine {

struct LayerPath {
  std::uint32_t layers = 0;    // of the model
  std::uint32_t launches = 0;  // of layers that run whole, one or many in a launch
  std::uint32_t in_parts = 0;  // layers that do not
  std::string reason{};        // why not all run in one launch; of the first layer it is true of

  void add_whole(std::uint32_t count, std::string_view why_apart);
  void add_in_parts(std::string_view why);

  std::string_view name() const;  // "one launch", "several launches" or "parts"
  std::string text() const;       // for people: numbers and reason
  void log() const;               // one line, when the model is loaded
};

}  // namespace millrace::engine
