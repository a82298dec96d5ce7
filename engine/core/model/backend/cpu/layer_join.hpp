#pragma once
// Which layers run in one launch (whole_layer.hpp), and what the layers of a launch share. Thread
// safety: pure functions.
#include <cstdint>
#include <span>
#include <string>

#include "engine/core/model/backend/target.hpp"
#include "engine/core/model/layer_program.hpp"

namespace millrace::engine {

// These functions return a text for people: why a layer must run in parts, and why it needs another
// launch than the layers of a run. The text is empty if it runs whole, or with the run.
std::string why_in_parts(const Target& target, const LayerProgram& layer);
std::string why_apart(std::span<const LayerProgram> run, const LayerProgram& layer);

// The layer of a launch that says what its attention is compiled for; null if none attends.
const LayerProgram* attending(std::span<const LayerProgram> layers);
// The recurrence that all layers of a launch share; null if none recurs.
const Recurrence* recurrence_of(std::span<const LayerProgram> layers);
// The width of the feed-forward that every token takes: the dense one, or the shared expert.
std::uint32_t dense_width(const FeedForwardSpec& spec);

}  // namespace millrace::engine
