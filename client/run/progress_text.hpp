#pragma once
// A run's progress in words, for a line that is redrawn or printed now and then.
// Thread safety: pure functions.
#include <cstddef>
#include <string>

#include "client/run/observer.hpp"

namespace millrace::client {

// "12/64 done (18.8 %), 2 failed, 8 running, 123.4 tok/s, 1 min 20 s left". Where that is longer
// than `columns`, what matters least is left out.
std::string progress_text(const RunProgress& progress, std::size_t columns);

// How long it will take still; negative while that cannot be told: before half as many jobs have
// ended as are running, a guess would be about the shortest jobs alone.
double seconds_left(const RunProgress& progress);

double tokens_per_second(const RunProgress& progress);  // of the whole session

std::string duration_text(double seconds);  // "59 s", "1 min 20 s", "2 h 3 min"

}  // namespace millrace::client
