// Reads any bytes as the body of a request to each of OpenAI's endpoints. The outcome must be jobs
// that the broker accepts, or an error with a message that can be written as an error body.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "schemas/codec.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/error_body.hpp"
#include "schemas/openai/request.hpp"

namespace {

using namespace millrace;
using namespace millrace::openai;

void require(bool holds) {
  if (!holds) std::abort();
}

void parse(Endpoint endpoint, std::string_view body, const RequestOptions& options) {
  const auto request = parse_request(endpoint, body, options);
  if (!request) {
    require(!request.error().message.empty() && check_json(error_body(request.error())));
    return;
  }
  require(!request->jobs.empty() && request->form.n > 0);
  for (const RequestedJob& job : request->jobs) {
    const auto decoded = decode_job(job.body);
    require(decoded && decoded->job.request.partials == request->form.stream);
    require(options.stream.empty() || decoded->job.stream == options.stream);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const Endpoint endpoint : {Endpoint::chat, Endpoint::completion}) {
    parse(endpoint, body, {});
    parse(endpoint, body, {.id = "r", .stream = "http", .deadline_us = 1});
  }
  return 0;
}
