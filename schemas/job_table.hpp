#pragma once
// The fields of a job by name, as job_fields.hpp declares them, and the check of a job's values.
// A field is supported; or known and not supported, and then only values that change nothing pass;
// or unknown. Thread safety: pure.
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
  std::string_view main_name;  // of a field that is another name for this one; empty: it is none
  std::string about;           // what it is, with its limits; or which values are accepted
};

std::span<const JobField> job_fields();                 // sorted by name
const JobField* find_job_field(std::string_view name);  // null: unknown

// The error with the table's line on the field as its hint, where it has none and its message
// begins with a field's name.
Error with_hint(Error error);

// A job's values against every limit and range. Needs no clock, model or device. Errors: those of
// check_request (schemas/base/check_request.hpp).
Status check_job(const Job& job);

}  // namespace millrace
