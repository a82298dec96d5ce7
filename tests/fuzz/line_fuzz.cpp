// Reads any bytes as a line of an input file, as `run` and `submit` do. The outcome must be a job
// that the broker accepts or an error with a message, and the same each time.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "client/lines/parse_line.hpp"
#include "schemas/codec.hpp"

namespace {

using namespace millrace;
using namespace millrace::client;

void require(bool holds) {
  if (!holds) std::abort();
}

void parse(std::string_view text, const LineOptions& options) {
  const InputLine line{.number = 1, .text = text, .bytes = text.size()};
  const ParsedLine parsed = parse_line(line, options);
  if (parsed.error) {
    require(parsed.body.empty() && !parsed.error->message.empty());
  } else {
    require(decode_job(parsed.body).has_value());
  }
  const ParsedLine again = parse_line(line, options);
  require(again.body == parsed.body && again.custom_id == parsed.custom_id &&
          again.warnings == parsed.warnings && again.error.has_value() == parsed.error.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  parse(text, {});
  parse(text, {.id = "1-00", .model = "m", .stream = "s", .batch = "b", .own_queue = true});
  parse(text, {.strict = true});
  return 0;
}
