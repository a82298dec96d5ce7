#pragma once
// Reads the recurrences of a file's layers. Internal. Errors: gguf_malformed,
// unsupported_architecture. Thread safety: pure function.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"
#include "engine/core/families/recurrence_spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// What a layer has besides its feed-forward.
struct Mixer {
  bool attends = true;
  RecurrenceSpec recurrence{};
};

// Of each layer. In some families the attention and the feed-forwards, as far as they are read, say
// which layers have a recurrence.
Result<std::vector<Mixer>> read_mixers(Keys& keys, const Family& family, Blocks blocks,
                                       std::uint32_t width,
                                       std::span<const AttentionSpec> attentions,
                                       std::span<const FeedForwardSpec> feed_forwards);

}  // namespace millrace::engine
