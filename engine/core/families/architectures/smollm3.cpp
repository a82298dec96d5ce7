#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// SmolLM 3.
extern const Family smollm3{
    .architecture = "smollm3",
    .rotated = RotatedLayers::not_each_fourth,
};

}  // namespace millrace::engine::families
