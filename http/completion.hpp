#pragma once
// One request for completions: its jobs are submitted and followed, and their results and partial
// texts become the answer, whole or as events. If the client goes, the jobs are cancelled; a
// request with an Idempotency-Key goes on, and the same request finds its answer later.
// Thread safety: the thread of the link, but for the constructor.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "http/desk.hpp"
#include "http/exchange.hpp"
#include "http/request_trace.hpp"
#include "schemas/openai/chunks.hpp"
#include "schemas/openai/endpoint.hpp"
#include "schemas/openai/request.hpp"

namespace millrace::http {

struct CompletionOptions {
  std::uint64_t timeout_ms = 600'000;         // from the request to the end of the answer
  openai::TokenLookup token_bytes{};          // for the texts of tokens with logprobs; empty: none
  std::shared_ptr<trace::Exporter> traces{};  // takes the spans of requests; null: none
};

class Completion final : public JobListener, public std::enable_shared_from_this<Completion> {
 public:
  Completion(std::shared_ptr<Exchange> exchange, openai::Endpoint endpoint,
             const CompletionOptions& options)
      : exchange_(std::move(exchange)),
        endpoint_(endpoint),
        options_(options),
        trace_(exchange_->request(), options.traces) {}

  void begin(Desk& desk);
  void leave(Desk& desk);  // the client has gone
  void refuse(const Error& error);

  void on_partial(const PartialEntry& entry) override;
  void on_end(const JobResult& result) override;
  void on_failure(const Error& error) override;
  void on_wait() override;

 private:
  Result<std::string> choose_id();
  Status check_model(const StatusAnswer& status);
  void submit();
  void cancel_strays(const std::vector<SubmitAnswer>& answers);
  void take_answers(const std::vector<SubmitAnswer>& answers);
  void answer_whole();
  void send(const std::vector<std::string>& events);
  void write(std::string_view bytes);
  void stop_following();  // and cancel what still runs

  const std::shared_ptr<Exchange> exchange_;
  const openai::Endpoint endpoint_;
  const CompletionOptions& options_;
  RequestTrace trace_;
  Desk* desk_ = nullptr;
  bool repeatable_ = false;  // the request has an Idempotency-Key
  bool over_ = false;        // it is answered, or the client is gone
  bool streaming_ = false;   // the head of the stream is sent
  std::int64_t until_us_ = 0;
  openai::Request request_;
  std::string model_;  // as events name it, where the request does not; empty: it is not known
  std::vector<std::string> ids_;
  std::set<std::string> running_;  // submitted and not ended
  std::vector<std::optional<JobResult>> results_;
  std::optional<openai::Chunks> chunks_;
};

}  // namespace millrace::http
