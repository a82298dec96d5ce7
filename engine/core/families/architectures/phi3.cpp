#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Phi 3, 3.5 and 4.
extern const Family phi3{
    .architecture = "phi3",
    .rope = RopeKind::halves,
    .windowed = WindowedLayers::all,
};

}  // namespace millrace::engine::families
