#include "broker/server/ledger_client.hpp"

#include <utility>

namespace millrace::broker {

LedgerClient::LedgerClient(std::vector<std::unique_ptr<Ledger>> handles, std::function<void()> wake,
                           LedgerThreadOptions options)
    : thread_(std::move(handles), std::move(wake), std::move(options)) {}

Result<bool> LedgerClient::try_post(LedgerRequest& request) {
  const auto count = request.operations.size();
  // When there is no room, the request keeps its operations and is posted again later.
  auto posted = thread_.post(request.ticket, std::move(request.operations));
  if (posted) {
    auto& waiting = waiting_[request.ticket];
    waiting.operations = count;
    waiting.replies.resize(count, fail(Code::internal, "no reply yet"));
    return true;
  }
  if (posted.error().code == Code::overloaded) return false;
  return fail(posted.error());
}

Status LedgerClient::post(LedgerRequest request) {
  if (backlog_.empty()) {
    MILLRACE_ASSIGN(const bool taken, try_post(request));
    if (taken) return {};
  }
  backlog_.push_back(std::move(request));
  return {};
}

Result<std::vector<Completed>> LedgerClient::take() {
  std::vector<Completed> done;
  for (auto& completion : thread_.take()) {
    auto& waiting = waiting_[completion.token];
    waiting.replies.at(completion.place) = std::move(completion.reply);
    if (--waiting.operations > 0) continue;
    done.push_back({completion.token, std::move(waiting.replies)});
    waiting_.erase(completion.token);
  }
  // After a failure the replies hold its error; no answer may be given on their basis.
  if (auto failure = thread_.failure()) return fail(*failure);
  while (!backlog_.empty()) {
    MILLRACE_ASSIGN(const bool taken, try_post(backlog_.front()));
    if (!taken) break;
    backlog_.pop_front();
  }
  return done;
}

}  // namespace millrace::broker
