#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Gemma 3: five layers with a window and a base of their own, then one that sees all.
extern const Family gemma3{
    .architecture = "gemma3",
    .norms = norms_around,
    .rope = RopeKind::halves,
    .local_base = 10000.0,
    .local_is_plain = true,
    .head_norm = HeadNorm::by_head,
    .windowed = WindowedLayers::pattern,
    .window_period = 6,
    .wide_scale_layers = 62,
    .gate = Gate::gelu,
    .embedding_times_root_width = true,
    .logit_soft_cap = 0.0f,
};

}  // namespace millrace::engine::families
