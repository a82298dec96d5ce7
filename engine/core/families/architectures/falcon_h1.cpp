#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Falcon H1: attention and Mamba 2 side by side in each layer.
extern const Family falcon_h1{
    .architecture = "falcon-h1",
    .rope = RopeKind::halves,
    .recurrent = RecurrentLayers::beside_attention,
    .recurrence = RecurrenceKind::mamba2,
};

}  // namespace millrace::engine::families
