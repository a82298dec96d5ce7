#pragma once
// Handles the requests of clients that pause and resume batches, models and tenants. The ledger
// keeps what is paused. Thread safety: none.
#include <functional>
#include <string>

#include "broker/core/answers.hpp"
#include "broker/core/models.hpp"

namespace millrace::broker {

class PauseRequests {
 public:
  // Called after the commit where jobs of a tenant may be handed out again; `more`: others of them
  // are still to be queued.
  using Resumed = std::function<void(const std::string& tenant, bool more)>;

  PauseRequests(Outbox& out, Sessions& sessions, const Models& models, Resumed resumed)
      : out_(out),
        sessions_(sessions),
        answers_(out, sessions),
        models_(models),
        resumed_(std::move(resumed)) {}

  void change(const Asker& asker, const ChangePause& change);

 private:
  Outbox& out_;
  Sessions& sessions_;
  Answers answers_;
  const Models& models_;
  Resumed resumed_;
};

}  // namespace millrace::broker
