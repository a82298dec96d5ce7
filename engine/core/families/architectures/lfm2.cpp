#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// LFM2 and LFM2.5, dense and with experts: short convolutions, and some layers that attend.
extern const Family lfm2{
    .architecture = "lfm2",
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
    .windowed = WindowedLayers::all,
    .recurrent = RecurrentLayers::without_kv_heads,
    .recurrence = RecurrenceKind::convolution,
    .output_norm = "token_embd_norm",
};

extern const Family lfm2moe{
    .architecture = "lfm2moe",
    .rope = RopeKind::halves,
    .head_norm = HeadNorm::by_head,
    .windowed = WindowedLayers::all,
    .recurrent = RecurrentLayers::without_kv_heads,
    .recurrence = RecurrenceKind::convolution,
    .mixture = Mixture::always,
    .router = Router::sigmoid,
    .selection_bias = true,
    .output_norm = "token_embd_norm",
};

}  // namespace millrace::engine::families
