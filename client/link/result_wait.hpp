#pragma once
// Waits in a stream for the results of jobs that are being submitted. Delivers each result once and
// skips the results of other producers' jobs.
//
// A job that the broker knew already may have its result earlier in the stream than the place where
// the reader began. Once all jobs are answered, and if such a job has ended, the reader reads the
// stream from its beginning. Where the stream was trimmed meanwhile it goes on with what is left;
// when it has read all of that, the broker is asked about the jobs whose results may be gone.
// Errors: those of StreamReader and of the callback, and the broker's refusals.
// Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {

struct LostResult {
  std::uint64_t tag = 0;
  std::string job;
};

class ResultWait final : public EventHandler, public EntrySink {
 public:
  using OnResult = std::function<Status(std::uint64_t tag, const JobResult& result)>;

  // `all_answered` tells whether every job has its answer; empty: at any time.
  ResultWait(Session& session, const Clock& clock, StreamReaderOptions options, OnResult on_result,
             std::function<bool()> all_answered = {})
      : session_(session),
        begin_(options.from),
        reader_(session, clock, std::move(options), *this),
        on_result_(std::move(on_result)),
        all_answered_(std::move(all_answered)) {}

  // Call this before the job is submitted: its result may come before the answer to the submit.
  void expect(const std::string& job, std::uint64_t tag) {
    waiting_.emplace(job, Waiting{tag, false});
  }
  // Call this for each answer: a refused job has no result to wait for.
  Status note_answer(const Submission& submission);

  // True when each result has come or is lost.
  bool done() const { return waiting_.empty(); }
  // The jobs that have ended and whose results the stream no longer holds.
  const std::vector<LostResult>& lost() const { return lost_; }

  Status tick() override;
  void rang(const std::string& stream) override { reader_.rang(stream); }
  Result<bool> take(Envelope& answer) override;
  Status on_entries(const std::vector<Entry>& entries) override;
  Status on_stream_error(Error error) override;

 private:
  struct Waiting {
    std::uint64_t tag = 0;
    bool ended = false;  // when it was submitted, it was known and had ended
  };
  void list_doubtful();
  Status judge(const std::string& job, Message& answer);
  void lose(const std::string& job);

  Session& session_;
  const std::uint64_t begin_;  // results of jobs that are submitted now are not before it
  StreamReader reader_;
  OnResult on_result_;
  std::function<bool()> all_answered_;
  std::unordered_map<std::string, Waiting> waiting_;  // by job
  std::size_t ended_ = 0;                             // of those
  bool rewound_ = false;
  bool lost_new_ = false;              // the stream was trimmed beyond begin_
  bool listed_ = false;                // the doubtful jobs of what was read so far
  std::vector<std::string> doubtful_;  // to be asked about
  std::unordered_map<std::uint64_t, std::string> asked_;  // question to job
  std::vector<LostResult> lost_;
};

}  // namespace millrace::client
