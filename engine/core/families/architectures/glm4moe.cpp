#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// GLM 4.5 to 4.7, Air.
extern const Family glm4moe{
    .architecture = "glm4moe",
    .norms = norms_before_renamed,
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
    .head_norm_is_optional = true,
    .mixture = Mixture::always,
    .router = Router::sigmoid,
    .selection_bias = true,
};

}  // namespace millrace::engine::families
