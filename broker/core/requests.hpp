#pragma once
// Handles the requests of clients about stored jobs and streams: acknowledge, watch, cancel, retry,
// status. Readers handles fetch. Except for watch, the answers come from the ledger. Thread safety:
// none.
#include <cstdint>
#include <functional>
#include <memory>

#include "broker/core/dispatcher.hpp"
#include "broker/core/doorbell.hpp"
#include "broker/core/engines.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class Requests {
 public:
  Requests(Outbox& out, Sessions& sessions, const EngineTable& table, Engines& engines,
           Dispatcher& dispatcher, Doorbell& doorbell)
      : out_(out),
        sessions_(sessions),
        table_(table),
        engines_(engines),
        dispatcher_(dispatcher),
        doorbell_(doorbell) {}

  void acknowledge(const Asker& asker, Acknowledge acknowledge);
  // Needs no ledger: what a session watches is part of the session and ends with it.
  void watch(const Asker& asker, Watch watch);
  void cancel(const Asker& asker, Cancel cancel);
  void retry(const Asker& asker, Retry retry);
  void status(const Asker& asker, StatusRequest request, bool draining);

 private:
  void refuse(const Asker& asker, Error error);
  // Answers a request that did nothing to a batch, because there may be no such batch.
  void answer_if_known(const Asker& asker, const std::string& batch, Message message);
  void ask(const Asker& asker, Operation operation, std::function<void(Reply)> then);
  void answer(const Asker& asker, Message message);
  void cancel_more(const Asker& asker, Cancel cancel, Cancelled so_far);
  void retry_more(const Asker& asker, Retry retry, std::uint64_t after, Retried so_far);
  void status_of_job(const Asker& asker, StatusAnswer so_far, StatusRequest request);
  void status_of_stream(const Asker& asker, StatusAnswer so_far, StatusRequest request);
  void status_counts(const Asker& asker, StatusAnswer so_far, const std::string& batch);

  Outbox& out_;
  Sessions& sessions_;
  const EngineTable& table_;
  Engines& engines_;
  Dispatcher& dispatcher_;
  Doorbell& doorbell_;
};

}  // namespace millrace::broker
