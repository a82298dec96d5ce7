#include "client/link/exchange.hpp"

#include <utility>
#include <vector>

#include "schemas/codec.hpp"

namespace millrace::client {
namespace {

constexpr std::uint32_t poll_ms = 50;
constexpr int jobs_at_once = 256;

class Loop {
 public:
  Loop(Session& session, const Clock& clock, const Exchange& work)
      : session_(session), work_(work), submitter_(session, clock) {
    if (work.stream && work.on_entry) {
      stream_.emplace(session, clock, *work.stream);
    }
  }

  Status run() {
    std::vector<Envelope> answers;
    std::vector<Bell> bells;
    while (!(source_done_ && submitter_.unanswered() == 0 && work_.done())) {
      if (work_.interrupted()) {
        return fail(Code::interrupted, "stopped by a signal");
      }
      MILLRACE_TRY(check_patience());
      if (work_.tick) {
        MILLRACE_TRY(work_.tick());
      }
      MILLRACE_TRY(feed());
      submitter_.tick();
      if (stream_) {
        stream_->tick(true);
      }
      const bool busy = !source_done_ && submitter_.has_room() && session_.ready();
      MILLRACE_TRY(session_.poll(busy ? 0 : poll_ms, answers, bells));
      if (stream_) {
        stream_->rang(bells);
      }
      for (Envelope& answer : answers) {
        MILLRACE_TRY(take(answer));
      }
      answers.clear();
      bells.clear();
    }
    return {};
  }

 private:
  Status check_patience() {
    ever_ready_ = ever_ready_ || session_.ready();
    if (!ever_ready_ && work_.give_up_ms != 0 && session_.away_ms() > work_.give_up_ms) {
      return fail(Code::unreachable,
                  "the broker did not answer for " + std::to_string(session_.away_ms()) + " ms",
                  "check that it runs and that --broker names its client endpoint");
    }
    return {};
  }

  Status feed() {
    for (int i = 0; i < jobs_at_once && !source_done_ && submitter_.has_room(); ++i) {
      MILLRACE_ASSIGN(std::optional<NextJob> job, work_.next_job());
      if (!job) {
        source_done_ = true;
        break;
      }
      submitter_.add(std::move(job->body), job->tag);
    }
    submitter_.flush();
    return {};
  }

  Status take(Envelope& answer) {
    if (stream_) {
      std::vector<Entry> entries;
      MILLRACE_ASSIGN(const bool of_stream, stream_->take(answer, entries));
      for (const Entry& entry : entries) {
        MILLRACE_TRY(work_.on_entry(entry));
      }
      if (of_stream) {
        return {};
      }
    }
    std::vector<Submission> done;
    MILLRACE_TRY(submitter_.take(answer, done));
    for (const Submission& submission : done) {
      MILLRACE_TRY(work_.on_answer(submission));
      const SubmitAnswer& one = submission.answer;
      if (work_.rewind_for_known && !rewound_ && stream_ && one.known && is_end(one.state)) {
        rewound_ = true;
        stream_->move_to(1);
      }
    }
    return {};
  }

  Session& session_;
  const Exchange& work_;
  Submitter submitter_;
  std::optional<StreamReader> stream_;
  bool source_done_ = false;
  bool rewound_ = false;
  bool ever_ready_ = false;
};

}  // namespace

Status exchange(Session& session, const Clock& clock, const Exchange& work) {
  return Loop(session, clock, work).run();
}

}  // namespace millrace::client
