#pragma once
// Reads inputs once before anything runs, and says which lines would be refused and why.
// Errors: those of File, and of the callback. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/input_files.hpp"
#include "client/lines/parse_line.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

struct BadInput {
  InputPlace place;
  std::string place_text;  // "line 7", of several files "b.jsonl line 2"
  std::string custom_id;
  Error error;
};

struct InputReport {
  std::uint64_t lines = 0;
  std::uint64_t chats = 0, completions = 0, plain = 0;  // of the good lines, by their form
  std::uint64_t bad = 0, warned = 0;
  std::map<Code, std::uint64_t> bad_by_code;
  std::vector<BadInput> first_bad;       // at most InputCheck::most_kept
  std::optional<BadInput> first_warned;  // with the warning as its error's message
  bool whole = true;                     // the inputs were read to their end
  std::uint64_t good() const { return lines - bad; }
};

struct InputCheck {
  bool strict = false;
  std::size_t most_kept = 10;
  // Called for each line that is good so far; an error makes it a bad line. May be empty.
  std::function<Status(const InputLine& line, const Job& job)> check_job{};
  std::function<bool()> stop{};  // true: reads no further. May be empty.
};

Result<InputReport> check_input(InputFiles& files, const InputCheck& check);

}  // namespace millrace::client
