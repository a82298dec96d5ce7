#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// GLM 4 and Z1, 9B and 32B.
extern const Family glm4{.architecture = "glm4", .norms = norms_around};

}  // namespace millrace::engine::families
