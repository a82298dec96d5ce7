#pragma once
// The end of a batch, as an entry of the stream `batches` tells it, as a line of output.
// Thread safety: pure function.
#include <string>

#include "schemas/job.hpp"

namespace millrace::client {

// {"batch": "evening", "counts": {...}, "metadata": {...}, "created_us": 1, "finished_us": 2}
std::string batch_line(const JobResult& end);

}  // namespace millrace::client
