#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// gpt-oss 20B and 120B. Its own code does not round the range of YaRN, and no key says so.
extern const Family gpt_oss{
    .architecture = "gpt-oss",
    .norms = norms_before_renamed,
    .rope = RopeKind::halves,
    .yarn_rounds_range = false,
    .sinks = true,
    .windowed = WindowedLayers::pattern,
    .window_period = 2,
    .window_is_needed = true,
    .gate = Gate::clamped_silu,
    .mixture = Mixture::always,
    .router = Router::softmax_of_chosen,
    .weights_normalized = false,  // the softmax has done it
};

}  // namespace millrace::engine::families
