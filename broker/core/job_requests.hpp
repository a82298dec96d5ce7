#pragma once
// Handles the requests of clients about stored jobs: listing, cancelling, retrying and dropping
// them. The answers come from the ledger. Thread safety: none.
#include <cstdint>
#include <string>

#include "broker/core/answers.hpp"
#include "broker/core/dispatcher.hpp"
#include "broker/core/doorbell.hpp"
#include "broker/core/engines.hpp"

namespace millrace::broker {

class JobRequests {
 public:
  JobRequests(Outbox& out, Sessions& sessions, const EngineTable& table, Engines& engines,
              Dispatcher& dispatcher, Doorbell& doorbell)
      : out_(out),
        answers_(out, sessions),
        table_(table),
        engines_(engines),
        dispatcher_(dispatcher),
        doorbell_(doorbell) {}

  void jobs(const Asker& asker, JobsRequest request);
  void cancel(const Asker& asker, Cancel cancel);
  void retry(const Asker& asker, Retry retry);
  void drop(const Asker& asker, Drop drop);

 private:
  // Answers a request that did nothing to a batch, because there may be no such batch.
  void answer_if_known(const Asker& asker, const std::string& batch, Message message);
  void cancel_more(const Asker& asker, Cancel cancel, Cancelled so_far);
  void retry_more(const Asker& asker, Retry retry, std::uint64_t after, Retried so_far);
  void drop_more(const Asker& asker, Drop drop, Dropped so_far);

  Outbox& out_;
  Answers answers_;
  const EngineTable& table_;
  Engines& engines_;
  Dispatcher& dispatcher_;
  Doorbell& doorbell_;
};

}  // namespace millrace::broker
