#pragma once
// Puts a run's progress into words, for a line that is redrawn or printed now and then.
// Thread safety: pure functions.
#include <cstddef>
#include <string>

#include "client/run/observer.hpp"

namespace millrace::client {

// Returns "12/64 done (18.8 %), 2 failed, 8 with the engine, 123.4 tok/s, 40 % of prompts cached,
// 1 min 20 s left", or what happens before the first job has ended. If that is longer than
// `columns`, leaves out the parts that matter least.
std::string progress_text(const RunProgress& progress, std::size_t columns);

// Estimates how long the run will still take. Negative while no estimate is possible: until half as
// many jobs have ended as are running, only the shortest jobs would count.
double seconds_left(const RunProgress& progress);

double tokens_per_second(const RunProgress& progress);  // of the whole session

std::string duration_text(double seconds);  // "59 s", "1 min 20 s", "2 h 3 min"

}  // namespace millrace::client
