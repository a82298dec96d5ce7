#include "client/commands/top_frame.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/times.hpp"
#include "client/run/progress_text.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t silent_from_ms = 3 * limits::heartbeat_ms;
constexpr std::size_t bar_columns = 10;

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 96> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

// Names are ASCII or any UTF-8; a continuation byte takes no column.
bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::size_t width(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, begins_character));
}

std::string cut(const std::string& line, std::size_t columns) {
  if (width(line) <= columns) {
    return line;
  }
  std::size_t end = 0;
  for (std::size_t seen = 0; end < line.size(); ++end) {
    seen += begins_character(line[end]) ? 1 : 0;
    if (seen == columns) {
      break;
    }
  }
  return columns == 0 ? "" : line.substr(0, end) + "~";
}

std::string padded(const std::string& cell, std::size_t columns, bool right) {
  const std::string shown = cut(cell, columns);
  const std::string space(columns - width(shown), ' ');
  return right ? space + shown : shown + space;
}

// "1,234,567"
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

struct Column {
  const char* name;
  std::size_t least;   // columns that it needs
  int weight;          // the lightest column is left out first
  bool right = true;   // numbers stand at the right
  bool grows = false;  // takes the room that is left
};

// Lays out a table: leaves out light columns until the others fit, and gives the rest of the room
// to those that grow.
class Table {
 public:
  Table(std::vector<Column> columns, std::size_t room) : columns_(std::move(columns)) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      shown_.push_back(i);
    }
    while (shown_.size() > 1 && needed() > room) {
      shown_.erase(std::ranges::min_element(shown_, {},
                                            [this](std::size_t i) { return columns_[i].weight; }));
    }
    std::size_t rest = room - std::min(room, needed());
    const auto growing =
        std::ranges::count_if(shown_, [this](std::size_t i) { return columns_[i].grows; });
    for (const std::size_t i : shown_) {
      widths_.push_back(columns_[i].least +
                        (columns_[i].grows ? rest / static_cast<std::size_t>(growing) : 0));
    }
  }

  std::string header() const {
    std::vector<std::string> names;
    for (const Column& column : columns_) {
      names.emplace_back(column.name);
    }
    return line(names);
  }
  std::string line(const std::vector<std::string>& cells) const {
    std::string out;
    for (std::size_t at = 0; at < shown_.size(); ++at) {
      const Column& column = columns_[shown_[at]];
      out += (at == 0 ? "" : "  ") + padded(cells[shown_[at]], widths_[at], column.right);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  }

 private:
  std::size_t needed() const {
    std::size_t sum = 2 * (shown_.size() - 1);
    for (const std::size_t i : shown_) {
      sum += columns_[i].least;
    }
    return sum;
  }

  std::vector<Column> columns_;
  std::vector<std::size_t> shown_, widths_;
};

std::string head_line(const TopView& view) {
  std::string state = view.away && view.asked ? "the broker does not answer" : "";
  if (view.status.draining) {
    state += (state.empty() ? "" : ", ") + std::string("draining");
  }
  if (view.status.paused) {
    state += (state.empty() ? "" : ", ") + std::string("all jobs are paused");
  }
  return "millrace top  " + view.clock + (view.frozen ? "  display stopped" : "") +
         (state.empty() ? "" : "  " + state) + "  " + printable_name(view.endpoint);
}

// Joins the parts that fit.
std::string joined(const std::vector<std::string>& parts, std::size_t columns) {
  std::string line;
  for (const std::string& part : parts) {
    if (width(line) + 2 + width(part) <= columns) {
      line += (line.empty() ? "" : "  ") + part;
    }
  }
  return line;
}

void add_totals(const TopView& view, std::size_t columns, std::vector<std::string>& lines) {
  const JobCounts& counts = view.status.counts;
  lines.push_back(
      joined({"queued " + grouped(counts.queued), "leased " + grouped(counts.leased),
              "completed " + grouped(counts.completed), "failed " + grouped(counts.failed),
              "cancelled " + grouped(counts.cancelled), "expired " + grouped(counts.expired)},
             columns));
  double tokens = 0;
  for (const EngineInfo& engine : view.status.engines) {
    tokens += engine.tokens_per_second;
  }
  std::vector<std::string> parts = {text("%.1f jobs/s", view.jobs_per_second),
                                    text("%.1f tokens/s", tokens)};
  if (view.seconds_left) {
    parts.push_back(duration_text(*view.seconds_left) + " left");
  }
  if (view.oldest_s) {
    parts.push_back("oldest job " + duration_text(static_cast<double>(*view.oldest_s)));
  }
  if (!view.status.refuses.empty()) {
    parts.push_back("new jobs are refused: " + printable_name(view.status.refuses));
  }
  lines.push_back(joined(parts, columns));
}

