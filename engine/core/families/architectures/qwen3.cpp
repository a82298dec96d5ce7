#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Qwen 3, dense and with experts.
extern const Family qwen3{
    .architecture = "qwen3",
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
};

extern const Family qwen3moe{
    .architecture = "qwen3moe",
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
    .mixture = Mixture::always,
};

}  // namespace millrace::engine::families
