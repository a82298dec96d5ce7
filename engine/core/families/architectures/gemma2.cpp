#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Gemma 2: every second layer has a window.
extern const Family gemma2{
    .architecture = "gemma2",
    .norms = norms_around,
    .rope = RopeKind::halves,
    .windowed = WindowedLayers::pattern,
    .window_period = 2,
    .window = 4096,
    .score_soft_cap = 50.0f,
    .wide_scale_layers = 46,
    .gate = Gate::gelu,
    .embedding_times_root_width = true,
    .logit_soft_cap = 30.0f,
};

}  // namespace millrace::engine::families
