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
  using Tell = std::function<void(const char* event, const std::string& text)>;
  // `tally` tells how many jobs were submitted, `tell` prints a notice.
  RoomWatch(const Submitter& submitter, std::uint32_t timeout_s,
            std::function<Result<std::string>()> tally, Tell tell)
      : submitter_(submitter),
        timeout_s_(timeout_s),
        tally_(std::move(tally)),
        tell_(std::move(tell)) {}

  Status tick() override;

 private:
  const Submitter& submitter_;
  const std::uint32_t timeout_s_;
  const std::function<Result<std::string>()> tally_;
  const Tell tell_;
  bool told_ = false;
};

}  // namespace millrace::client
