#pragma once
// Answers requests from the ledger: one operation after another, until the answer is known or the
// ledger refuses. `begin` must have counted the request. Requests that the log tells of get their
// line here, because here their outcome is known. Thread safety: none.
#include <functional>
#include <utility>

#include "broker/core/audit_text.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class Answers {
 public:
  Answers(Outbox& out, Sessions& sessions) : out_(out), sessions_(sessions) {}

  // Notes who asks for what, where the log is to tell of it. Returns the number for `Asker`.
  std::uint64_t begin_audit(const Grant& who, const Message& message) {
    if (!is_audited(message)) return 0;
    return out_.begin_audit("key " + who.name + " of tenant " + who.tenant, audit_text(message));
  }
  // As Sessions::begin.
  bool begin(const Asker& asker) {
    if (sessions_.begin(asker.peer, asker.id)) return true;
    out_.end_audit(asker.audit, refused_as(Code::overloaded));
    return false;
  }
  // Asks the ledger for one operation. If the ledger refuses it, the request is refused as well.
  void ask(const Asker& asker, Operation operation, std::function<void(Reply)> then) {
    out_.ask_one(std::move(operation), [this, asker, then = std::move(then)](Result<Reply> reply) {
      if (reply) return then(*std::move(reply));
      refuse(asker, std::move(reply.error()));
    });
  }
  void answer(const Asker& asker, Message message) {
    sessions_.end(asker.peer);
    answer_at_once(asker, std::move(message));
  }
  void refuse(const Asker& asker, Error error) {
    sessions_.end(asker.peer);
    refuse_at_once(asker, std::move(error));
  }
  // For a request that `begin` has not counted.
  void answer_at_once(const Asker& asker, Message message) {
    if (asker.audit != 0) out_.end_audit(asker.audit, outcome_word(message), outcome_text(message));
    out_.send(asker.peer, asker.id, std::move(message));
  }
  void refuse_at_once(const Asker& asker, Error error) {
    if (asker.audit != 0) out_.end_audit(asker.audit, refused_as(error.code), error.message);
    out_.refuse(asker.peer, asker.id, std::move(error));
  }

 private:
  static std::string refused_as(Code code) { return "refused as " + std::string(code_name(code)); }

  Outbox& out_;
  Sessions& sessions_;
};

// A batch is known as long as one of its jobs is.
inline Error no_batch(const std::string& batch) {
  return {Code::not_found, "no job belongs to a batch named " + batch,
          "check the name, which the producer chose or `millrace submit` printed"};
}

}  // namespace millrace::broker
