#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Qwen3-Next and Qwen3-Coder-Next: as Qwen 3.5, with value heads in the order of the checkpoint.
extern const Family qwen3next{
    .architecture = "qwen3next",
    .norms = norms_before_renamed,
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
    .recurrent = RecurrentLayers::by_key,
    .recurrence = RecurrenceKind::delta_net,
    .gates_by_key_head = true,
    .output_gate = true,
    .mixture = Mixture::always,
    .shared_gate = true,
};

}  // namespace millrace::engine::families
