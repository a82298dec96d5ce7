#include "http/live.hpp"

#include <iterator>
#include <set>
#include <utility>

#include "http/desk.hpp"
#include "http/live_job.hpp"
#include "schemas/names.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t view_age_us = 1'000 * us_per_ms;
constexpr std::uint32_t most_pages = 20;  // of unfinished batches

}  // namespace

void Live::once(const std::string& key, const std::function<void(Use)>& make, Use use) {
  const std::int64_t now = clock_.monotonic_us();
  std::erase_if(answers_, [&](const auto& one) {
    return one.second.json && now - one.second.made_us >= view_age_us;
  });
  Answer& answer = answers_[key];
  if (answer.json) return use(*answer.json);
  answer.waiting.push_back(std::move(use));
  if (answer.waiting.size() > 1) return;
  make([this, key](const Result<std::string>& made) {
    const auto found = answers_.find(key);
    const auto waiting = std::exchange(found->second.waiting, {});
    if (made) {
      found->second.json = *made;
      found->second.made_us = clock_.monotonic_us();
    } else {
      answers_.erase(found);
    }
    for (const Use& one : waiting) one(made);
  });
}

void Live::with_view(std::int64_t since_us, Use use) {
  once(
      "", [this](Use done) { begin_round(std::move(done)); },
      [this, since_us, use = std::move(use)](const Result<std::string>& made) {
        use(made ? Result<std::string>(view_.json(since_us)) : made);
      });
}

void Live::begin_round(Use done) {
  round_ = std::move(done);
  outcome_ = {};
  fetched_ = false;
  open_ = 2;
  StatusRequest status;
  status.queues = true;
  desk_.ask_for<StatusAnswer>(std::move(status), [this](Result<StatusAnswer> answer) {
    if (!answer) return end_part(fail(std::move(answer).error()));
    view_.take_status(*std::move(answer));
    end_part({});
  });
  ask_streams();
  // Many batches are asked for more rarely.
  if (clock_.monotonic_us() < batches_us_) return;
  ++open_;
  pages_ = 0;
  batches_.clear();
  ask_unfinished_batches({});
}

// Those with jobs to do come first, so that none of them is missed among many that have ended.
void Live::ask_unfinished_batches(std::string after) {
  BatchesRequest question{.batch = {}, .after = std::move(after), .unfinished = true};
  desk_.ask_for<BatchesAnswer>(std::move(question), [this](Result<BatchesAnswer> answer) {
    if (!answer) return end_part(fail(std::move(answer).error()));
    ++pages_;
    std::ranges::move(answer->batches, std::back_inserter(batches_));
    if (answer->more && pages_ < most_pages && !answer->next.empty()) {
      return ask_unfinished_batches(answer->next);
    }
    ask_other_batches(answer->more);
  });
}

void Live::ask_other_batches(bool more_unfinished) {
  desk_.ask_for<BatchesAnswer>(
      BatchesRequest{}, [this, more_unfinished](Result<BatchesAnswer> answer) {
        if (!answer) return end_part(fail(std::move(answer).error()));
        std::set<std::string, std::less<>> known;
        for (const BatchState& one : batches_) known.insert(one.batch);
        for (BatchState& one : answer->batches) {
          if (!known.contains(one.batch)) batches_.push_back(std::move(one));
        }
        batches_us_ = clock_.monotonic_us() + (pages_ > 1 ? pages_ * view_age_us : 0);
        view_.take_batches(std::exchange(batches_, {}), more_unfinished || answer->more);
        end_part({});
      });
}

void Live::ask_streams() {
  desk_.ask_for<StreamsAnswer>(StreamsRequest{}, [this](Result<StreamsAnswer> answer) {
    if (!answer) return end_part(fail(std::move(answer).error()));
    view_.take_streams(std::move(answer->streams), answer->more, clock_.monotonic_us());
    end_part({});
  });
}

void Live::ask_results() {
  fetched_ = true;
  const auto fetches = view_.fetches();
  open_ = static_cast<std::uint32_t>(fetches.size()) + 1;
  for (const Fetch& fetch : fetches) {
    desk_.ask(fetch, [this](const Result<Message>& answer) {
      // A stream may be trimmed meanwhile: then there is nothing to show of it.
      if (answer) {
        if (const auto* data = std::get_if<Data>(&*answer)) {
          view_.take_results(*data, clock_.monotonic_us());
        }
      }
      end_part({});
    });
  }
  end_part({});
}

void Live::end_part(const Status& part) {
  if (!part) outcome_ = part;
  if (--open_ > 0) return;
  if (outcome_ && !fetched_) return ask_results();
  const Use done = std::exchange(round_, {});
  if (!outcome_) return done(std::unexpected(outcome_.error()));
  view_.finish(clock_.wall_us(), clock_.monotonic_us());
  done(std::string());
}

void Live::with_jobs(const JobsRequest& question, Use use) {
  const std::string state = question.state ? std::string(wire::to_name(*question.state)) : "";
  const char cut = '\0';
  once(
      "jobs" + (cut + question.batch) + cut + question.stream + cut + state + cut + question.after,
      [&](Use done) {
        desk_.ask_for<JobsAnswer>(question, [done = std::move(done)](const auto& answer) {
          if (!answer) return done(std::unexpected(answer.error()));
          done(jobs_json(*answer));
        });
      },
      std::move(use));
}

void Live::with_job(const std::string& job, Use use) {
  once(
      "job" + ('\0' + job), [&](const Use& done) { look_up(job, done); }, std::move(use));
}

void Live::look_up(const std::string& job, const Use& done) {
  const JobsRequest question{.job = job};
  desk_.ask_for<JobsAnswer>(question, [this, job, done](Result<JobsAnswer> answer) {
    if (!answer) return done(std::unexpected(std::move(answer).error()));
    if (answer->jobs.empty()) {
      return done(millrace::fail(Code::not_found, "there is no job " + job,
                                 "it may have ended and be kept no longer"));
    }
    auto info = std::make_shared<const JobInfo>(std::move(answer->jobs.front()));
    if (info->number == 0) {
      StatusRequest status;
      status.job = job;
      return desk_.ask_for<StatusAnswer>(std::move(status), [info, done](const auto& told) {
        done(job_json(*info, told ? told->job_waits : std::string(), nullptr));
      });
    }
    const Fetch fetch{.stream = info->stream,
                      .epoch = {},
                      .from = info->number,
                      .cursor = {},
                      .max_entries = 1,
                      .max_bytes = limits::fetch_bytes};
    desk_.ask(fetch, [info, done](const Result<Message>& told) {
      const Data* data = told ? std::get_if<Data>(&*told) : nullptr;
      const bool kept =
          data != nullptr && !data->entries.empty() && data->entries.front().number == info->number;
      done(job_json(*info, {}, kept ? &data->entries.front() : nullptr));
    });
  });
}

}  // namespace millrace::http
