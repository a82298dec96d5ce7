#include "engine/core/request_check.hpp"

#include <utility>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/host_model.hpp"
#include "engine/core/hub/open_model.hpp"
#include "engine/core/request/prepare.hpp"

namespace millrace::engine {
namespace {

class FileChecker final : public RequestChecker {
 public:
  FileChecker(HostModel host, std::uint32_t context_tokens)
      : host_(std::move(host)), context_(host_.context()) {
    context_.context_tokens = context_tokens;
  }
  std::uint32_t context_tokens() const override { return context_.context_tokens; }
  Result<CheckedRequest> check(const GenerationRequest& request) const override {
    MILLRACE_ASSIGN(const PreparedRequest prepared, prepare(request, context_));
    return CheckedRequest{prepared.prompt.size(), prepared.n, prepared.max_tokens};
  }

 private:
  const HostModel host_;
  RequestContext context_;
};

}  // namespace

Result<std::unique_ptr<RequestChecker>> RequestChecker::load(const std::string& model_path) {
  MILLRACE_ASSIGN(const GgufFile file, open_model(model_path));
  MILLRACE_ASSIGN(const ModelSpec spec, read_spec(file));
  MILLRACE_ASSIGN(HostModel host, load_host(file.metadata()));
  return std::make_unique<FileChecker>(std::move(host), spec.context_tokens);
}

}  // namespace millrace::engine
