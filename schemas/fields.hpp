#pragma once
// The one table of job fields, shared by the wire and by JSON input lines, which use the same
// names. A field is supported; or known and not supported, then only its neutral values (those that
// change nothing) pass; or unknown. And the one check of a job's values. Thread safety: pure.
#include <cstdint>
#include <span>
#include <string_view>

#include "schemas/job.hpp"

namespace millrace {

// Which values of a known but unsupported field change nothing. Null always does.
enum Neutral : std::uint32_t {
  neutral_null = 0,
  neutral_false = 1,
  neutral_true = 2,
  neutral_zero = 4,
  neutral_one = 8,
  neutral_empty = 16,         // "", [] or {}
  neutral_any = 32,           // it never changes the text
  neutral_none_or_auto = 64,  // "none" or "auto"
  neutral_text = 128,         // "text", ["text"] or {"type": "text"}
};

struct JobField {
  std::string_view name;
  bool supported;
  std::uint32_t neutral;   // of Neutral, for fields that are not supported
  std::string_view about;  // one line: what it is, or what its neutral values are
};

std::span<const JobField> job_fields();                 // sorted by name
const JobField* find_job_field(std::string_view name);  // null: unknown

// The error with the table's line on the field as its hint, where it has none and its message
// begins with a field's name.
Error with_hint(Error error);

// A job's values against every limit of base/limits.hpp and every range. Needs no clock, model or
// device. Errors: invalid_value, limit_exceeded, empty_prompt; `where` is the field's name.
Status check_job(const Job& job);

}  // namespace millrace