void add_engines(const TopView& view, std::size_t columns, std::vector<std::string>& lines) {
  if (view.status.engines.empty()) {
    lines.emplace_back(view.asked ? "no engine" : "waiting for the broker");
    return;
  }
  const Table table({{"ENGINE", 10, 9, false, true},
                     {"MODEL", 10, 3, false, true},
                     {"KV", 6, 1, false},
                     {"LEASES", 6, 4},
                     {"ROWS", 5, 5},
                     {"TOKENS/S", 9, 8},
                     {"STATE", 12, 2, false}},
                    columns);
  lines.push_back(table.header());
  for (const EngineInfo& engine : view.status.engines) {
    const EngineFacts& facts = engine.engine.facts;
    const std::string state =
        engine.silent_ms >= silent_from_ms
            ? "silent " + duration_text(static_cast<double>(engine.silent_ms) / 1e3)
            : (engine.rows > 0 ? "computes" : "idle");
    lines.push_back(
        table.line({printable_name(engine.name), printable_name(facts.model),
                    printable_name(facts.kv_policy), std::to_string(engine.leases),
                    std::to_string(engine.rows), text("%.1f", engine.tokens_per_second), state}));
  }
}

std::string bar(std::uint64_t part, std::uint64_t whole) {
  const std::size_t full =
      whole == 0 ? bar_columns : static_cast<std::size_t>(part * bar_columns / whole);
  return "[" + std::string(full, '#') + std::string(bar_columns - full, '.') + "]";
}

// What the lines of batches leave out, where so many more are known; "" for nothing.
std::string rest_text(const TopView& view, std::size_t hidden) {
  std::string rest = hidden == 0 ? "" : "and " + grouped(hidden) + " more that have not finished";
  if (view.more_batches) {
    rest += (hidden == 0 ? "and perhaps more" : ", or even more") +
            std::string(": the broker has over ") + grouped(view.batches_seen) + " batches";
  }
  return rest;
}

// Takes at most `room` lines.
void add_batches(const TopView& view, std::size_t columns, std::size_t room,
                 std::vector<std::string>& lines) {
  if (view.batches.empty() && !view.more_batches) {
    return;
  }
  const Table table({{"BATCH", 12, 9, false, true},
                     {"ENDED", 17, 7},
                     {"", bar_columns + 2, 2, false},
                     {"FAILED", 7, 4},
                     {"JOBS/S", 7, 3},
                     {"LEFT", 13, 6}},
                    columns);
  lines.push_back(table.header());
  const std::size_t fit = room - std::min<std::size_t>(room, 1);  // below the header
  const bool all = view.batches.size() <= fit && !view.more_batches;
  const std::size_t shown =
      std::min(view.batches.size(), all ? fit : fit - std::min<std::size_t>(fit, 1));
  for (std::size_t i = 0; i < shown; ++i) {
    const BatchState& batch = view.batches[i];
    const JobCounts& counts = batch.counts;
    const std::uint64_t open = counts.queued + counts.leased;
    const std::uint64_t ended =
        counts.completed + counts.failed + counts.cancelled + counts.expired;
    lines.push_back(table.line(
        {printable_name(batch.batch), std::to_string(ended) + "/" + std::to_string(ended + open),
         bar(ended, ended + open), std::to_string(counts.failed),
         text("%.1f", batch.jobs_per_second),
         batch.paused ? "paused"
                      : (batch.eta_s ? duration_text(static_cast<double>(*batch.eta_s)) : "")}));
  }
  if (const std::string rest = rest_text(view, view.batches.size() - shown); !rest.empty()) {
    lines.push_back(rest);
  }
}

}  // namespace

std::vector<std::string> top_frame(const TopView& view, std::size_t columns, std::size_t rows) {
  std::vector<std::string> lines = {head_line(view)};
  add_totals(view, columns, lines);
  lines.emplace_back();
  add_engines(view, columns, lines);
  lines.emplace_back();
  const std::size_t room = rows - std::min(rows, lines.size() + 1);  // above the keys
  add_batches(view, columns, room, lines);
  const std::string keys = "q quit  p stop or go on";
  if (rows > 1) {
    lines.resize(std::min(lines.size(), rows - 1));
    lines.push_back(keys);
  }
  lines.resize(std::min(lines.size(), rows));
  for (std::string& line : lines) {
    line = cut(line, columns);
  }
  return lines;
}

}  // namespace millrace::client
