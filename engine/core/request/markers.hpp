#pragma once
// Chooses the markers that divide a request's text into parts: the markers that the request lists,
// or those that the model is known to write. A marker is known if the model's vocabulary holds it
// as one token, because those who train a model to reason aloud or to call tools give it such
// tokens, or if the model's chat template writes it.
// Thread safety: pure functions.
#include <string_view>
#include <vector>

#include "engine/core/stop/stop_machine.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {

// Returns the markers of well-known model families that the vocabulary or the chat template holds.
std::vector<Marker> known_markers(const Tokenizer& tokenizer, std::string_view chat_template);

// Returns the request's own markers, or else those of the model that it asks for. A request that
// says nothing asks for reasoning and channels if its prompt is a chat, and for none otherwise.
std::vector<Marker> wanted_markers(const GenerationRequest& request,
                                   const std::vector<Marker>& of_model);

// Puts markers into the rules, with the part that the prompt leaves open (some templates end with a
// reasoning marker). Without markers the rules stay unchanged.
void add_markers(std::vector<Marker> markers, const Tokens& prompt, const Tokenizer& tokenizer,
                 StopRules& rules);

}  // namespace millrace::engine
