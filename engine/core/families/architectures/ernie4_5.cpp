#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// ERNIE 4.5, dense and with experts.
extern const Family ernie4_5{.architecture = "ernie4_5"};

extern const Family ernie4_5_moe{.architecture = "ernie4_5-moe", .mixture = Mixture::always};

}  // namespace millrace::engine::families
