#pragma once
// Closes a batch once all its jobs are stored: a handler of the loop that submits them.
// Errors: the broker's refusals; a batch without jobs is left alone. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <string>

#include "client/link/event_loop.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {

class BatchCloser final : public EventHandler {
 public:
  // `wanted` is asked once, when the submitter is done: is the batch to be closed?
  BatchCloser(Session& session, const Submitter& submitter, std::string batch,
              std::function<Result<bool>()> wanted)
      : session_(session),
        submitter_(submitter),
        batch_(std::move(batch)),
        wanted_(std::move(wanted)) {}

  bool done() const { return decided_ && question_ == 0; }
  bool closed() const { return closed_; }

  Status tick() override;
  Result<bool> take(Envelope& answer) override;

 private:
  Session& session_;
  const Submitter& submitter_;
  const std::string batch_;
  const std::function<Result<bool>()> wanted_;
  bool decided_ = false, closed_ = false;
  std::uint64_t question_ = 0;  // 0: none is open
};

}  // namespace millrace::client
