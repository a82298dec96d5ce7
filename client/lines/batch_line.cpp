#include "client/lines/batch_line.hpp"

#include "schemas/json_fields.hpp"

namespace millrace::client {

std::string batch_line(const JobResult& end) {
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("batch", end.batch).key("counts").begin_object();
  write_fields(out, end.counts.value_or(JobCounts{}));
  out.end_object().key("metadata").begin_object();
  for (const auto& [name, value] : end.metadata) {
    out.field(name, value);
  }
  out.end_object().field("created_us", end.submitted_us).field("finished_us", end.ended_us);
  out.end_object();
  return line + "\n";
}

}  // namespace millrace::client
