#pragma once
// Divides the end of a queue between engines by what they do. While much is queued, each engine
// takes what it has room for. At the end one that is ten times slower must not take jobs that the
// fast one would end sooner: an engine takes its next job only where it would end it no later than
// the others would end all that they hold and all that is queued.
//
//   - An engine with speed v and a work of w tokens is done after w / v; a job takes at least as
//     long as the engine's rows take for one job each.
//   - Of what is queued an engine takes at most the part that its speed has of the speeds of all
//     engines that ask at this moment.
// Estimates may be wrong; then a job runs on another engine than the best, and no more. An engine
// is not counted among the others where it can take no job, so no job waits for it in vain. Thread
// safety: pure functions.
#include <cstdint>
#include <span>

namespace millrace::broker {

struct EngineLoad {
  double tokens_per_second = 0;  // greater than 0
  double held_tokens = 0;        // of the cost of its jobs, those included that it asks for
  std::uint32_t rows = 0;        // that it computes at once; 0: not known
  bool asks = false;             // it would take jobs now
};

// How many of `queued` jobs the engine may take, `most` at most, beside the others, of which there
// is one at least. `tokens_per_job`, greater than 0, is what a job costs.
std::uint32_t jobs_by_speed(const EngineLoad& engine, std::span<const EngineLoad> others,
                            std::uint64_t queued, double tokens_per_job, std::uint32_t most);

}  // namespace millrace::broker
