#pragma once
// Handles the requests of clients about batches: listing, with how fast they go on, closing and
// labelling. The answers come from the ledger. Thread safety: none.
#include "broker/core/answers.hpp"
#include "broker/core/doorbell.hpp"

namespace millrace::broker {

class BatchRequests {
 public:
  BatchRequests(Outbox& out, Sessions& sessions, Doorbell& doorbell)
      : out_(out), answers_(out, sessions), doorbell_(doorbell) {}

  void batches(const Asker& asker, BatchesRequest request);
  void change(const Asker& asker, ChangeBatch change);

 private:
  void add_rate(const std::string& tenant, BatchState& batch) const;

  Outbox& out_;
  Answers answers_;
  Doorbell& doorbell_;
};

}  // namespace millrace::broker
