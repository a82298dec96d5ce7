#pragma once
// The operations of ledger.hpp on the tables. Each checks first and changes afterwards, so that a
// refused operation changes nothing. After each carry_out the caller checks the database's sticky
// status: if it failed, the reply has no meaning. Thread safety: one thread at a time.
#include <memory>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_records.hpp"

namespace millrace::broker {

class SqliteOperations {
 public:
  SqliteOperations(Database& database, const Publish& publish, std::uint64_t max_queued_jobs);

  Result<Reply> carry_out(const Operation& operation, std::int64_t now_us);
  // The answer to a submit whose id is stored already; it writes nothing. None where the job is
  // new.
  std::optional<Result<Reply>> answer_known(const SubmitJob& op);
  Records& records() { return records_; }

 private:
  Result<Reply> carry_out(const SubmitJob& op);
  Result<Reply> carry_out(const Claim& op);
  Result<Reply> carry_out(const Renew& op);
  Result<Reply> carry_out(const Finish& op);
  Result<Reply> carry_out(const GiveBack& op);
  Result<Reply> carry_out(const FindLapsed& op);
  Result<Reply> carry_out(const ExpireJobs& op);
  Result<Reply> carry_out(const CancelJobs& op);
  Result<Reply> carry_out(const RetryJobs& op);
  Result<Reply> carry_out(const ReadStream& op);
  Result<Reply> carry_out(const ListStreams& op);
  Result<Reply> carry_out(const MoveCursor& op);
  Result<Reply> carry_out(const TrimStream& op);
  Result<Reply> carry_out(const Append& op);
  Result<Reply> carry_out(const GetJob& op);
  Result<Reply> carry_out(const Count& op);

  Statement& queue_reader(std::size_t place);
  std::vector<std::string> next_queued(const Claim& op);
  // Ends a job by the ledger's own decision.
  FinishReply end_here(JobRow& row, JobState state, Code reason);
  void give_back(const LeaseRow& lease, const GiveBack& op, bool proven, GiveBackReply& reply);
  void cancel(JobRow& row, CancelReply& reply);
  void retry(JobRow& row);
  std::vector<std::string> jobs_of_batch(const std::string& tenant, const std::string& batch,
                                         JobState state, std::uint32_t max_jobs,
                                         std::uint64_t after);
  Status read_entries(const ReadStream& op, std::uint64_t from, ReadStreamReply& reply);

  Database& database_;
  const std::uint64_t max_queued_jobs_;
  Records records_;
  std::int64_t now_us_ = 0;

  std::vector<std::unique_ptr<Statement>> select_queue_;  // one for each queue of the widest claim
  Statement renew_lease_;
  Statement select_leases_, select_leases_until_, select_leases_of_engine_;
  Statement select_due_, select_batch_;
  Statement select_stream_, list_streams_, select_entries_;
  Statement select_cursor_, set_cursor_;
  Statement delete_entries_, set_first_;
  Statement select_counts_, select_suspects_;
};

}  // namespace millrace::broker
