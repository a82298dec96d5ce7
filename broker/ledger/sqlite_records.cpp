#include "broker/ledger/sqlite_records.hpp"

#include "schemas/base/hash.hpp"

namespace millrace::broker {
namespace {

std::int64_t checksum(std::string_view body, std::uint64_t place) {
  return static_cast<std::int64_t>(hash64(body, place));
}

std::optional<std::int64_t> optional_integer(const Statement& row, int column) {
  if (row.null(column)) return std::nullopt;
  return row.integer(column);
}

}  // namespace

Records::Records(Database& database, const Publish& publish)
    : publish_(publish),
      database_(database),
      select_meta_(database, "SELECT value FROM meta WHERE name = ?1"),
      select_counter_(database, "SELECT value FROM counters WHERE name = ?1"),
      update_counter_(database, "UPDATE counters SET value = ?2 WHERE name = ?1"),
      select_job_(
          database,
          "SELECT hash, hash_version, custom_id, model, stream, batch, priority, "
          "max_attempts, deadline_us, sequence, submitted_us, state, attempts, failures, "
          "suspect_us, cancel, number, lease, kv, labels FROM jobs WHERE tenant = ?1 AND job = ?2"),
      insert_job_(database,
                  "INSERT INTO jobs (tenant, job, hash, hash_version, custom_id, model, stream, "
                  "batch, priority, max_attempts, deadline_us, sequence, submitted_us, state, kv, "
                  "labels) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14, "
                  "?15)"),
      update_job_(database,
                  "UPDATE jobs SET state = ?3, attempts = ?4, failures = ?5, suspect_us = ?6, "
                  "cancel = ?7, number = ?8, lease = ?9 WHERE tenant = ?1 AND job = ?2"),
      insert_body_(database,
                   "INSERT INTO job_bodies (tenant, sequence, checksum, body) "
                   "VALUES (?1, ?2, ?3, ?4)"),
      select_body_(database,
                   "SELECT checksum, body FROM job_bodies WHERE tenant = ?1 AND sequence = ?2"),
      delete_body_(database, "DELETE FROM job_bodies WHERE tenant = ?1 AND sequence = ?2"),
      insert_queue_(database, "INSERT INTO queue VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"),
      delete_queue_(database,
                    "DELETE FROM queue WHERE tenant = ?1 AND suspect = ?2 AND model = ?3 AND "
                    "kv = ?4 AND priority = ?5 AND sequence = ?6"),
      select_lease_(database,
                    "SELECT tenant, job, engine, until_us, alone FROM leases WHERE lease = ?1"),
      insert_lease_(database, "INSERT INTO leases VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      delete_lease_(database, "DELETE FROM leases WHERE lease = ?1"),
      count_leases_(database, "SELECT count(*) FROM leases WHERE engine = ?1"),
      add_count_(database,
                 "INSERT INTO job_counts VALUES (?1, ?2, ?3, ?4) "
                 "ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs"),
      select_count_(database,
                    "SELECT jobs FROM job_counts WHERE tenant = ?1 AND batch = '' AND state = 0"),
      next_number_(database,
                   "INSERT INTO streams VALUES (?1, ?2, 1, 1) "
                   "ON CONFLICT DO UPDATE SET high = high + 1 RETURNING high"),
      insert_entry_(database,
                    "INSERT INTO entries (tenant, stream, number, job, checksum, body) "
                    "VALUES (?1, ?2, ?3, ?4, ?5, ?6)") {}

void Records::load() {
  count_changes_.clear();
  queued_.clear();
  counters_changed_ = false;
  if (select_meta_.run("epoch")) epoch_ = select_meta_.text(0);
  if (select_counter_.run("next_sequence")) next_sequence_ = select_counter_.integer(0);
  if (select_counter_.run("next_lease")) next_lease_ = select_counter_.integer(0);
  database_.reset_statements();
}

void Records::flush() {
  for (const auto& [key, changes] : count_changes_) {
    for (std::size_t state = 0; state < changes.size(); ++state) {
      if (changes[state] != 0) add_count_.run(key.first, key.second, state, changes[state]);
    }
  }
  count_changes_.clear();
  if (!counters_changed_) return;
  update_counter_.run("next_sequence", next_sequence_);
  update_counter_.run("next_lease", next_lease_);
  counters_changed_ = false;
}

std::optional<JobRow> Records::find_job(const std::string& tenant, const std::string& job) {
  Statement& s = select_job_;
  if (!s.run(tenant, job)) return std::nullopt;
  JobRow row;
  row.tenant = tenant;
  row.job = job;
  row.hash = s.text(0);
  row.hash_version = static_cast<int>(s.integer(1));
  row.custom_id = s.text(2);
  row.model = s.text(3);
  row.stream = s.text(4);
  row.batch = s.text(5);
  row.priority = static_cast<std::uint32_t>(s.integer(6));
  row.max_attempts = static_cast<std::uint32_t>(s.integer(7));
  row.deadline_us = optional_integer(s, 8);
  row.sequence = static_cast<std::uint64_t>(s.integer(9));
  row.submitted_us = s.integer(10);
  const std::int64_t state = s.integer(11);
  if (state < 0 || state > static_cast<std::int64_t>(JobState::expired)) {
    database_.note_failure({Code::ledger_corrupt,
                            "ledger " + database_.path() + ": job '" + job + "' has the state " +
                                std::to_string(state) + ", which does not exist",
                            "restore the ledger from a backup"});
    return std::nullopt;
  }
  row.state = static_cast<JobState>(state);
  row.attempts = static_cast<std::uint32_t>(s.integer(12));
  row.failures = static_cast<std::uint32_t>(s.integer(13));
  row.suspect_us = optional_integer(s, 14);
  row.cancel_requested = s.integer(15) != 0;
  row.number = static_cast<std::uint64_t>(s.integer(16));
  row.lease = static_cast<LeaseId>(s.integer(17));
  row.kv = s.text(18);
  row.labels = Body(s.bytes(19));
  return row;
}

std::optional<JobRow> Records::known_job(const std::string& tenant, const std::string& job) {
  auto row = find_job(tenant, job);
  if (!row) {
    database_.note_failure(
        {Code::ledger_corrupt,
         "ledger " + database_.path() + ": job '" + job + "' is queued or leased but has no record",
         "restore the ledger from a backup"});
  }
  return row;
}

std::optional<LeaseRow> Records::find_lease(LeaseId lease) {
  if (!select_lease_.run(lease)) return std::nullopt;
  return LeaseRow{lease,
                  select_lease_.text(0),
                  select_lease_.text(1),
                  select_lease_.text(2),
                  select_lease_.integer(3),
                  select_lease_.integer(4) != 0};
}

std::uint64_t Records::leases_of(const std::string& engine) {
  return count_leases_.run(engine) ? static_cast<std::uint64_t>(count_leases_.integer(0)) : 0;
}

std::uint64_t Records::queued_of(const std::string& tenant) {
  auto it = queued_.find(tenant);
  if (it == queued_.end()) {
    // Adds the changes that are not written yet; `count` keeps the sum current from now on.
    std::int64_t queued = select_count_.run(tenant) ? select_count_.integer(0) : 0;
    if (const auto pending = count_changes_.find({tenant, ""}); pending != count_changes_.end()) {
      queued += pending->second[0];
    }
    it = queued_.emplace(tenant, queued).first;
  }
  return static_cast<std::uint64_t>(it->second);
}

void Records::count(const JobRow& row, JobState state, std::int64_t change) {
  const auto index = static_cast<std::size_t>(state);
  count_changes_[{row.tenant, ""}][index] += change;
  if (!row.batch.empty()) count_changes_[{row.tenant, row.batch}][index] += change;
  if (state != JobState::queued) return;
  if (const auto it = queued_.find(row.tenant); it != queued_.end()) it->second += change;
}

void Records::enqueue(const JobRow& row) {
  insert_queue_.run(row.tenant, row.suspect_us.has_value(), row.model, row.kv, row.priority,
                    row.sequence, row.job, row.deadline_us);
}
void Records::dequeue(const JobRow& row) {
  delete_queue_.run(row.tenant, row.suspect_us.has_value(), row.model, row.kv, row.priority,
                    row.sequence);
}

void Records::update(const JobRow& row) {
  const auto lease =
      row.lease == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(row.lease));
  update_job_.run(row.tenant, row.job, static_cast<int>(row.state), row.attempts, row.failures,
                  row.suspect_us, row.cancel_requested, row.number, lease);
}

void Records::insert(const SubmitJob& op, std::int64_t now_us) {
  JobRow row;
  row.tenant = op.tenant;
  row.job = op.id;
  row.model = op.model;
  row.batch = op.batch;
  row.kv = op.kv;
  row.priority = op.priority;
  row.deadline_us = op.deadline_us;
  row.sequence = static_cast<std::uint64_t>(next_sequence_++);
  counters_changed_ = true;
  insert_job_.run(op.tenant, op.id, op.hash, op.hash_version, op.custom_id, op.model, op.stream,
                  op.batch, op.priority, op.max_attempts, op.deadline_us, row.sequence, now_us,
                  op.kv, Blob{op.labels});
  insert_body_.run(op.tenant, row.sequence, checksum(op.body, row.sequence), Blob{op.body});
  enqueue(row);
  count(row, JobState::queued, 1);
}

std::optional<Body> Records::body_of(const JobRow& row) {
  if (!select_body_.run(row.tenant, row.sequence)) return std::nullopt;
  const std::string_view body = select_body_.bytes(1);
  if (checksum(body, row.sequence) != select_body_.integer(0)) return std::nullopt;
  return Body(body);
}

LeaseId Records::hand_out(JobRow& row, const std::string& engine, std::int64_t until_us,
                          bool alone) {
  dequeue(row);
  count(row, row.state, -1);
  row.state = JobState::leased;
  count(row, row.state, 1);
  row.lease = static_cast<LeaseId>(next_lease_++);
  counters_changed_ = true;
  ++row.attempts;
  insert_lease_.run(row.lease, row.tenant, row.job, engine, until_us, alone);
  update(row);
  return row.lease;
}

void Records::put_back(JobRow& row) {
  if (row.lease != 0) delete_lease_.run(row.lease);
  count(row, row.state, -1);
  row.state = JobState::queued;
  count(row, row.state, 1);
  row.lease = 0;
  update(row);
  enqueue(row);
}

void Records::mark_cancelled(JobRow& row) {
  row.cancel_requested = true;
  update(row);
}

FinishReply Records::end(JobRow& row, const Outcome& outcome) {
  const EndingJob ending{row.job,    row.custom_id, row.model,    row.batch,
                         row.labels, row.attempts,  row.failures, row.submitted_us};
  const Published published = publish_(ending, outcome);
  if (row.state == JobState::queued) dequeue(row);
  if (row.lease != 0) delete_lease_.run(row.lease);
  count(row, row.state, -1);
  row.state = published.state;
  count(row, row.state, 1);
  row.lease = 0;
  FinishReply reply = append(row.tenant, row.stream, row.job, published.body, row.state);
  row.number = reply.number;
  update(row);
  // Only a failed job can run again.
  if (row.state != JobState::failed) delete_body_.run(row.tenant, row.sequence);
  return reply;
}

FinishReply Records::append(const std::string& tenant, const std::string& stream,
                            const std::string& job, const Body& body, JobState state) {
  std::uint64_t number = 0;
  if (next_number_.run(tenant, stream)) {
    number = static_cast<std::uint64_t>(next_number_.integer(0));
    next_number_.next();  // the change is complete when a RETURNING statement has ended
  }
  insert_entry_.run(tenant, stream, number, job, checksum(body, number), Blob{body});
  return {number, tenant, stream, job, epoch_, state};
}

}  // namespace millrace::broker
