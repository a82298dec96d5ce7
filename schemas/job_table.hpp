#pragma once
// The fields of a job by name, as job_fields.hpp declares them, and the check of a job's values. A
// field is supported, known (it accepts only values that change nothing), or unknown.
// Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "schemas/job.hpp"

namespace millrace {

struct JobField {
  std::string_view name;
  bool supported = true;
  bool in_openai_bodies = true;
  std::string_view main_name;  // the field that this is another name of; empty: none
  std::string about;           // documentation with limits, or which values are accepted
};

std::span<const JobField> job_fields();                 // sorted by name
const JobField* find_job_field(std::string_view name);  // null: unknown

// Adds the table's documentation as the hint of an error that has none and whose message begins
// with a field's name.
Error with_hint(Error error);

// Checks a job's values against every limit and range. Needs no clock, model or device. Errors:
// those of check_request (schemas/base/check_request.hpp).
Status check_job(const Job& job);

}  // namespace millrace
