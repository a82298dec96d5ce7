#pragma once
// The answers for the live page of one token: how the broker is, lists of jobs, and one job with
// its timeline. Each is made once a second at most for all who look, and never while nobody does.
// Thread safety: one thread, that of the session.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/live_view.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::http {

class Desk;

class Live {
 public:
  // Outlived by the desk, whose answers it waits for.
  Live(Desk& desk, const Clock& clock) : desk_(desk), clock_(clock) {}

  using Use = std::function<void(const Result<std::string>& json)>;
  // How the broker is, with the samples since this Unix time.
  void with_view(std::int64_t since_us, Use use);
  void with_jobs(const JobsRequest& question, Use use);
  void with_job(const std::string& job, Use use);

 private:
  struct Answer {
    std::optional<std::string> json;
    std::int64_t made_us = 0;
    std::vector<Use> waiting;
  };
  // Gives what is young enough, or calls `make`, unless it is being made.
  void once(const std::string& key, const std::function<void(Use)>& make, Use use);
  void begin_round(Use done);
  void ask_unfinished_batches(std::string after);
  void ask_other_batches(bool more_unfinished);
  void ask_streams();
  void ask_results();
  void end_part(const Status& part);
  void look_up(const std::string& job, const Use& done);

  Desk& desk_;
  const Clock& clock_;
  std::map<std::string, Answer, std::less<>> answers_;
  LiveView view_;
  Use round_;
  std::uint32_t open_ = 0;  // parts of the round that are not answered
  Status outcome_;          // of the round: the error of a part, if one failed
  bool fetched_ = false;    // in this round
  std::vector<BatchState> batches_;
  std::uint32_t pages_ = 0;      // of unfinished ones in this round
  std::int64_t batches_us_ = 0;  // when they are asked for again
};

}  // namespace millrace::http
