#pragma once
// Prints lists in the format that the user chose with -o: sentences, a table, JSON or CSV, or with
// -q the ids alone. A table is printed at its end, because its columns are as wide as their widest
// cell; the other formats row by row. Thread safety: the main thread.
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace millrace::client {

struct ListFlags {
  std::string format;  // empty: text, or jsonl with --json
  bool quiet = false;
};

// Adds -o and -q.
void add_list_flags(CLI::App& app, ListFlags& flags);

struct ListRow {
  std::string id;                  // for -q
  std::string text;                // a sentence, without a newline
  std::vector<std::string> cells;  // as many as there are columns
  std::string json;                // an object
};

class ListOutput {
 public:
  ListOutput(const ListFlags& flags, bool json, std::vector<std::string> columns);

  void row(ListRow row);
  // Prints what is left. `none` is the sentence for an empty list.
  void finish(const std::string& none);

 private:
  enum class Format : std::uint8_t { text, table, json, jsonl, csv, ids };
  static Format format_of(const ListFlags& flags, bool json);
  void print_table() const;

  Format format_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> table_;
  std::uint64_t rows_ = 0;
};

}  // namespace millrace::client
