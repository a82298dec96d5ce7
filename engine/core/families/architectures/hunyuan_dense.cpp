#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Hunyuan without experts.
extern const Family hunyuan_dense{
    .architecture = "hunyuan-dense",
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
    .norm_after_rope = true,
};

}  // namespace millrace::engine::families
