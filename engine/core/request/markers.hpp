#pragma once
// Chooses the markers that divide a request's text into parts: the markers that the request lists,
// or the known ones. A marker is known if the model's vocabulary holds it as one token: those who
// train a model to reason aloud or to call tools give it such tokens.
// Thread safety: pure functions.
#include <vector>

#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {

// Returns the markers of well-known model families that the vocabulary holds.
std::vector<Marker> known_markers(const Tokenizer& tokenizer);

// Puts the request's markers into the rules, with the part that the prompt leaves open (some
// templates end with a reasoning marker). Without markers the rules stay unchanged.
void add_markers(const MarkerRequest& request, const Tokens& prompt, const Tokenizer& tokenizer,
                 StopRules& rules);

}  // namespace millrace::engine
