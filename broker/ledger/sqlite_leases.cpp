// Leases, and the operations on sets that SQLite does faster than their plain forms: with fewer
// statements.
#include <algorithm>

#include "broker/ledger/claim_order.hpp"
#include "broker/ledger/queues.hpp"
#include "broker/ledger/sqlite_checksum.hpp"
#include "broker/ledger/sqlite_records.hpp"

namespace millrace::broker {
namespace {

constexpr int lease_columns = 6;

LeaseRecord read_lease(const Statement& s) {
  return {static_cast<LeaseId>(s.integer(0)),
          s.text(1),
          s.text(2),
          s.text(3),
          s.integer(4),
          s.integer(5) != 0};
}

std::string without_record(const std::string& job) {
  return "job '" + job + "' is queued or leased but has no record";
}

}  // namespace

// ---- leases

void SqliteRecords::insert_lease(LeaseRecord& lease) {
  lease.lease = static_cast<LeaseId>(next_lease_++);
  counters_changed_ = true;
  insert_lease_.run(lease.lease, lease.tenant, lease.job, lease.engine, lease.until_us,
                    lease.alone);
}

std::optional<LeaseRecord> SqliteRecords::find_lease(LeaseId lease) {
  if (!select_lease_.run(lease)) return std::nullopt;
  return read_lease(select_lease_);
}

void SqliteRecords::extend_lease(LeaseId lease, std::int64_t until_us) {
  update_lease_.run(lease, until_us);
}

void SqliteRecords::delete_lease(LeaseId lease) {
  delete_lease_.run(lease);
}

std::uint64_t SqliteRecords::count_leases(const std::string& engine) {
  return count_leases_.run(engine) ? static_cast<std::uint64_t>(count_leases_.integer(0)) : 0;
}

std::vector<LeaseRecord> SqliteRecords::read_leases(Statement& rows, bool row) {
  std::vector<LeaseRecord> out;
  for (; row; row = rows.next()) out.push_back(read_lease(rows));
  return out;
}

std::vector<LeaseRecord> SqliteRecords::all_leases() {
  return read_leases(select_leases_, select_leases_.run());
}
std::vector<LeaseRecord> SqliteRecords::leases_until(std::int64_t until_us) {
  return read_leases(select_leases_until_, select_leases_until_.run(until_us));
}
std::vector<LeaseRecord> SqliteRecords::leases_of(const std::string& engine) {
  return read_leases(select_leases_of_engine_, select_leases_of_engine_.run(engine));
}

// ---- operations on sets

// The insertion itself tells which ids are known: new ones, nearly all, need no look-up.
void SqliteRecords::store_new(std::span<NewJob> jobs) {
  for (NewJob& job : jobs) {
    JobRecord& r = job.record;
    r.sequence = static_cast<std::uint64_t>(next_sequence_);
    insert_new_job_.run(r.tenant, r.job, r.hash, r.hash_version, r.custom_id, r.model, r.stream,
                        r.batch, r.priority, r.max_attempts, r.deadline_us, r.sequence,
                        r.submitted_us, r.kv, Blob{r.labels}, r.cost_tokens, r.start_us, r.prefix);
    if (insert_new_job_.changes() == 0) continue;
    ++next_sequence_;
    counters_changed_ = true;
    insert_body(r, *job.body);
    job.stored = true;
  }
}

std::vector<std::optional<LeasedJob>> SqliteRecords::find_leased(std::span<const LeaseId> leases) {
  std::vector<std::optional<LeasedJob>> out(leases.size());
  Statement& s = select_leased_;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    if (!s.run(leases[i])) continue;
    LeaseRecord lease = read_lease(s);
    if (s.integer(lease_columns) != 0) {
      note_corruption(without_record(lease.job));
      break;
    }
    auto job = read_job(s, lease_columns + 1, lease.tenant, lease.job);
    if (!job) break;
    out[i] = LeasedJob{std::move(lease), *std::move(job)};
  }
  return out;
}

Statement& SqliteRecords::queue_reader(std::size_t place) {
  while (select_queue_.size() <= place) {
    select_queue_.push_back(std::make_unique<Statement>(
        database_,
        "SELECT priority, sequence, job, deadline_us, prefix FROM queue WHERE tenant = ?1 AND "
        "suspect = ?2 AND model = ?3 AND kv = ?4 ORDER BY priority, sequence"));
  }
  return *select_queue_[place];
}

// Begins to read all queues that serve this claim. The index returns each queue in order, so that
// no more of it is read than the claim looks at. The statements stand at their queues' next jobs.
std::vector<Statement*> SqliteRecords::queue_heads(const Claim& claim, std::uint32_t among) {
  std::vector<Statement*> heads;
  std::size_t readers = 0;
  for (const QueueName& queue : queues_of(claim)) {
    Statement& reader = queue_reader(readers++);
    if (reader.run(claim.tenant, among, *queue.model, *queue.kv)) heads.push_back(&reader);
  }
  return heads;
}

std::vector<ClaimableJob> SqliteRecords::claimable(const Claim& claim, std::uint32_t among,
                                                   std::int64_t now_us) {
  std::vector<ClaimableJob> out;
  if (claim.max_jobs == 0) return out;
  std::vector<Statement*> heads = queue_heads(claim, among);
  const auto merged = [&heads]() -> std::optional<QueuedJob> {
    const auto place = [](const Statement* s) { return std::pair(s->integer(0), s->integer(1)); };
    const auto first = std::ranges::min_element(heads, {}, place);
    if (first == heads.end()) return std::nullopt;
    QueuedJob job = read_queued(**first);
    if (!(*first)->next()) heads.erase(first);
    return job;
  };
  ClaimOrder order(claim, among, now_us, merged);
  ClaimRoom room(claim);
  Statement& s = select_claimable_;
  while (out.size() < claim.max_jobs) {
    const auto next = order.next();
    if (!next) break;
    if (!s.run(claim.tenant, next->job)) {
      note_corruption(without_record(next->job));
      break;
    }
    auto job = read_job(s, 2, claim.tenant, next->job);
    if (!job) break;
    auto body = sound_body(s, 0, job->sequence);
    const bool fits = room.take(body ? body->size() : 0, job->cost_tokens);
    out.push_back({*std::move(job), std::move(body)});
    if (!fits || room.used_up()) break;
  }
  // Half-read statements would see the changes that the claim makes next.
  database_.reset_statements();
  return out;
}

std::vector<RenewedLease> SqliteRecords::renew(const std::string& engine,
                                               std::span<const LeaseId> leases,
                                               std::int64_t until_us) {
  std::vector<RenewedLease> out;
  out.reserve(leases.size());
  Statement& s = select_renewed_;
  for (const LeaseId lease : leases) {
    if (!s.run(lease) || s.bytes(0) != engine) {
      out.push_back({lease});
      continue;
    }
    if (s.null(3)) note_corruption(without_record(s.text(2)));
    out.push_back({lease, true, s.integer(3) != 0});
    if (s.integer(1) != until_us) update_lease_.run(lease, until_us);
  }
  return out;
}

}  // namespace millrace::broker
