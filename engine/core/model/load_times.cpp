#include "engine/core/model/load_times.hpp"

#include <cmath>

#include "schemas/base/log.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::engine {

void LoadTimes::log() const {
  const auto rounded = [](double number) { return std::round(number * 100) / 100; };
  log_info("model loaded", {{"seconds", rounded(seconds())},
                            {"allocating", rounded(allocating_seconds)},
                            {"weights", size_text(weights.bytes)},
                            {"packing_and_writing", rounded(weights.seconds)},
                            {"threads", weights.threads},
                            {"reading_by_thread", rounded(weights.reading_seconds)},
                            {"packing_by_thread", rounded(weights.packing_seconds)},
                            {"programs_compiled", programs.compiled},
                            {"compiled_by_helpers", programs.by_helpers},
                            {"programs_cached", programs.cached},
                            {"waiting_for_programs", rounded(programs.seconds)}});
}

}  // namespace millrace::engine
