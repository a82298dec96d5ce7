#pragma once
// Puts what `millrace top` knows into lines of text that fit a terminal. Thread safety: pure
// functions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace::client {

struct TopView {
  std::string endpoint;
  bool away = false;    // the broker does not answer at present
  bool frozen = false;  // the user has stopped the display
  bool asked = false;   // the broker has answered once
  StatusAnswer status;
  std::vector<BatchState> batches;        // that have not finished, the oldest first
  std::uint64_t batches_seen = 0;         // by the last round, finished ones included
  bool more_batches = false;              // the broker has others, which no round sees
  double jobs_per_second = 0;             // that ended
  std::optional<double> seconds_left;     // until all jobs have ended, at that rate
  std::optional<std::uint64_t> oldest_s;  // age of the oldest job that has not ended
  std::string clock;                      // time of day
};

// At most `rows` lines of at most `columns` characters each.
std::vector<std::string> top_frame(const TopView& view, std::size_t columns, std::size_t rows);

}  // namespace millrace::client
