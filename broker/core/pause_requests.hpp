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
  // Called after the commit with what the ledger answered.
  using Changed =
      std::function<void(const std::string& tenant, bool paused, const PauseReply& reply)>;

  PauseRequests(Outbox& out, Sessions& sessions, const Models& models, Changed changed)
      : answers_(out, sessions), models_(models), changed_(std::move(changed)) {}

  void change(const Asker& asker, const ChangePause& change);

 private:
  Answers answers_;
  const Models& models_;
  Changed changed_;
};

}  // namespace millrace::broker
