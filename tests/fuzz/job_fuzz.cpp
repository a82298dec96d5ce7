// Reads any bytes as the body of a job and of a result.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "schemas/codec.hpp"
#include "schemas/job_table.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void job(std::string_view body) {
  const auto decoded = millrace::decode_job(body);
  if (!decoded) return;
  require(millrace::check_job(decoded->job).has_value());
  require(millrace::canonical_hash(body).size() == 32);
  const auto second = millrace::decode_job(millrace::encode_job(decoded->job));
  require(second && second->job == decoded->job);
  require(millrace::derived_seed(second->job) == millrace::derived_seed(decoded->job));
}

void result(std::string_view body) {
  const auto decoded = millrace::decode_result(body);
  if (!decoded) return;
  const std::string again = millrace::encode_result(*decoded);
  const auto second = millrace::decode_result(again);
  require(second && millrace::encode_result(*second) == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  job(body);
  result(body);
  return 0;
}
