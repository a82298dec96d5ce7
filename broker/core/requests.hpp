#pragma once
// Handles the requests of clients for the status, and acknowledge and watch. JobRequests handles
// those about stored jobs, StreamRequests those about streams, and Readers fetch. Thread safety:
// none.
#include <cstdint>

#include "broker/core/answers.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/tenant_queues.hpp"

namespace millrace::broker {

class Requests {
 public:
  Requests(Outbox& out, Sessions& sessions, const EngineTable& table)
      : out_(out),
        sessions_(sessions),
        answers_(out, sessions),
        table_(table),
        queues_(out, table) {}

  void acknowledge(const Asker& asker, Acknowledge acknowledge);
  // Needs no ledger: what a session watches is part of the session and ends with it.
  void watch(const Asker& asker, Watch watch);
  // `so_far` tells of the broker itself.
  void status(const Asker& asker, StatusRequest request, StatusAnswer so_far);

 private:
  void status_of_job(const Asker& asker, StatusAnswer so_far, StatusRequest request);
  void status_of_stream(const Asker& asker, StatusAnswer so_far, StatusRequest request);
  void status_counts(const Asker& asker, StatusAnswer so_far, StatusRequest request);

  Outbox& out_;
  Sessions& sessions_;
  Answers answers_;
  const EngineTable& table_;
  TenantQueues queues_;
};

}  // namespace millrace::broker
