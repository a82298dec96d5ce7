#pragma once
// All that a ledger of RandomOperations tells of its state, as text, so that two states can be
// compared. Thread safety: that of the ledger.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/ledger/random_operations.hpp"
#include "tests/unit/ledger/reply_text.hpp"

namespace millrace::broker::test {

// The replies to questions, which change nothing; an error as its text.
inline std::vector<Result<Reply>> ask_all(Ledger& ledger, const std::vector<Operation>& questions) {
  auto replies = ledger.apply(questions, start_us);
  if (!replies) return {questions.size(), fail(replies.error())};
  return *std::move(replies);
}

inline std::string ledger_text(Ledger& ledger) {
  std::vector<Operation> questions{ListTenants{}, FindLapsed{0, {}, true}};
  for (const std::string& who : RandomOperations::tenants()) {
    for (const std::string& id : RandomOperations::ids()) questions.emplace_back(GetJob{who, id});
    for (const std::string& batch : RandomOperations::batches()) {
      questions.emplace_back(Count{who, batch, true, true});
    }
    questions.emplace_back(ListBatches{who, {}});
    questions.emplace_back(ListStreams{who, ""});
    for (const std::string& stream : RandomOperations::streams()) {
      questions.emplace_back(ListCursors{who, stream});
      ReadStream read = reading(stream);
      read.tenant = who;
      read.from = 1;  // where the stream was trimmed, the answer tells the first number kept
      questions.emplace_back(read);
    }
  }
  std::string text;
  std::vector<Operation> entries;
  const auto replies = ask_all(ledger, questions);
  for (std::size_t i = 0; i < replies.size(); ++i) {
    text += print(replies[i]) + "\n";
    const auto* trimmed = replies[i] ? std::get_if<ReadStreamReply>(&*replies[i]) : nullptr;
    if (trimmed == nullptr || !trimmed->trimmed) continue;
    entries.push_back(questions[i]);
    std::get<ReadStream>(entries.back()).from = trimmed->first;
  }
  for (const auto& reply : ask_all(ledger, entries)) text += print(reply) + "\n";
  return text;
}

}  // namespace millrace::broker::test
