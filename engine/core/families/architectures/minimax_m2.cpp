#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// MiniMax M2.
extern const Family minimax_m2{
    .architecture = "minimax-m2",
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::whole_width,
    .mixture = Mixture::always,
    .router = Router::sigmoid,
    .selection_bias = true,
};

}  // namespace millrace::engine::families
