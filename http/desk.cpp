#include "http/desk.hpp"

#include <algorithm>
#include <iterator>

#include "client/link/entry_result.hpp"
#include "http/exchange.hpp"
#include "http/live.hpp"
#include "schemas/base/log.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t second_us = 1'000 * us_per_ms;
constexpr std::uint32_t wait_s = 10;
// A session may have limits::requests_per_session; the reader's fetches count as well.
constexpr std::size_t most_asked = limits::requests_per_session - 16;
// Of one message; its first request may have more.
constexpr std::size_t jobs_per_submit = 1'000;
constexpr std::uint64_t bytes_per_submit = 2 * limits::MiB;

}  // namespace

Desk::Desk(client::Session& session, const Clock& clock, std::string stream)
    : session_(session), clock_(clock), stream_(std::move(stream)) {}

Desk::~Desk() = default;

Live& Desk::live() {
  if (!live_) live_ = std::make_unique<Live>(*this, clock_);
  return *live_;
}

void Desk::ask(Message question, OnAnswer on_answer) {
  to_ask_.push_back({std::move(question), std::move(on_answer)});
  send_questions();
}

void Desk::send_questions() {
  while (!to_ask_.empty() && asked_.size() < most_asked) {
    Question one = std::move(to_ask_.front());
    to_ask_.pop_front();
    asked_[session_.ask(std::move(one.message))] = std::move(one.on_answer);
  }
}

void Desk::submit(std::vector<Body> jobs, OnAnswers on_answers) {
  to_submit_.push_back({std::move(jobs), std::move(on_answers)});
}

// Requests that came since the last time share messages, because a session has room for few.
void Desk::send_submissions() {
  while (!to_submit_.empty()) {
    Submit message;
    std::vector<std::pair<std::size_t, OnAnswers>> waiting;  // how many jobs, and whose
    std::uint64_t bytes = 0;
    while (!to_submit_.empty()) {
      Submission& next = to_submit_.front();
      std::uint64_t more = 0;
      for (const Body& job : next.jobs) more += job.size();
      const bool fits = message.jobs.size() + next.jobs.size() <= jobs_per_submit &&
                        bytes + more <= bytes_per_submit;
      if (!fits && !message.jobs.empty()) break;
      bytes += more;
      waiting.emplace_back(next.jobs.size(), std::move(next.on_answers));
      std::ranges::move(next.jobs, std::back_inserter(message.jobs));
      to_submit_.pop_front();
    }
    ask_for<Submitted>(std::move(message), [waiting](Result<Submitted> answer) {
      std::size_t at = 0;
      for (const auto& [jobs, on_answers] : waiting) {
        if (!answer) {
          on_answers(millrace::fail(answer.error()));
        } else if (at + jobs > answer->answers.size()) {
          on_answers(millrace::fail(Code::unexpected_message, "the broker left out an answer"));
        } else {
          const auto first = answer->answers.begin() + static_cast<std::ptrdiff_t>(at);
          on_answers(std::vector(first, first + static_cast<std::ptrdiff_t>(jobs)));
          at += jobs;
        }
      }
    });
  }
}

void Desk::follow(const std::string& job, std::shared_ptr<JobListener> listener,
                  std::int64_t until_us) {
  followed_.emplace(job, Follower{std::move(listener), until_us});
}

void Desk::unfollow(const std::string& job, const JobListener& listener) {
  const auto [begin, end] = followed_.equal_range(job);
  const auto its = std::find_if(
      begin, end, [&](const auto& one) { return one.second.listener.get() == &listener; });
  if (its != end) followed_.erase(its);
}

void Desk::cancel(std::vector<std::string> jobs) {
  send_submissions();  // the jobs may be among them
  ask_for<Cancelled>(Cancel{.jobs = std::move(jobs), .batch = {}}, [](const auto& answer) {
    if (!answer) log_warn("a request's jobs were not cancelled", answer.error());
  });
}

void Desk::with_status(std::function<void(const Result<StatusAnswer>&)> use) {
  if (status_ && clock_.monotonic_us() - status_us_ < second_us) return use(*status_);
  status_users_.push_back(std::move(use));
  if (status_users_.size() > 1) return;  // it is asked already
  ask_for<StatusAnswer>(StatusRequest{}, [this](Result<StatusAnswer> answer) {
    if (answer) {
      status_ = *answer;
      status_us_ = clock_.monotonic_us();
    }
    for (const auto& one : std::exchange(status_users_, {})) one(answer);
  });
}

void Desk::place() {
  placing_ = true;
  StatusRequest question;
  question.stream = stream_;
  ask_for<StatusAnswer>(std::move(question), [this](const Result<StatusAnswer>& answer) {
    placing_ = false;
    const bool empty = !answer && answer.error().code == Code::not_found;
    if (!answer && !empty) return give_up(answer.error());
    client::StreamReaderOptions options;
    options.stream = stream_;
    options.from = empty ? 1 : answer->high + 1;
    if (!empty) options.epoch = answer->epoch;
    reader_.emplace(session_, clock_, std::move(options), *this);
    session_.watch(stream_);
  });
}

void Desk::give_up(Error error) {
  no_reader_ = std::move(error);
  no_reader_us_ = clock_.monotonic_us();
}

