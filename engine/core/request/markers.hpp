#pragma once
// The markers that a request's text is taken apart by: those it lists, or those that the model is
// known to write. A model is known to write a marker when its vocabulary holds it as one token: who
// trained it to reason aloud or to call tools gave it that token. Thread safety: pure functions.
#include <vector>

#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {

std::vector<Marker> known_markers(const Tokenizer& tokenizer);

// Puts them into the rules; with the part that the prompt leaves open, as templates do that end
// with a reasoning marker. Nothing is set where a model is known to write none.
void add_markers(const MarkerRequest& request, const Tokens& prompt, const Tokenizer& tokenizer,
                 StopRules& rules);

}  // namespace millrace::engine
