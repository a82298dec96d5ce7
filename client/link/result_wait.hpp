#pragma once
// Waits in a stream for the results of jobs that are being submitted. Delivers each result once and
// skips the results of other producers' jobs.
//
// A job that the broker knew already may have its result earlier in the stream than the place where
// the reader began. After the first such answer the reader starts again at number 1.
// Errors: those of StreamReader and of the callback. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"

namespace millrace::client {

class ResultWait final : public EntrySink {
 public:
  using OnResult = std::function<Status(std::uint64_t tag, const JobResult& result)>;

  ResultWait(Session& session, const Clock& clock, StreamReaderOptions options, OnResult on_result)
      : reader_(session, clock, std::move(options), *this), on_result_(std::move(on_result)) {}

  // Call this before the job is submitted: its result may come before the answer to the submit.
  void expect(const std::string& job, std::uint64_t tag) { waiting_.emplace(job, tag); }
  // Call this for each answer: a refused job has no result to wait for.
  Status note_answer(const Submission& submission);

  bool done() const { return waiting_.empty(); }
  StreamReader& reader() { return reader_; }  // a handler of the loop

  Status on_entries(const std::vector<Entry>& entries) override;

 private:
  StreamReader reader_;
  OnResult on_result_;
  std::unordered_map<std::string, std::uint64_t> waiting_;  // job to tag
  bool rewound_ = false;
};

}  // namespace millrace::client
