#include "engine/core/families/family.hpp"
#include "engine/core/families/temperature.hpp"

namespace millrace::engine::families {

// Ministral 3, whose queries have a temperature, and Mistral Small 3.
extern const Family mistral3{
    .architecture = "mistral3",
    .windowed = WindowedLayers::all,
    .mixture = Mixture::optional,
    .finish = read_temperature,
};

}  // namespace millrace::engine::families
