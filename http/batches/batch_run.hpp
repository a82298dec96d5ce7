#pragma once
// One batch on its way: its input is checked, its lines are submitted as jobs, and their results
// are written into the output or the file of errors, which become files at the end.
//
// The batch's jobs have a stream of their own, which is read from its beginning. A line's job has
// an id made of the batch's and the line's, so a line that is submitted again is the same job. A
// result is written unless its line has one; the files are synced, then the checkpoint is saved,
// and then the stream's cursor moves. So whatever ends the process, the batch goes on from its
// record, its checkpoint and the stream, no line runs twice, and each has one line of results.
// Errors: io_error, disk_full, epoch_changed and the broker's refusals. The object is used no more
// after one; another one goes on from what is on disk.
// Thread safety: one thread.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "client/lines/checkpoint.hpp"
#include "client/lines/output_file.hpp"
#include "client/lines/parse_line.hpp"
#include "client/link/stream_reader.hpp"
#include "client/link/submitter.hpp"
#include "http/batches/batch_check.hpp"
#include "http/batches/batch_store.hpp"
#include "http/batches/file_store.hpp"
#include "schemas/openai/logprobs.hpp"
#include "schemas/openai/request.hpp"

namespace millrace::http {

struct BatchParts {
  Env& env;
  const Clock& clock;
  FileStore& files;
  BatchStore& batches;
  openai::TokenLookup token_bytes{};  // for the texts of tokens with logprobs
};

class BatchRun final : public client::EventHandler,
                       public client::JobSource,
                       public client::EntrySink {
 public:
  static constexpr std::uint64_t window_jobs = 8'192;  // submitted and not yet in the output

  // `may_remove`: the session may remove the batch's stream at the end.
  BatchRun(const BatchParts& parts, client::Session& session, std::string id, bool may_remove)
      : parts_(parts), session_(session), id_(std::move(id)), may_remove_(may_remove) {}

  const std::string& id() const { return id_; }
  bool over() const { return over_; }
  Status settle();  // makes durable what is written

  Status tick() override;
  bool busy() const override;
  void rang(const std::string& stream) override;
  Result<bool> take(Envelope& answer) override;

 private:
  Status begin();
  Status check();
  Status end_check(const std::vector<openai::BatchError>& errors, std::uint64_t lines,
                   std::uint64_t last_line);
  openai::BatchError no_input() const;
  Status open_output();
  Status give_up_input();
  Status follow_times(const StoredBatch& batch);
  Status finish();
  Result<bool> publish(const StoredBatch& batch, const std::string& what, const std::string& id);

  Result<bool> feed(client::Submitter& submitter) override;
  bool holds_back() const override { return open_.size() >= window_jobs; }
  Status on_answer(const client::Submission& submission) override;
  Status on_entries(const std::vector<Entry>& entries) override;
  Status on_stream_error(Error error) override;
  client::ParsedLine parse(const client::InputLine& line) const;
  Status take_entry(const Entry& entry);
  Result<std::optional<openai::Request>> echoed_request(const JobResult& result);
  Status write_lost();
  Status write_line(std::uint64_t number, const std::string& text, bool failed);
  std::string path(const char* what) const { return parts_.batches.work_path(id_, what); }

  const BatchParts& parts_;
  client::Session& session_;
  const std::string id_;
  const bool may_remove_;
  bool begun_ = false, over_ = false;
  StoredBatch batch_;                // as it was last seen
  std::optional<Error> stop_;        // why the rest of the lines is not submitted
  std::optional<BatchCheck> check_;  // while the input is checked
  std::unique_ptr<File> input_;      // while lines are submitted, and so the next ones
  std::optional<client::LineReader> lines_;
  std::unique_ptr<File> echoed_input_;  // the same, once an answer begins with its prompt
  std::optional<client::OutputFile> output_;
  std::optional<client::Submitter> submitter_;
  std::optional<client::StreamReader> reader_;
  std::set<std::uint64_t> open_;     // lines that were submitted and have no result
  std::set<std::uint64_t> ended_;    // of them those whose job had ended already
  std::set<std::uint64_t> awaited_;  // of those the ones that the fetch under way has to find
  bool trimmed_ = false;             // the stream has lost results
  std::uint64_t taken_ = 0;          // the last number of the stream whose line is in the output
  std::int64_t synced_us_ = 0, cancelled_us_ = 0;
};

}  // namespace millrace::http
