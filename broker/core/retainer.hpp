#pragma once
// Has the ledger delete what is no longer kept: one pass over all streams and jobs after the other,
// with a pause between them, in steps short enough to share a commit with other operations.
// Thread safety: none.
#include <cstdint>
#include <optional>

#include "broker/core/config.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/retention_pace.hpp"

namespace millrace::broker {

class Retainer {
 public:
  Retainer(Outbox& out, const CoreConfig& config)
      : out_(out), config_(config), pace_(1000 * std::int64_t{config.retain_ms}) {}

  void tick();   // begins the next pass when it is time
  void close();  // begins no further step: the broker drains

 private:
  void step(const StreamPlace& after);
  void tell_once_an_hour();

  Outbox& out_;
  const CoreConfig& config_;
  RetentionPace pace_;
  static constexpr std::int64_t tell_again_us = 3'600'000'000;
  std::optional<std::int64_t> told_us_;  // when the log last told that results go
  bool running_ = false, closed_ = false;
};

}  // namespace millrace::broker
