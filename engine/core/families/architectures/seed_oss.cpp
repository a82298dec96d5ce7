#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Seed-OSS.
extern const Family seed_oss{
    .architecture = "seed_oss",
    .norms = norms_before_renamed,
    .rope = RopeKind::halves,
};

}  // namespace millrace::engine::families
