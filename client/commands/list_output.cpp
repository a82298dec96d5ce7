#include "client/commands/list_output.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "client/commands/command.hpp"

namespace millrace::client {
namespace {

void print(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

// Counts the characters of UTF-8 text, not its bytes.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) {
    return cell;
  }
  std::string out = "\"";
  for (const char byte : cell) {
    out += byte == '"' ? "\"\"" : std::string(1, byte);
  }
  return out + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  }
  return line;
}

}  // namespace

void add_list_flags(CLI::App& app, ListFlags& flags) {
  app.add_option("-o,--output", flags.format, "text, table, json, jsonl or csv [text]")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(std::vector<std::string>{"text", "table", "json", "jsonl", "csv"}));
  app.add_flag("-q,--quiet,--ids", flags.quiet, "print the ids alone");
}

ListOutput::Format ListOutput::format_of(const ListFlags& flags, bool json) {
  if (flags.quiet) {
    return Format::ids;
  }
  if (flags.format.empty()) {
    return json ? Format::jsonl : Format::text;
  }
  return flags.format == "table"   ? Format::table
         : flags.format == "json"  ? Format::json
         : flags.format == "jsonl" ? Format::jsonl
         : flags.format == "csv"   ? Format::csv
                                   : Format::text;
}

ListOutput::ListOutput(const ListFlags& flags, bool json, std::vector<std::string> columns)
    : format_(format_of(flags, json)), columns_(std::move(columns)) {}

void ListOutput::row(ListRow row) {
  const bool first = rows_++ == 0;
  switch (format_) {
    case Format::ids:
      print(printable_name(row.id));
      break;
    case Format::text:
      print(printable(row.text));
      break;
    case Format::jsonl:
      print(row.json);
      break;
    case Format::json:
      std::fputs(first ? "[" : ",\n ", stdout);
      std::fwrite(row.json.data(), 1, row.json.size(), stdout);
      break;
    case Format::csv:
      if (first) {
        print(csv_line(columns_));
      }
      print(csv_line(row.cells));
      break;
    case Format::table:
      table_.push_back(std::move(row.cells));
      break;
  }
}

void ListOutput::finish(const std::string& none) {
  if (format_ == Format::json) {
    std::fputs(rows_ == 0 ? "[]\n" : "]\n", stdout);
  } else if (format_ == Format::csv && rows_ == 0) {
    print(csv_line(columns_));
  } else if (format_ == Format::table && rows_ > 0) {
    print_table();
  } else if ((format_ == Format::text || format_ == Format::table) && rows_ == 0) {
    print(none);
  }
}

void ListOutput::print_table() const {
  std::vector<std::size_t> widths;
  for (const std::string& column : columns_) {
    widths.push_back(width(column));
  }
  std::vector<std::vector<std::string>> rows = {columns_};
  for (const auto& cells : table_) {
    rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      rows.back().push_back(printable_name(cells[i]));
      widths[i] = std::max(widths[i], width(rows.back().back()));
    }
  }
  for (const auto& cells : rows) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += cells[i] + std::string(widths[i] - width(cells[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    print(line);
  }
}

}  // namespace millrace::client
