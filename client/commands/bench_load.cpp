#include "client/commands/bench_load.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schemas/base/random_id.hpp"
#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::uint32_t vocabulary_begins = 8;  // special tokens are often at its begin

// In (0, 1].
double unit(std::mt19937_64& random) {
  return static_cast<double>((random() >> 11) + 1) * 0x1p-53;
}

}  // namespace

BenchLoad::BenchLoad(const LoadShape& shape, const Clock& clock,
                     std::function<void(std::uint64_t done)> told)
    : shape_(shape),
      clock_(clock),
      told_(std::move(told)),
      stream_("bench-" + random_id()),
      random_(shape.seed) {
  for (std::uint32_t i = 0; i < shape_.shared_tokens; ++i) {
    shared_.push_back(token());
  }
}

std::uint32_t BenchLoad::token() {
  const std::uint32_t first = shape_.vocabulary / vocabulary_begins;
  return first + static_cast<std::uint32_t>(random_() % (shape_.vocabulary - first));
}

std::uint32_t BenchLoad::length(std::uint32_t mean) {
  const double factor = 1 + shape_.variation * (2 * unit(random_) - 1);
  return std::max(1u, static_cast<std::uint32_t>(std::lround(mean * factor)));
}

Body BenchLoad::job(std::uint64_t number) {
  Job job;
  job.id = stream_ + "/" + std::to_string(number);
  job.model = shape_.model;
  job.stream = job.batch = stream_;
  GenerationRequest& request = job.request;
  Tokens prompt = shared_;
  const std::size_t tokens = std::max<std::size_t>(length(shape_.prompt_tokens), prompt.size());
  while (prompt.size() < tokens) {
    prompt.push_back(token());
  }
  request.prompt = std::move(prompt);
  request.max_tokens = length(shape_.answer_tokens);
  request.stops.ignore_eos = true;  // so that each answer has as many tokens as asked for
  request.sampling.seed = random_();
  return encode_job(job);
}

bool BenchLoad::holds_back() const {
  if (made_ == shape_.jobs + shape_.warmup) {
    return false;  // feed() tells that there are no more
  }
  if (made_ >= shape_.warmup && made_ > 0 && done_ < shape_.warmup) {
    return true;  // until those that warm up have ended
  }
  if (shape_.concurrency > 0 && made_ - done_ >= shape_.concurrency) {
    return true;
  }
  return shape_.rate > 0 && made_ >= shape_.warmup && clock_.monotonic_us() < due_us_;
}

Result<bool> BenchLoad::feed(Submitter& submitter) {
  if (made_ == shape_.jobs + shape_.warmup) {
    return false;
  }
  const std::uint64_t number = made_++;
  const std::int64_t now = clock_.monotonic_us();
  if (number >= shape_.warmup) {
    if (first_us_ == 0) {
      first_us_ = due_us_ = now;
    }
    if (shape_.rate > 0) {
      due_us_ += static_cast<std::int64_t>(-std::log(unit(random_)) / shape_.rate * 1e6);
    }
  }
  submitted_us_[number] = now;
  Body body = job(number);
  wait_->expect(stream_ + "/" + std::to_string(number), number);
  submitter.add(std::move(body), number);
  return true;
}

void BenchLoad::fail_with(const Error& error) {
  if (!report_.first_error) {
    report_.first_error = error;
  }
}

void BenchLoad::ended(std::uint64_t number) {
  const std::int64_t now = clock_.monotonic_us();
  if (const auto at = submitted_us_.find(number); at != submitted_us_.end()) {
    if (number >= shape_.warmup) {
      report_.answered.add(static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - at->second)));
    }
    submitted_us_.erase(at);
  }
  ++done_;
  if (first_us_ != 0) {
    report_.seconds = static_cast<double>(now - first_us_) / 1e6;
  }
  if (told_) {
    told_(done_ - std::min(done_, shape_.warmup));
  }
}

Status BenchLoad::on_answer(const Submission& submission) {
  if (submission.answer.error) {
    if (submission.tag >= shape_.warmup) {
      ++report_.refused;
    }
    fail_with(*submission.answer.error);
    submitted_us_.erase(submission.tag);
    ++done_;
  }
  return wait_->note_answer(submission);
}

Status BenchLoad::take(std::uint64_t number, const JobResult& result) {
  ended(number);
  if (result.error) {
    fail_with(*result.error);
  }
  if (number < shape_.warmup) {
    return {};
  }
  report_.totals.add(result);
  if (result.result && result.result->usage.completion_tokens > 1) {
    const EngineTimes& times = result.result->times;
    const std::uint64_t writing_us =
        times.total_us - std::min(times.total_us, times.first_token_us);
    report_.token_gap.add(writing_us / (result.result->usage.completion_tokens - 1));
  }
  return {};
}

Status BenchLoad::run(Session& session, EventLoopOptions options, EventHandler& beside) {
  constexpr std::uint32_t tick_ms = 2;  // jobs leave at their times to within this
  options.tick_ms = shape_.rate > 0 ? tick_ms : options.tick_ms;
  StreamReaderOptions stream;
  stream.stream = stream_;
  wait_.emplace(session, clock_, stream, [this](std::uint64_t number, const JobResult& result) {
    return take(number, result);
  });
  Submitter submitter(session, clock_, *this);
  const Status done =
      EventLoop(session, clock_, std::move(options)).run({&beside, &submitter, &*wait_}, [&] {
        return submitter.done() && wait_->done();
      });
  wait_.reset();  // the session may end before this object
  return done;
}

}  // namespace millrace::client
