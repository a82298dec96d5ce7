#pragma once
// Checks requests against a model's file alone, as the engine will: it renders and tokenizes the
// prompt and compares lengths with the context. What depends on a device, the KV cache and the
// fingerprint, is not checked.
// Errors: load(): those of opening a model; check(): those of request/prepare.hpp.
// Thread safety: any thread may call check().
#include <cstdint>
#include <memory>
#include <string>

#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

struct CheckedRequest {
  std::uint64_t prompt_tokens = 0;
  std::uint32_t n = 0;           // texts; 0 for Task::score
  std::uint32_t max_tokens = 0;  // of each text
};

class RequestChecker {
 public:
  static Result<std::unique_ptr<RequestChecker>> load(const std::string& model_path);
  virtual ~RequestChecker() = default;

  virtual std::uint32_t context_tokens() const = 0;
  virtual Result<CheckedRequest> check(const GenerationRequest& request) const = 0;
};

}  // namespace millrace::engine
