#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// OLMo 2; OLMo 3, whose layers but each fourth have a window and rotate without scaling.
extern const Family olmo2{
    .architecture = "olmo2",
    .norms = norms_after,
    .rope = RopeKind::halves,
    .local_is_plain = true,
    .head_norm = HeadNorm::whole_width,
    .windowed = WindowedLayers::pattern,
    .window_period = 4,
};

}  // namespace millrace::engine::families
