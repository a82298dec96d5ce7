#pragma once
// Answers requests from the ledger: one operation after another, until the answer is known or the
// ledger refuses. `Sessions::begin` must have counted the request. Thread safety: none.
#include <functional>
#include <utility>

#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class Answers {
 public:
  Answers(Outbox& out, Sessions& sessions) : out_(out), sessions_(sessions) {}

  // Asks the ledger for one operation. If the ledger refuses it, the request is refused as well.
  void ask(const Asker& asker, Operation operation, std::function<void(Reply)> then) {
    out_.ask_one(std::move(operation), [this, asker, then = std::move(then)](Result<Reply> reply) {
      if (reply) return then(*std::move(reply));
      refuse(asker, std::move(reply.error()));
    });
  }
  void answer(const Asker& asker, Message message) {
    sessions_.end(asker.peer);
    out_.send(asker.peer, asker.id, std::move(message));
  }
  void refuse(const Asker& asker, Error error) {
    sessions_.end(asker.peer);
    out_.refuse(asker.peer, asker.id, std::move(error));
  }

 private:
  Outbox& out_;
  Sessions& sessions_;
};

// A batch is known as long as one of its jobs is.
inline Error no_batch(const std::string& batch) {
  return {Code::not_found, "no job belongs to a batch named " + batch,
          "check the name, which the producer chose or `millrace submit` printed"};
}

}  // namespace millrace::broker
