#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Qwen 2 and 2.5; Qwen 1.5 and 2 with experts.
extern const Family qwen2{.architecture = "qwen2", .rope = RopeKind::halves};

extern const Family qwen2moe{
    .architecture = "qwen2moe",
    .rope = RopeKind::halves,
    .mixture = Mixture::always,
    .weights_normalized = false,
    .shared_gate = true,
};

}  // namespace millrace::engine::families
