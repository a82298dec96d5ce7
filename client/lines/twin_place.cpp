#include "client/lines/twin_place.hpp"

#include <charconv>
#include <system_error>

#include "schemas/openai/notes.hpp"

namespace millrace::client {

void place_twin(JobResult& result, const InputFiles& input) {
  const auto twin = result.metadata.find(std::string(openai::duplicate_key));
  if (twin == result.metadata.end() || !input.several()) {
    return;
  }
  const char* const end = twin->second.data() + twin->second.size();
  std::uint64_t line = 0;
  const auto read = std::from_chars(twin->second.data(), end, line);
  if (read.ec != std::errc() || read.ptr != end || line == 0) {
    return;
  }
  const InputPlace first = input.place(line);
  twin->second = std::to_string(first.line) + " of " + first.file;
}

}  // namespace millrace::client
