#pragma once
// Reads the feed-forward of each layer: widths, experts, which layers are dense. Internal.
// Errors: gguf_malformed, unsupported_architecture. Thread safety: pure function.
#include <vector>

#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"
#include "engine/core/families/spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

Result<std::vector<FeedForwardSpec>> read_feed_forwards(Keys& keys, const Family& family,
                                                        Blocks blocks);

}  // namespace millrace::engine
