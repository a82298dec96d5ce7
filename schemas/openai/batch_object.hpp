#pragma once
// A batch of OpenAI's Batch API: the request that makes one, and the object as JSON.
// Errors: invalid_value, missing_field, those of check_json. Each message about a field begins with
// its name. Thread safety: plain values, pure functions.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/openai/endpoint.hpp"

namespace millrace::openai {

enum class BatchStatus : std::uint8_t {
  validating,   // its file is being read
  failed,       // a line of the file is wrong, and nothing ran
  in_progress,  // its jobs run
  finalizing,   // all have ended, and the files of results are being made
  completed,
  expired,  // its window closed before all had ended
  cancelling,
  cancelled
};
std::string_view status_name(BatchStatus status);
constexpr bool is_over(BatchStatus status) {
  return status == BatchStatus::failed || status == BatchStatus::completed ||
         status == BatchStatus::expired || status == BatchStatus::cancelled;
}

// What is wrong with the input of a batch that failed.
struct BatchError {
  std::string code, message;
  std::string param{};                  // empty: none
  std::optional<std::uint64_t> line{};  // of the file
  friend bool operator==(const BatchError&, const BatchError&) = default;
};

struct BatchObject {
  std::string id;
  Endpoint endpoint = Endpoint::chat;
  std::vector<BatchError> errors{};
  std::string input_file;
  std::string window;
  BatchStatus status = BatchStatus::validating;
  std::string output_file{}, error_file{};  // empty: there is none
  std::int64_t created_s = 0;               // Unix time
  std::int64_t expires_s = 0;
  std::optional<std::int64_t> in_progress_s{}, finalizing_s{}, completed_s{}, failed_s{},
      expired_s{}, cancelling_s{}, cancelled_s{};
  std::uint64_t total = 0, completed = 0, failed = 0;  // lines
  std::map<std::string, std::string> metadata{};
  friend bool operator==(const BatchObject&, const BatchObject&) = default;
};

void write_batch(JsonWriter& json, const BatchObject& batch);
std::string batch_json(const BatchObject& batch);
Result<BatchObject> read_batch(std::string_view json);  // errors: ledger_corrupt

struct BatchRequest {
  std::string input_file;
  Endpoint endpoint = Endpoint::chat;
  std::string window;
  std::uint64_t window_s = 0;
  std::map<std::string, std::string> metadata{};
  std::optional<std::uint64_t> output_expires_s{};  // after the files of results are made
};

Result<BatchRequest> parse_batch_request(std::string_view body);

}  // namespace millrace::openai
