#include "engine/core/families/family.hpp"

namespace millrace::engine::families {

// Llama 2 and 3, SmolLM 2, the first Mistral models, Mixtral.
extern const Family llama{
    .architecture = "llama",
    .windowed = WindowedLayers::all,
    .mixture = Mixture::optional,
};

}  // namespace millrace::engine::families
