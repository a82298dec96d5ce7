#pragma once
// A load of a given shape: makes jobs, hands them out at their times, and measures what comes back.
// The same shape and seed give the same jobs. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "client/commands/result_totals.hpp"
#include "client/link/result_wait.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {

struct LoadShape {
  std::string model = "*";
  std::uint64_t jobs = 100;
  std::uint32_t prompt_tokens = 128, answer_tokens = 128;
  std::uint32_t shared_tokens = 0;   // with which all prompts begin, of prompt_tokens
  double variation = 0;              // lengths vary by this share up and down, evenly
  std::uint64_t concurrency = 0;     // jobs under way at most; 0: all at once
  double rate = 0;                   // jobs a second, at random times (Poisson); 0: no times
  std::uint32_t vocabulary = 8'000;  // ids of prompts are below it, and not below an eighth of it
  std::uint64_t seed = 1;
  std::uint64_t warmup = 0;  // jobs that come first and are not measured
};

struct LoadReport {
  ResultTotals totals;
  Percentiles token_gap;  // for each job the mean time between two tokens of its answer
  Percentiles answered;   // from the submission to the result in this process
  std::uint64_t refused = 0;
  double seconds = 0;  // from the first measured submission to the last result
  std::optional<Error> first_error;
};

class BenchLoad final : public JobSource {
 public:
  // `told` is called after each result with how many have come; it may be empty.
  BenchLoad(const LoadShape& shape, const Clock& clock,
            std::function<void(std::uint64_t done)> told);

  // Runs the whole load. `beside` is one more handler of the loop. Errors: those of the loop.
  Status run(Session& session, EventLoopOptions options, EventHandler& beside);
  const LoadReport& report() const { return report_; }
  const std::string& stream() const { return stream_; }

  Result<bool> feed(Submitter& submitter) override;
  bool holds_back() const override;
  Status on_answer(const Submission& submission) override;

 private:
  Body job(std::uint64_t number);
  std::uint32_t length(std::uint32_t mean);
  std::uint32_t token();
  Status take(std::uint64_t number, const JobResult& result);
  void ended(std::uint64_t number);
  void fail_with(const Error& error);

  LoadShape shape_;
  const Clock& clock_;
  std::function<void(std::uint64_t done)> told_;
  std::string stream_;
  std::mt19937_64 random_;
  Tokens shared_;
  std::optional<ResultWait> wait_;
  LoadReport report_;
  std::uint64_t made_ = 0, done_ = 0;
  std::int64_t due_us_ = 0;  // of the next job, with a rate
  std::int64_t first_us_ = 0;
  std::unordered_map<std::uint64_t, std::int64_t> submitted_us_;  // of jobs under way
};

}  // namespace millrace::client
