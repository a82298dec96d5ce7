#pragma once
// Hands jobs to engines: as many as they gave credit for, suspects first and alone. Each hand-out
// is a claim in the ledger; what it answers is sent as leases. Thread safety: none.
#include <cstdint>
#include <string>
#include <vector>

#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/outbox.hpp"

namespace millrace::broker {

class Dispatcher {
 public:
  Dispatcher(Outbox& out, const CoreConfig& config, EngineTable& engines, Doorbell& doorbell)
      : out_(out), config_(config), engines_(engines), doorbell_(doorbell) {}

  void open() { open_ = true; }
  void close() { open_ = false; }  // no hand-outs any more

  void work_arrived();         // jobs were queued: engines that found nothing ask again
  void suspects_arrived();     // likewise for suspects
  void offer(Engine& engine);  // hands out what its state and credit allow
  void count(const std::vector<SuspectQueue>& suspects);  // all there are, from the ledger

 private:
  void offer_all();
  bool can_claim(const Engine& engine) const;
  void claim(Engine& engine, bool suspect);
  void claimed(const std::string& engine, bool suspect, std::uint64_t generation,
               Result<Reply> reply);
  void send(Engine& engine, std::vector<ClaimedJob> jobs, bool suspect);
  void return_unsent(const std::string& engine, const std::vector<ClaimedJob>& jobs);
  void reserve_one(std::vector<SuspectQueue> overdue);

  Outbox& out_;
  const CoreConfig& config_;
  EngineTable& engines_;
  Doorbell& doorbell_;
  bool open_ = false;
  std::uint64_t work_generation_ = 0;     // raised whenever jobs were queued
  std::uint64_t suspect_generation_ = 0;  // raised whenever there may be new suspects; 0: none yet
  std::uint64_t suspects_ = 0;            // as last counted
  std::int64_t suspects_raised_us = 0;
};

}  // namespace millrace::broker
