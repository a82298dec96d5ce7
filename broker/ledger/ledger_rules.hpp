#pragma once
// The rules of the ledger, once for all stores: the operations of ledger.hpp on records. Each
// checks first and changes afterwards, so that a refused operation changes nothing and needs no
// savepoint. Neighbouring submits and ends are carried out as sets, with the same answers as one by
// one.
//
// Errors: a refusal is the reply of its operation. After each call the caller checks the records'
// status: if they failed, the replies have no meaning. Thread safety: one thread at a time.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/queues.hpp"
#include "broker/ledger/records.hpp"
#include "broker/ledger/tails.hpp"
#include "broker/ledger/transitions.hpp"

namespace millrace::broker {

struct RulesOptions {
  Publish publish;  // required
};

// Why operations are refused before they are tried: a full disk.
struct Refusals {
  std::optional<Error> work;    // submits of new jobs, and appends
  std::optional<Error> writes;  // everything that changes something
};

bool only_reads(const Operation& op);
bool brings_work(const Operation& op);          // a submit or an append
std::uint64_t work_bytes(const Operation& op);  // bytes of the body that it brings

class LedgerRules {
 public:
  LedgerRules(Records& records, RulesOptions options);
  LedgerRules(const LedgerRules&) = delete;
  LedgerRules& operator=(const LedgerRules&) = delete;

  // Carries out all operations of one transaction, in order, one reply each. When it returns, all
  // changes are in the records. It stops early where the records fail.
  std::vector<Result<Reply>> carry_out(std::span<const Operation> operations, std::int64_t now_us,
                                       const Refusals& refusals);

 private:
  using Replies = std::vector<Result<Reply>>;

  // Sets: operations that follow one another.
  void submit(std::span<const Operation> submits, Replies& replies);
  void finish(std::span<const Operation> ends, Replies& replies);

  Result<Reply> carry_out(const Claim& op);
  Result<Reply> carry_out(const ClaimShared& op);
  Result<Reply> carry_out(const Renew& op);
  Result<Reply> carry_out(const GiveBack& op);
  Result<Reply> carry_out(const FindLapsed& op);
  Result<Reply> carry_out(const ExpireJobs& op);
  Result<Reply> carry_out(const CancelJobs& op);
  Result<Reply> carry_out(const RetryJobs& op);
  Result<Reply> carry_out(const ReadStream& op);
  Result<Reply> carry_out(const ListStreams& op);
  Result<Reply> carry_out(const GetStream& op);
  Result<Reply> carry_out(const MoveCursor& op);
  Result<Reply> carry_out(const ListCursors& op);
  Result<Reply> carry_out(const RemoveCursor& op);
  Result<Reply> carry_out(const TrimStream& op);
  Result<Reply> carry_out(const RemoveStream& op);
  // The stored ledger carries it out after the transaction, in which nothing can be copied.
  static Result<Reply> carry_out(const BackUp&) { return BackUpReply{}; }
  Result<Reply> carry_out(const KeepStream& op);
  Result<Reply> carry_out(const Retain& op);
  Result<Reply> carry_out(const Append& op);
  Result<Reply> carry_out(const GetJob& op);
  Result<Reply> carry_out(const Count& op);
  Result<Reply> carry_out(const ListTenants& op);
  Result<Reply> carry_out(const ListJobs& op);
  Result<Reply> carry_out(const DropJobs& op);
  Result<Reply> carry_out(const StartJobs& op);
  Result<Reply> carry_out(const ListBatches& op);
  Result<Reply> carry_out(const UpdateBatch& op);
  Result<Reply> carry_out(const Pause& op);
  Result<Reply> carry_out(const Resume& op);
  Result<Reply> carry_out(const BeatBroker& op);
  Result<Reply> carry_out(const ReadNews& op);

  Result<Reply> refuse(const Operation& op, const Error& error);
  std::optional<Result<Reply>> answer_known(const SubmitJob& op);
  struct Claimed {
    bool all = false;         // the tenant has no more jobs that the claim may have
    bool at_limit = false;    // because it holds as many leases as it may
    std::uint64_t ready = 0;  // of its jobs that are left
  };
  Claimed claim(const Claim& op, ClaimRoom& room, Tails& tails, ClaimReply& reply);
  bool claim_jobs(const Claim& op, ClaimRoom& room, Tails& tails, ClaimReply& reply);
  bool claim_suspects(const Claim& op, ClaimRoom& room, ClaimReply& reply);
  std::vector<SuspectQueue> suspects_of(const std::string& tenant, bool paused_too);
  std::optional<std::int64_t> oldest_ready(const std::string& tenant);
  std::uint64_t queued_tokens(const std::string& tenant, std::uint64_t queued);
  void list_batches(const ListBatches& op, BatchesAnswer& answer);
  std::vector<ModelQueue> waiting_of(const std::string& tenant);
  bool is_ready(const JobRecord& job);
  bool open_queues(Claim& claim);
  bool set_aside_if_paused(JobRecord& job);
  void start(JobRecord& job, StartReply& reply);
  bool bring_back(const std::string& tenant, const std::string& batch, std::uint32_t max_jobs,
                  StartReply& reply);
  bool bring_back_resumed(const std::string& tenant, std::uint32_t max_jobs, StartReply& reply);
  Result<bool> change_pause(const std::string& tenant, const std::string& batch,
                            const std::string& model, bool paused);
  bool hand_out(ClaimableJob next, const Claim& op, ClaimRoom& room, ClaimReply& reply);
  BatchState state_of(const std::string& tenant, const BatchRecord& record);
  FinishReply finish_one(JobRecord& job, const Finish& op);
  std::vector<JobRecord> batch_page(const ListJobs& op, std::uint64_t after, std::uint64_t most);
  std::vector<JobRecord> leased_page(const ListJobs& op, std::uint64_t most);
  JobInfo info_of(const JobRecord& job);
  void forget(const std::vector<JobRecord>& jobs);
  void give_back(JobRecord& job, bool proven, GiveBackReply& reply);
  void close_incident(std::uint64_t incident, GiveBackReply& reply);
  void cancel(JobRecord& job, CancelReply& reply);
  void retry(JobRecord& job);
  Status read_entries(const ReadStream& op, std::uint64_t from, ReadStreamReply& reply);
  Result<StreamRecord> changeable(const std::string& tenant, const std::string& stream);
  Result<Reply> stream_reply(const std::string& tenant, const std::string& stream);
  std::uint32_t forget_jobs(const Retain& op, RetainReply& reply);
  std::uint64_t expire_cursors(const StreamPlace& at, const Retention& limits, RetainReply& reply);
  bool retain_stream(const StreamPlace& at, const Retention& defaults, std::uint32_t& rows,
                     RetainReply& reply);

  Records& records_;
  const RulesOptions options_;
  Transitions transitions_;
};

}  // namespace millrace::broker
