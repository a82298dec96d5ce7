#pragma once
// Watches a submitter that waits for room at the broker: says why there is none, and ends the
// command when no job was taken for the whole of --timeout.
// Errors: the broker's refusal, with the number of jobs that were submitted, and those of the
// tally. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <string>

#include "client/link/submitter.hpp"

namespace millrace::client {

class RoomWatch final : public EventHandler {
 public:
  // `tally` tells how many jobs were submitted.
  RoomWatch(const Submitter& submitter, std::uint32_t timeout_s,
            std::function<Result<std::string>()> tally, bool json)
      : submitter_(submitter), timeout_s_(timeout_s), tally_(std::move(tally)), json_(json) {}

  Status tick() override;

 private:
  const Submitter& submitter_;
  const std::uint32_t timeout_s_;
  const std::function<Result<std::string>()> tally_;
  const bool json_;
  bool told_ = false;
};

}  // namespace millrace::client
