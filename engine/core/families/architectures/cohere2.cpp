#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"

namespace millrace::engine::families {
namespace {

Status read_logit_scale(Keys& keys, ModelSpec& spec) {
  MILLRACE_ASSIGN(spec.logit_scale, keys.factor("logit_scale"));
  return {};
}

}  // namespace

// Command R7B and A: three layers with a window that rotate, then one that sees all and does not.
extern const Family cohere2{
    .architecture = "cohere2",
    .norms = norm_shared,
    .centered_norms = true,
    .rotated = RotatedLayers::windowed,
    .windowed = WindowedLayers::pattern,
    .window_period = 4,
    .window_is_needed = true,
    .finish = read_logit_scale,
};

}  // namespace millrace::engine::families
