#pragma once
// Hands jobs to engines, as many as their credit allows, suspects first and alone. Each hand-out is
// a claim in the ledger; the jobs of its reply are sent as leases. Thread safety: none.
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
  void close() { open_ = false; }  // ends all hand-outs

  void work_arrived();         // jobs were queued: claims again for engines that found no work
  void suspects_arrived();     // the same for suspects
  void offer(Engine& engine);  // hands out what the engine's state and credit allow
  // Takes all suspects that the ledger counts; may keep an engine free for one that waits long.
  void count(const std::vector<SuspectQueue>& suspects);

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
  std::uint64_t work_generation_ = 0;     // incremented whenever jobs were queued
  std::uint64_t suspect_generation_ = 0;  // the same for suspects; 0: there were none yet
  std::uint64_t suspects_ = 0;            // at the last count
  std::int64_t suspects_raised_us = 0;
};

}  // namespace millrace::broker
