// Transactions, jobs and queues. What is sent of them is in postgres_changes.cpp. Leases and the
// operations on sets are in postgres_leases.cpp, counts and batches in postgres_batches.cpp,
// streams in postgres_streams.cpp.
#include "broker/ledger/postgres_records.hpp"

#include <algorithm>

#include "broker/ledger/body_checksum.hpp"
#include "broker/ledger/postgres_job_columns.hpp"

namespace millrace::broker {

void PostgresRecords::begin(std::string epoch, bool writes) {
  epoch_ = std::move(epoch);
  writes_ = writes;
  lease_numbers_are_new_ = false;
}

void PostgresRecords::forget() {
  owned_.clear();
  kept_.clear();
  kept_leases_.clear();
  batches_.clear();
  pauses_.clear();
  changed_jobs_.clear();
  deleted_jobs_.clear();
  new_bodies_ = {};
  deleted_bodies_of_.clear();
  deleted_bodies_.clear();
  queue_.clear();
  new_leases_ = {};
  deleted_leases_.clear();
  counts_.clear();
  ready_.clear();
  streams_.clear();
  new_entries_ = {};
}

void PostgresRecords::roll_back() {
  forget();
  if (lease_numbers_are_new_) lease_numbers_.clear();
}

void PostgresRecords::note_corruption(const std::string& what) {
  connection_.note_failure({Code::ledger_corrupt, connection_.place() + ": " + what,
                            "restore the database from a backup"});
}

// ---- locks

// Transactions that lock the same rows in the same order wait for each other and do not deadlock.
void PostgresRecords::lock(const std::set<std::string>& tenants) {
  TextColumn names;
  for (const std::string& tenant : tenants) names.add(tenant);
  connection_.send(
      "INSERT INTO @.tenants SELECT u.tenant FROM unnest($1::bytea[]) u(tenant) ORDER BY 1 "
      "ON CONFLICT DO NOTHING",
      names);
  connection_.send("SELECT tenant FROM @.tenants WHERE tenant = ANY($1) ORDER BY tenant FOR UPDATE",
                   names);
  owned_.insert(tenants.begin(), tenants.end());
}

// ---- jobs

std::optional<JobRecord> PostgresRecords::read_job(const PostgresRows& rows, int row, int column) {
  const auto text = [&](int at) { return rows.text(row, column + at); };
  const auto integer = [&](int at) { return rows.integer(row, column + at); };
  const auto number = [&](int at) { return rows.number(row, column + at); };
  const auto optional = [&](int at) { return rows.optional_integer(row, column + at); };
  JobRecord out;
  out.tenant = text(0);
  out.job = text(1);
  const std::int64_t state = integer(17);
  if (state < 0 || state > static_cast<std::int64_t>(JobState::expired)) {
    note_corruption("job '" + out.job + "' has the state " + std::to_string(state) +
                    ", which does not exist");
    return std::nullopt;
  }
  out.hash = text(2);
  out.hash_version = static_cast<int>(integer(3));
  out.custom_id = text(4);
  out.model = text(5);
  out.stream = text(6);
  out.batch = text(7);
  out.kv = text(8);
  out.labels = text(9);
  out.priority = static_cast<std::uint32_t>(integer(10));
  out.max_attempts = static_cast<std::uint32_t>(integer(11));
  out.cost_tokens = number(12);
  out.prefix = number(13);
  out.deadline_us = optional(14);
  out.sequence = number(15);
  out.submitted_us = integer(16);
  out.state = static_cast<JobState>(state);
  out.attempts = static_cast<std::uint32_t>(integer(18));
  out.failures = static_cast<std::uint32_t>(integer(19));
  if (const auto since_us = optional(20)) {
    out.suspicion = {*since_us, number(21), static_cast<std::uint32_t>(integer(22))};
  }
  out.cancel_requested = integer(23) != 0;
  out.number = number(24);
  out.lease = static_cast<LeaseId>(optional(25).value_or(0));
  out.ended_us = optional(26);
  out.start_us = optional(27);
  if (const std::string code = text(28); !code.empty()) {
    out.error = Error{code_from_name(code).value_or(Code::internal), text(29), text(30)};
  }
  return out;
}

void PostgresRecords::expect_jobs(const std::string& tenant, std::span<const std::string> jobs) {
  ExpectedRecords expected;
  for (const std::string& job : jobs) expected.jobs.emplace(tenant, job);
  expect(expected);
}

std::optional<JobRecord> PostgresRecords::find_job(const std::string& tenant,
                                                   const std::string& job) {
  auto it = kept_.find({tenant, job});
  if (it == kept_.end()) {
    expect_jobs(tenant, std::span(&job, 1));
    it = kept_.find({tenant, job});
  }
  return status() ? it->second.record : std::nullopt;
}

void PostgresRecords::insert_job(JobRecord& job, const Body& body) {
  own(job.tenant);
  job.sequence = next_sequences(1).front();
  kept_[{job.tenant, job.job}] = {job, true, true};
  changed_jobs_.insert({job.tenant, job.job});
  insert_body(job, body);
}

void PostgresRecords::update_job(const JobRecord& job) {
  own(job.tenant);
  KeptJob& kept = kept_[{job.tenant, job.job}];
  kept.record = job;
  kept.changed = true;
  changed_jobs_.insert({job.tenant, job.job});
}

void PostgresRecords::delete_job(const JobRecord& job) {
  delete_body(job);
  const Key key(job.tenant, job.job);
  KeptJob& kept = kept_[key];
  // A row of the same id may be there or be deleted already; deleting none does no harm.
  deleted_jobs_.insert(key);
  changed_jobs_.erase(key);
  kept = {};
}

std::vector<std::uint64_t> PostgresRecords::next_sequences(std::size_t jobs) {
  std::vector<std::uint64_t> out(std::max<std::size_t>(jobs, 1));
  if (jobs == 0) return out;
  const auto rows = connection_.ask("SELECT nextval('@.job_sequence') FROM generate_series(1, $1)",
                                    std::uint64_t{jobs});
  for (int row = 0; row < rows.size(); ++row) {
    out[static_cast<std::size_t>(row)] = rows.number(row, 0);
  }
  return out;
}

void PostgresRecords::insert_body(const JobRecord& job, const Body& body) {
  new_bodies_.tenants.add(job.tenant);
  new_bodies_.sequences.add(job.sequence);
  new_bodies_.checksums.add(checksum(body, job.sequence));
  new_bodies_.bodies.add(body);
}

std::optional<Body> PostgresRecords::find_body(const JobRecord& job) {
  own(job.tenant);
  flush_bodies();
  const auto rows =
      connection_.ask("SELECT checksum, body FROM @.job_bodies WHERE tenant = $1 AND sequence = $2",
                      job.tenant, job.sequence);
  if (rows.size() == 0) return std::nullopt;
  const std::string_view body = rows.bytes(0, 1);
  if (checksum(body, job.sequence) != rows.integer(0, 0)) return std::nullopt;
  return Body(body);
}

void PostgresRecords::delete_body(const JobRecord& job) {
  own(job.tenant);
  deleted_bodies_of_.add(job.tenant);
  deleted_bodies_.add(job.sequence);
}

std::vector<std::string> PostgresRecords::names(const PostgresRows& rows) {
  std::vector<std::string> out;
  for (int row = 0; row < rows.size(); ++row) out.push_back(rows.text(row, 0));
  return out;
}

std::vector<JobName> PostgresRecords::ended_jobs(std::int64_t until_us, std::uint64_t max_jobs) {
  flush_jobs();
  const auto rows = connection_.ask(
      "SELECT tenant, job FROM @.jobs WHERE ended_us IS NOT NULL AND ended_us <= $1 "
      "ORDER BY ended_us, tenant, job LIMIT $2",
      until_us, max_jobs);
  std::vector<JobName> out;
  for (int row = 0; row < rows.size(); ++row) out.push_back({rows.text(row, 0), rows.text(row, 1)});
  return out;
}

std::vector<std::string> PostgresRecords::due_jobs(const std::string& tenant, std::int64_t until_us,
                                                   std::uint64_t max_jobs) {
  own(tenant);
  flush_jobs();
  return names(connection_.ask(
      "SELECT job FROM @.jobs WHERE tenant = $1 AND deadline_us <= $2 AND deadline_us IS NOT NULL "
      "AND state < 2 ORDER BY deadline_us, sequence LIMIT $3",
      tenant, until_us, max_jobs));
}

std::vector<std::string> PostgresRecords::starting_jobs(const std::string& tenant,
                                                        std::int64_t until_us,
                                                        std::uint64_t max_jobs) {
  own(tenant);
  flush_jobs();
  return names(connection_.ask(
      "SELECT job FROM @.jobs WHERE tenant = $1 AND start_us <= $2 AND start_us IS NOT NULL "
      "ORDER BY start_us, sequence LIMIT $3",
      tenant, until_us, max_jobs));
}

std::vector<BatchJob> PostgresRecords::jobs_of_batch(const BatchScan& scan) {
  own(scan.tenant);
  flush_jobs();
  const auto rows = connection_.ask(
      "SELECT sequence, job FROM @.jobs WHERE tenant = $1 AND batch = $2 AND batch <> '' AND "
      "state = $3 AND sequence > $4 AND NOT ($6 <> 0 AND state = 1 AND cancel <> 0) "
      "ORDER BY sequence LIMIT $5",
      scan.tenant, scan.batch, static_cast<int>(scan.state), scan.after, scan.max_jobs,
      scan.uncancelled ? 1 : 0);
  std::vector<BatchJob> out;
  for (int row = 0; row < rows.size(); ++row)
    out.push_back({rows.number(row, 0), rows.text(row, 1)});
  return out;
}

std::vector<JobRecord> PostgresRecords::list_jobs(const std::string& tenant, bool failed,
                                                  const std::string& after,
                                                  std::uint64_t max_jobs) {
  own(tenant);
  flush_jobs();
  constexpr const char* all = "SELECT " MILLRACE_POSTGRES_JOB
                              " FROM @.jobs j WHERE j.tenant = $1 AND j.job > $2 "
                              "ORDER BY j.job LIMIT $3";
  constexpr const char* only_failed = "SELECT " MILLRACE_POSTGRES_JOB
                                      " FROM @.jobs j WHERE j.tenant = $1 AND j.job > $2 AND "
                                      "j.state = 3 ORDER BY j.job LIMIT $3";
  const auto rows = connection_.ask(failed ? only_failed : all, tenant, after, max_jobs);
  std::vector<JobRecord> out;
  for (int row = 0; row < rows.size(); ++row) {
    auto job = read_job(rows, row, 0);
    if (!job) break;
    out.push_back(*std::move(job));
  }
  return out;
}

std::vector<JobName> PostgresRecords::jobs_of_incident(std::uint64_t incident) {
  flush_jobs();
  const auto rows = connection_.ask(
      "SELECT tenant, job FROM @.jobs WHERE incident = $1 AND incident <> 0 ORDER BY sequence",
      incident);
  std::vector<JobName> out;
  for (int row = 0; row < rows.size(); ++row) out.push_back({rows.text(row, 0), rows.text(row, 1)});
  return out;
}

// ---- queues

PostgresRecords::QueuePlace PostgresRecords::place_of(const JobRecord& job) {
  return {job.tenant, job.among(), job.model, job.kv, job.priority, job.sequence};
}

void PostgresRecords::enqueue(const JobRecord& job) {
  own(job.tenant);
  queue_[place_of(job)] =
      QueuedJob{{job.priority, job.sequence}, job.job, job.deadline_us, job.prefix};
}

void PostgresRecords::dequeue(const JobRecord& job) {
  own(job.tenant);
  queue_[place_of(job)] = std::nullopt;
}

std::vector<QueuedJob> PostgresRecords::queued_jobs(const QueueKey& queue,
                                                    std::optional<Place> after,
                                                    std::size_t max_jobs) {
  own(queue.tenant);
  flush_queue();
  const std::int64_t priority = after ? std::int64_t{after->first} : -1;
  const std::uint64_t sequence = after ? after->second : 0;
  const auto rows = connection_.ask(
      "SELECT priority, sequence, job, deadline_us, prefix FROM @.queue WHERE tenant = $1 AND "
      "suspect = $2 AND model = $3 AND kv = $4 AND (priority, sequence) > ($5, $6) "
      "ORDER BY priority, sequence LIMIT $7",
      queue.tenant, queue.among, queue.model, queue.kv, priority, sequence,
      std::uint64_t{max_jobs});
  std::vector<QueuedJob> out;
  for (int row = 0; row < rows.size(); ++row) {
    out.push_back({{static_cast<std::uint32_t>(rows.integer(row, 0)), rows.number(row, 1)},
                   rows.text(row, 2),
                   rows.optional_integer(row, 3),
                   rows.number(row, 4)});
  }
  return out;
}

}  // namespace millrace::broker
