// Leases, and the operations on sets: each is a statement or two, however many rows it is about.
#include <algorithm>
#include <deque>

#include "broker/ledger/body_checksum.hpp"
#include "broker/ledger/claim_order.hpp"
#include "broker/ledger/postgres_job_columns.hpp"
#include "broker/ledger/postgres_records.hpp"
#include "broker/ledger/queues.hpp"

namespace millrace::broker {
namespace {

#define MILLRACE_POSTGRES_LEASE "l.lease, l.tenant, l.job, l.engine, l.until_us, l.alone"
constexpr std::uint64_t lease_block = 64;  // numbers that are taken together
constexpr std::uint32_t head_jobs = 64, next_head_jobs = 256, most_head_jobs = 512;

std::string lacks_record(const std::string& job) {
  return "job '" + job + "' is queued or leased but has no record";
}

IntegerColumn column_of(std::span<const LeaseId> leases) {
  IntegerColumn out;
  for (const LeaseId lease : leases) out.add(lease);
  return out;
}

// The next jobs of one queue of a claim.
struct QueueHead {
  QueueKey queue;
  std::deque<QueuedJob> jobs;
  std::size_t asked = 0;  // for so many; fewer jobs are the last ones
  std::size_t got = 0;
};

}  // namespace

// ---- leases

LeaseRecord PostgresRecords::read_lease(const PostgresRows& rows, int row) {
  return {rows.number(row, 0), rows.text(row, 1),    rows.text(row, 2),
          rows.text(row, 3),   rows.integer(row, 4), rows.integer(row, 5) != 0};
}

void PostgresRecords::insert_lease(LeaseRecord& lease) {
  own(lease.tenant);
  if (lease_numbers_.empty()) {
    const auto rows = connection_.ask(
        "SELECT nextval('@.lease_sequence') FROM generate_series(1, $1)", lease_block);
    for (int row = 0; row < rows.size(); ++row) lease_numbers_.push_back(rows.number(row, 0));
    lease_numbers_are_new_ = true;
  }
  if (lease_numbers_.empty()) return;  // the records have failed
  lease.lease = lease_numbers_.front();
  lease_numbers_.pop_front();
  new_leases_.leases.add(lease.lease);
  new_leases_.tenants.add(lease.tenant);
  new_leases_.jobs.add(lease.job);
  new_leases_.engines.add(lease.engine);
  new_leases_.until.add(lease.until_us);
  new_leases_.alone.add(std::int64_t{lease.alone ? 1 : 0});
  kept_leases_[lease.lease] = lease;
}

std::optional<LeaseRecord> PostgresRecords::find_lease(LeaseId lease) {
  if (!kept_leases_.contains(lease)) {
    ExpectedRecords expected;
    expected.leases.push_back(lease);
    expect(expected);
  }
  return status() ? kept_leases_[lease] : std::nullopt;
}

void PostgresRecords::extend_lease(LeaseId lease, std::int64_t until_us) {
  flush_leases();
  connection_.send("UPDATE @.leases SET until_us = $2, broker = $3 WHERE lease = $1", lease,
                   until_us, broker_);
  auto& kept = kept_leases_[lease];
  if (kept) kept->until_us = until_us;
}

void PostgresRecords::delete_lease(LeaseId lease) {
  deleted_leases_.add(lease);
  kept_leases_[lease] = std::nullopt;
}

std::uint64_t PostgresRecords::count_leases(const std::string& engine) {
  flush_leases();
  const auto rows = connection_.ask("SELECT count(*) FROM @.leases WHERE engine = $1", engine);
  return rows.size() == 0 ? 0 : rows.number(0, 0);
}

std::vector<LeaseRecord> PostgresRecords::read_leases(const PostgresRows& rows) {
  std::vector<LeaseRecord> out;
  for (int row = 0; row < rows.size(); ++row) out.push_back(read_lease(rows, row));
  return out;
}

std::vector<LeaseRecord> PostgresRecords::all_leases() {
  flush_leases();
  return read_leases(
      connection_.ask("SELECT " MILLRACE_POSTGRES_LEASE " FROM @.leases l ORDER BY l.lease"));
}
std::vector<LeaseRecord> PostgresRecords::leases_until(std::int64_t until_us) {
  flush_leases();
  return read_leases(connection_.ask(
      "SELECT " MILLRACE_POSTGRES_LEASE " FROM @.leases l WHERE l.until_us <= $1", until_us));
}
std::vector<LeaseRecord> PostgresRecords::leases_of(const std::string& engine) {
  flush_leases();
  return read_leases(connection_.ask(
      "SELECT " MILLRACE_POSTGRES_LEASE " FROM @.leases l WHERE l.engine = $1", engine));
}

// ---- operations on sets

// Under the tenant's lock nobody else stores a job, so the ids that are not found are new.
void PostgresRecords::store_new(std::span<NewJob> jobs) {
  ExpectedRecords expected;
  for (const NewJob& job : jobs) expected.jobs.emplace(job.record.tenant, job.record.job);
  expect(expected);
  std::vector<NewJob*> fresh;
  for (NewJob& job : jobs) {
    KeptJob& kept = kept_[{job.record.tenant, job.record.job}];
    if (kept.record) continue;
    kept.record = job.record;  // its sequence follows
    job.stored = true;
    fresh.push_back(&job);
  }
  const auto sequences = next_sequences(fresh.size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    JobRecord& record = fresh[i]->record;
    record.sequence = sequences[i];
    kept_[{record.tenant, record.job}] = {record, true, true};
    changed_jobs_.insert({record.tenant, record.job});
    insert_body(record, *fresh[i]->body);
  }
}

// Keeps the leases, read under the locks of their tenants. The transaction has them already where
// it expected these leases.
void PostgresRecords::own_leases(std::span<const LeaseId> leases) {
  ExpectedRecords expected;
  expected.leases.assign(leases.begin(), leases.end());
  expect(expected);
  std::set<std::string> unlocked;
  for (const LeaseId lease : leases) {
    auto& kept = kept_leases_[lease];
    if (!kept || owns(kept->tenant)) continue;
    unlocked.insert(kept->tenant);
    kept_leases_.erase(lease);
  }
  if (unlocked.empty()) return;
  lock(unlocked);
  expect(expected);
}

std::vector<std::optional<LeasedJob>> PostgresRecords::find_leased(
    std::span<const LeaseId> leases) {
  own_leases(leases);
  ExpectedRecords expected;
  for (const LeaseId lease : leases) {
    const auto& kept = kept_leases_[lease];
    if (kept) expected.jobs.emplace(kept->tenant, kept->job);
  }
  expect(expected);
  std::vector<std::optional<LeasedJob>> out(leases.size());
  std::vector<const JobRecord*> jobs;
  for (std::size_t i = 0; i < leases.size() && status(); ++i) {
    const auto& lease = kept_leases_[leases[i]];
    if (!lease) continue;
    const auto& job = kept_[{lease->tenant, lease->job}].record;
    if (!job) {
      note_corruption(lacks_record(lease->job));
      break;
    }
    out[i] = LeasedJob{*lease, *job};
    jobs.push_back(&*job);
  }
  expect_batches_of(jobs);
  return out;
}

// The jobs that the claim takes, in its order. The heads of all its queues are read together.
std::vector<QueuedJob> PostgresRecords::choose(const Claim& claim, std::uint32_t among,
                                               std::int64_t now_us) {
  const std::size_t first = std::min(head_jobs + claim.max_jobs, most_head_jobs);
  std::vector<QueueHead> heads;
  TextColumn models, kvs;
  for (const QueueName& name : queues_of(claim)) {
    heads.push_back({{claim.tenant, among, *name.model, *name.kv}, {}, first, 0});
    models.add(*name.model);
    kvs.add(*name.kv);
  }
  const auto rows = connection_.ask(
      "SELECT u.place, h.priority, h.sequence, h.job, h.deadline_us, h.prefix FROM "
      "unnest($3::bytea[], $4::bytea[]) WITH ORDINALITY u(model, kv, place) CROSS JOIN LATERAL "
      "(SELECT * FROM @.queue q WHERE q.tenant = $1 AND q.suspect = $2 AND q.model = u.model AND "
      "q.kv = u.kv ORDER BY q.priority, q.sequence LIMIT $5) h "
      "ORDER BY u.place, h.priority, h.sequence",
      claim.tenant, among, models, kvs, std::uint64_t{first});
  for (int row = 0; row < rows.size(); ++row) {
    QueueHead& head = heads[static_cast<std::size_t>(rows.integer(row, 0)) - 1];
    head.jobs.push_back({{static_cast<std::uint32_t>(rows.integer(row, 1)), rows.number(row, 2)},
                         rows.text(row, 3),
                         rows.optional_integer(row, 4),
                         rows.number(row, 5)});
    ++head.got;
  }
  const auto merged = [&]() -> std::optional<QueuedJob> {
    std::erase_if(heads, [](const QueueHead& head) { return head.jobs.empty(); });
    const auto next = std::ranges::min_element(
        heads, {}, [](const QueueHead& head) { return head.jobs.front().place; });
    if (next == heads.end()) return std::nullopt;
    QueuedJob job = std::move(next->jobs.front());
    next->jobs.pop_front();
    if (next->jobs.empty() && next->got == next->asked) {
      const auto page = queued_jobs(next->queue, job.place, next_head_jobs);
      next->asked = next_head_jobs;
      next->got = page.size();
      next->jobs.assign(page.begin(), page.end());
    }
    return job;
  };
  ClaimOrder order(claim, among, now_us, merged);
  std::vector<QueuedJob> out;
  while (out.size() < claim.max_jobs) {
    auto next = order.next();
    if (!next) break;
    out.push_back(*std::move(next));
  }
  return out;
}

// Bodies come only as far as the claim has room for them; the first one comes in any case.
std::vector<ClaimableJob> PostgresRecords::claimable(const Claim& claim, std::uint32_t among,
                                                     std::int64_t now_us) {
  std::vector<ClaimableJob> out;
  if (claim.max_jobs == 0) return out;
  own(claim.tenant);
  flush_jobs();
  flush_bodies();
  flush_queue();
  const auto chosen = choose(claim, among, now_us);
  if (chosen.empty() || !status()) return out;
  TextColumn jobs;
  IntegerColumn sequences;
  for (const QueuedJob& job : chosen) {
    jobs.add(job.job);
    sequences.add(job.place.second);
  }
  const auto rows = connection_.ask(
      "SELECT c.checksum, CASE WHEN c.before <= $4 THEN c.body END, c.job, " MILLRACE_POSTGRES_JOB
      " FROM (SELECT u.job, u.place, b.checksum, b.body, coalesce(sum(octet_length(b.body)) OVER "
      "(ORDER BY u.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before "
      "FROM unnest($2::bytea[], $3::bigint[]) WITH ORDINALITY u(job, sequence, place) LEFT JOIN "
      "@.job_bodies b ON b.tenant = $1 AND b.sequence = u.sequence) c LEFT JOIN @.jobs j ON "
      "j.tenant = $1 AND j.job = c.job ORDER BY c.place",
      claim.tenant, jobs, sequences, std::min<std::uint64_t>(claim.max_bytes, INT64_MAX));
  ClaimRoom room(claim);
  for (int row = 0; row < rows.size(); ++row) {
    if (rows.null(row, 3)) {
      note_corruption(lacks_record(rows.text(row, 2)));
      break;
    }
    auto job = read_job(rows, row, 3);
    if (!job) break;
    keep(*job);
    std::optional<Body> body;
    if (!rows.null(row, 0)) {
      if (rows.null(row, 1)) break;  // left out for want of room
      const std::string_view bytes = rows.bytes(row, 1);
      if (checksum(bytes, job->sequence) == rows.integer(row, 0)) body = Body(bytes);
    }
    const bool fits = room.take(body ? body->size() : 0, job->cost_tokens);
    out.push_back({*std::move(job), std::move(body)});
    if (!fits || room.used_up()) break;
  }
  if (!status()) out.clear();
  std::vector<const JobRecord*> taken;
  for (const ClaimableJob& one : out) taken.push_back(&one.job);
  expect_batches_of(taken);
  return out;
}

std::vector<RenewedLease> PostgresRecords::renew(const std::string& engine,
                                                 std::span<const LeaseId> leases,
                                                 std::int64_t until_us) {
  own_leases(leases);
  flush_jobs();
  flush_leases();
  const auto rows = connection_.ask(
      "WITH renewed AS (UPDATE @.leases SET until_us = $3, broker = $4 WHERE lease = ANY($2) AND "
      "engine = $1 "
      "RETURNING lease, tenant, job) SELECT r.lease, r.job, j.cancel FROM renewed r LEFT JOIN "
      "@.jobs j ON j.tenant = r.tenant AND j.job = r.job",
      engine, column_of(leases), until_us, broker_);
  std::map<LeaseId, bool> held;  // and whether it is to be cancelled
  for (int row = 0; row < rows.size(); ++row) {
    if (rows.null(row, 2)) note_corruption(lacks_record(rows.text(row, 1)));
    held.emplace(rows.number(row, 0), rows.optional_integer(row, 2).value_or(0) != 0);
    const auto kept = kept_leases_.find(rows.number(row, 0));
    if (kept != kept_leases_.end() && kept->second) kept->second->until_us = until_us;
  }
  std::vector<RenewedLease> out;
  for (const LeaseId lease : leases) {
    const auto it = held.find(lease);
    out.push_back(it == held.end() ? RenewedLease{lease} : RenewedLease{lease, true, it->second});
  }
  return out;
}

#undef MILLRACE_POSTGRES_LEASE

}  // namespace millrace::broker
