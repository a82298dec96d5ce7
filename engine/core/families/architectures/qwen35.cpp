#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Qwen 3.5, 3.6 and 3.8, dense and with experts: three layers with a gated delta net, then one that
// attends. The converter has reordered the value heads, so that they take the key heads in turn.
extern const Family qwen35{
    .architecture = "qwen35",
    .norms = norms_before_renamed,
    .rope = RopeKind::halves,
    .rope_sections = true,
    .head_norm = HeadNorm::by_head,
    .recurrent = RecurrentLayers::by_key,
    .recurrence = RecurrenceKind::delta_net,
    .keys_in_turn = true,
    .output_gate = true,
};

extern const Family qwen35moe{
    .architecture = "qwen35moe",
    .norms = norms_before_renamed,
    .rope = RopeKind::halves,
    .rope_sections = true,
    .head_norm = HeadNorm::by_head,
    .recurrent = RecurrentLayers::by_key,
    .recurrence = RecurrenceKind::delta_net,
    .keys_in_turn = true,
    .output_gate = true,
    .mixture = Mixture::always,
    .shared_gate = true,
};

}  // namespace millrace::engine::families
