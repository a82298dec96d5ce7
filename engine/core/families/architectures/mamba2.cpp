#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Mamba 2: a recurrence is all that a layer has.
extern const Family mamba2{
    .architecture = "mamba2",
    .rope = RopeKind::none,
    .recurrent = RecurrentLayers::all,
    .recurrence = RecurrenceKind::mamba2,
    .one_sublayer = true,
};

}  // namespace millrace::engine::families
