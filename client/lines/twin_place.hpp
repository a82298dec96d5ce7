#pragma once
// A result notes which line of the input had its custom_id first. Line numbers count through all
// inputs; people need the file and the line in it.
// Thread safety: pure function.
#include "client/lines/input_files.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

// Of several inputs, makes "2 of b.jsonl" of the note. A note that is not a line number is left
// alone: a job's metadata may hold any text.
void place_twin(JobResult& result, const InputFiles& input);

}  // namespace millrace::client
