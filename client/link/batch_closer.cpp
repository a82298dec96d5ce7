#include "client/link/batch_closer.hpp"

#include <utility>
#include <variant>

namespace millrace::client {

Status BatchCloser::tick() {
  if (decided_ || !submitter_.done()) {
    return {};
  }
  MILLRACE_ASSIGN(const bool wanted, wanted_());
  decided_ = true;
  if (wanted) {
    question_ = session_.ask(ChangeBatch{.batch = batch_, .close = true});
  }
  return {};
}

Result<bool> BatchCloser::take(Envelope& answer) {
  if (question_ == 0 || answer.id != question_) {
    return false;
  }
  question_ = 0;
  closed_ = std::holds_alternative<BatchChanged>(answer.message);
  auto* refused = std::get_if<Refused>(&answer.message);
  // Every job may name another batch.
  if (refused != nullptr && refused->error.code != Code::not_found) {
    return fail(std::move(refused->error));
  }
  return true;
}

}  // namespace millrace::client