Status Desk::tick() {
  if (std::exchange(stale_, false)) reader_.reset();
  if (no_reader_ && clock_.monotonic_us() - no_reader_us_ > second_us) no_reader_.reset();
  if (!reader_ && !no_reader_ && !placing_) place();
  if (placed()) send_submissions();
  if (clock_.monotonic_us() - told_us_ > second_us) tell_waiting();
  return reader_ ? reader_->tick() : Status();
}

void Desk::rang(const std::string& stream) {
  if (reader_) reader_->rang(stream);
}

Result<bool> Desk::take(Envelope& answer) {
  const WakeOnce once;
  if (const auto* partials = std::get_if<Partials>(&answer.message)) {
    for (const PartialEntry& entry : partials->entries) {
      const auto [begin, end] = followed_.equal_range(entry.job);
      std::vector<std::shared_ptr<JobListener>> listeners;  // one may stop following it
      for (auto at = begin; at != end; ++at) listeners.push_back(at->second.listener);
      for (const auto& listener : listeners) listener->on_partial(entry);
    }
    return true;
  }
  if (reader_) {
    MILLRACE_ASSIGN(const bool taken, reader_->take(answer));
    if (taken) return true;
  }
  const auto question = asked_.find(answer.id);
  if (question == asked_.end()) return false;
  const OnAnswer on_answer = std::move(question->second);
  asked_.erase(question);
  send_questions();
  if (auto* refused = std::get_if<Refused>(&answer.message)) {
    on_answer(millrace::fail(std::move(refused->error)));
  } else {
    on_answer(std::move(answer.message));
  }
  return true;
}

Status Desk::on_entries(const std::vector<Entry>& entries) {
  reading_ = true;
  for (const Entry& entry : entries) {
    if (!followed_.contains(entry.job)) continue;
    tell_end(client::result_of(entry, stream_));
  }
  return {};
}

Status Desk::on_stream_error(Error error) {
  if (error.code == Code::trimmed) {
    reader_->move_to(reader_->first_kept());
    return {};
  }
  stale_ = true;
  reading_ = false;
  if (error.code == Code::unauthorized) {
    give_up(error);  // who asks is told
  } else {
    log_warn("the stream of the HTTP face is read from its end again", error);
  }
  // Another ledger knows nothing of the jobs that are followed.
  const auto followed = std::exchange(followed_, {});
  for (const auto& [job, follower] : followed) follower.listener->on_failure(error);
  return {};
}

void Desk::tell_end(const JobResult& result) {
  const auto [begin, end] = followed_.equal_range(result.job);
  std::vector<std::shared_ptr<JobListener>> listeners;
  for (auto at = begin; at != end; ++at) listeners.push_back(std::move(at->second.listener));
  followed_.erase(begin, end);
  for (const auto& listener : listeners) listener->on_end(result);
}

void Desk::fail_followers(const std::string& job, const Error& error) {
  const auto [begin, end] = followed_.equal_range(job);
  std::vector<std::shared_ptr<JobListener>> listeners;
  for (auto at = begin; at != end; ++at) listeners.push_back(std::move(at->second.listener));
  followed_.erase(begin, end);
  for (const auto& listener : listeners) listener->on_failure(error);
}

void Desk::find_result(const std::string& job) {
  StatusRequest question;
  question.job = job;
  ask_for<StatusAnswer>(std::move(question), [this, job](const Result<StatusAnswer>& answer) {
    if (!answer) return fail_followers(job, answer.error());
    const Fetch fetch{.stream = answer->job_stream,
                      .epoch = {},
                      .from = answer->job_number,
                      .cursor = {},
                      .max_entries = 1,
                      .max_bytes = limits::fetch_bytes};
    if (answer->job_number == 0) return;  // it runs again: the reader will see its end
    ask_for<Data>(fetch, [this, job](const Result<Data>& data) {
      if (data && !data->entries.empty() && data->entries.front().job == job) {
        return tell_end(client::result_of(data->entries.front(), stream_));
      }
      fail_followers(job, {Code::trimmed,
                           "the result of this request is no longer kept",
                           "send it with another Idempotency-Key",
                           {}});
    });
  });
}

void Desk::tell_waiting() {
  told_us_ = clock_.monotonic_us();
  const bool tell = ++seconds_ % wait_s == 0;
  std::vector<std::shared_ptr<JobListener>> late, waiting;  // each may stop following
  for (auto at = followed_.begin(); at != followed_.end();) {
    if (at->second.until_us <= told_us_) {  // others may follow the same job for longer
      late.push_back(std::move(at->second.listener));
      at = followed_.erase(at);
      continue;
    }
    if (tell) waiting.push_back(at->second.listener);
    ++at;
  }
  for (const auto& listener : waiting) listener->on_wait();
  const Error error = {Code::timed_out,
                       "the request has taken longer than it may",
                       "ask for less, or give the server a longer --http-timeout",
                       {}};
  for (const auto& listener : late) listener->on_failure(error);
}

void Desk::end(const Error& error) {
  const auto followed = std::exchange(followed_, {});
  for (const auto& [job, follower] : followed) follower.listener->on_failure(error);
  const auto asked = std::exchange(asked_, {});
  for (const auto& [id, on_answer] : asked) on_answer(millrace::fail(error));
  const auto to_ask = std::exchange(to_ask_, {});
  for (const Question& one : to_ask) one.on_answer(millrace::fail(error));
  const auto to_submit = std::exchange(to_submit_, {});
  for (const Submission& one : to_submit) one.on_answers(millrace::fail(error));
}

}  // namespace millrace::http
