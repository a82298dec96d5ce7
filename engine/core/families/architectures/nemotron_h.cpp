#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Nemotron H and Nemotron 3: a layer is Mamba 2, attention that does not rotate, or a feed-forward
// without a gate.
extern const Family nemotron_h{
    .architecture = "nemotron_h",
    .rope = RopeKind::none,
    .recurrent = RecurrentLayers::without_kv_heads,
    .recurrence = RecurrenceKind::mamba2,
    .one_sublayer = true,
    .gate = Gate::relu_squared,
};

extern const Family nemotron_h_moe{
    .architecture = "nemotron_h_moe",
    .rope = RopeKind::none,
    .recurrent = RecurrentLayers::without_kv_heads,
    .recurrence = RecurrenceKind::mamba2,
    .one_sublayer = true,
    .gate = Gate::relu_squared,
    .mixture = Mixture::always,
    .router = Router::sigmoid,
    .selection_bias = true,
};

}  // namespace millrace::engine::families
