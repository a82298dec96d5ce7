#pragma once
// Tables that fit a terminal: columns that matter least are left out where there is no room, and
// the rest of the room goes to those that grow. Thread safety: pure functions and plain values.
#include <cstddef>
#include <string>
#include <vector>

namespace millrace::client {

// Columns of a terminal; names are ASCII or other UTF-8.
std::size_t text_columns(const std::string& line);
// At most so many columns; "~" ends what was cut off.
std::string cut(const std::string& line, std::size_t columns);
// The same with "~" before the last third: names of a fleet often differ at their ends.
std::string cut_within(const std::string& name, std::size_t columns);
// The parts that fit, in order, two spaces apart.
std::string joined(const std::vector<std::string>& parts, std::size_t columns);

struct FittedColumn {
  const char* name;
  std::size_t least;   // terminal columns that it needs
  int weight;          // the lightest column is left out first
  bool right = true;   // numbers stand at the right
  bool grows = false;  // takes the room that is left
};

class FittedTable {
 public:
  FittedTable(std::vector<FittedColumn> columns, std::size_t room);

  std::string header() const;
  // One cell for each column, also for those left out.
  std::string line(const std::vector<std::string>& cells) const;

 private:
  std::size_t needed() const;

  std::vector<FittedColumn> columns_;
  std::vector<std::size_t> shown_, widths_;
};

}  // namespace millrace::client
