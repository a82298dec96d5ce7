#include "client/commands/fitted_table.hpp"

#include <algorithm>
#include <utility>

namespace millrace::client {
namespace {

// A continuation byte takes no column.
bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::string padded(const std::string& shown, std::size_t columns, bool right) {
  const std::string space(columns - text_columns(shown), ' ');
  return right ? space + shown : shown + space;
}

// A column that grows takes no more than so many times what it needs, so that the columns of a wide
// terminal stay together.
constexpr std::size_t most_growth = 4;

}  // namespace

std::size_t text_columns(const std::string& line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, begins_character));
}

std::string cut(const std::string& line, std::size_t columns) {
  if (text_columns(line) <= columns) {
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

std::string cut_within(const std::string& name, std::size_t columns) {
  const std::size_t all = text_columns(name);
  if (all <= columns || columns < 3) {
    return cut(name, columns);
  }
  const std::size_t tail = (columns - 1) / 3;
  std::size_t begin = name.size();
  for (std::size_t seen = 0; seen < tail;) {
    seen += begins_character(name[--begin]) ? 1 : 0;
  }
  return cut(name, columns - tail) + name.substr(begin);
}

std::string joined(const std::vector<std::string>& parts, std::size_t columns) {
  std::string line;
  for (const std::string& part : parts) {
    if (text_columns(line) + 2 + text_columns(part) <= columns) {
      line += (line.empty() ? "" : "  ") + part;
    }
  }
  return line;
}

FittedTable::FittedTable(std::vector<FittedColumn> columns, std::size_t room)
    : columns_(std::move(columns)) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    shown_.push_back(i);
  }
  while (shown_.size() > 1 && needed() > room) {
    shown_.erase(
        std::ranges::min_element(shown_, {}, [this](std::size_t i) { return columns_[i].weight; }));
  }
  const std::size_t rest = room - std::min(room, needed());
  const auto growing = static_cast<std::size_t>(
      std::ranges::count_if(shown_, [this](std::size_t i) { return columns_[i].grows; }));
  for (const std::size_t i : shown_) {
    const FittedColumn& column = columns_[i];
    const std::size_t more =
        column.grows ? std::min(rest / growing, (most_growth - 1) * column.least) : 0;
    widths_.push_back(column.least + more);
  }
}

std::string FittedTable::header() const {
  std::vector<std::string> names;
  for (const FittedColumn& column : columns_) {
    names.emplace_back(column.name);
  }
  return line(names);
}

std::string FittedTable::line(const std::vector<std::string>& cells) const {
  std::string out;
  for (std::size_t at = 0; at < shown_.size(); ++at) {
    const FittedColumn& column = columns_[shown_[at]];
    const std::string& cell = cells[shown_[at]];
    const std::string shown = column.grows ? cut_within(cell, widths_[at]) : cut(cell, widths_[at]);
    out += (at == 0 ? "" : "  ") + padded(shown, widths_[at], column.right);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::size_t FittedTable::needed() const {
  std::size_t sum = 2 * (shown_.size() - 1);
  for (const std::size_t i : shown_) {
    sum += columns_[i].least;
  }
  return sum;
}

}  // namespace millrace::client
