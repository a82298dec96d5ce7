#pragma once
// Puts what `millrace top` knows into lines of text that fit a terminal. Thread safety: pure
// functions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace::client {

enum class TopSection : std::uint8_t { all, engines, queues, batches };

struct TopView {
  std::string endpoint;
  bool away = false;    // the broker does not answer at present
  bool frozen = false;  // the user has stopped the display
  bool asked = false;   // the broker has answered once
  StatusAnswer status;
  std::vector<BatchState> batches;     // that have not finished, the oldest first
  bool more_batches = false;           // the broker has others, which no round sees
  double jobs_per_second = 0;          // that ended
  std::optional<double> seconds_left;  // until all jobs have ended, at that rate
  std::string clock;                   // time of day
  TopSection section = TopSection::all;
  std::size_t scroll = 0;  // lines of the section that are above the terminal
};

struct TopLine {
  std::string text;
  bool heading = false;
};

// At most `rows` lines of at most `columns` characters each.
std::vector<TopLine> top_frame(const TopView& view, std::size_t columns, std::size_t rows);

// The lines that the chosen section has, whatever fits; 0 where all are shown.
std::size_t section_lines(const TopView& view);

// How long the job waits that waits longest, of all queues that the broker told.
std::optional<std::uint64_t> oldest_ms(const StatusAnswer& status);

}  // namespace millrace::client
