// The statements, jobs and queues. Counts, suspects and batches are in sqlite_batches.cpp. Leases
// and the operations on sets are in sqlite_leases.cpp, streams in sqlite_streams.cpp.
#include "broker/ledger/sqlite_records.hpp"

#include "broker/ledger/sqlite_checksum.hpp"
#include "broker/ledger/sqlite_schema.hpp"

namespace millrace::broker {
namespace {

#define JOB_COLUMNS                                                                              \
  "j.hash, j.hash_version, j.custom_id, j.model, j.stream, j.batch, j.priority, "                \
  "j.max_attempts, j.deadline_us, j.sequence, j.submitted_us, j.state, j.attempts, "             \
  "j.failures, j.suspect_us, j.cancel, j.number, j.lease, j.kv, j.labels, j.incident, j.among, " \
  "j.ended_us, j.cost_tokens, j.start_us, j.error_code, j.error_message, j.error_hint, j.prefix"
constexpr int job_columns = 29;
#define JOB_INSERT                                                                       \
  "INSERT INTO jobs (tenant, job, hash, hash_version, custom_id, model, stream, batch, " \
  "priority, max_attempts, deadline_us, sequence, submitted_us, state, kv, labels, "     \
  "cost_tokens, start_us, prefix) VALUES "                                               \
  "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14, ?15, ?16, ?17, ?18)"
#define LEASE_COLUMNS "l.lease, l.tenant, l.job, l.engine, l.until_us, l.alone"
// read_stream in sqlite_streams.cpp reads these.
#define STREAM_COLUMNS "s.first, s.high, s.oldest, s.bytes, s.age_us, s.max_bytes, s.cursor_age_us"

}  // namespace

SqliteRecords::SqliteRecords(Database& database)
    : database_(database),
      select_meta_(database, "SELECT value FROM meta WHERE name = ?1"),
      select_counter_(database, "SELECT value FROM counters WHERE name = ?1"),
      update_counter_(database, "UPDATE counters SET value = ?2 WHERE name = ?1"),
      select_job_(database,
                  "SELECT " JOB_COLUMNS " FROM jobs j WHERE j.tenant = ?1 AND j.job = ?2"),
      insert_job_(database, JOB_INSERT),
      insert_new_job_(database, JOB_INSERT " ON CONFLICT DO NOTHING"),
      update_job_(database,
                  "UPDATE jobs SET state = ?3, attempts = ?4, failures = ?5, suspect_us = ?6, "
                  "cancel = ?7, number = ?8, lease = ?9, incident = ?10, among = ?11, "
                  "ended_us = ?12, start_us = ?13, error_code = ?14, error_message = ?15, "
                  "error_hint = ?16 WHERE tenant = ?1 AND job = ?2"),
      insert_body_(database,
                   "INSERT INTO job_bodies (tenant, sequence, checksum, body) "
                   "VALUES (?1, ?2, ?3, ?4)"),
      select_body_(database,
                   "SELECT checksum, body FROM job_bodies WHERE tenant = ?1 AND sequence = ?2"),
      delete_body_(database, "DELETE FROM job_bodies WHERE tenant = ?1 AND sequence = ?2"),
      select_due_(database,
                  "SELECT job FROM jobs WHERE tenant = ?1 AND deadline_us <= ?2 AND "
                  "deadline_us IS NOT NULL AND state < 2 ORDER BY deadline_us, sequence LIMIT ?3"),
      select_starting_(database,
                       "SELECT job FROM jobs WHERE tenant = ?1 AND start_us <= ?2 AND "
                       "start_us IS NOT NULL ORDER BY start_us, sequence LIMIT ?3"),
      select_batch_(database,
                    "SELECT sequence, job FROM jobs WHERE tenant = ?1 AND batch = ?2 AND "
                    "batch <> '' AND state = ?3 AND sequence > ?4 AND "
                    "NOT (?6 AND state = 1 AND cancel) ORDER BY sequence LIMIT ?5"),
      list_jobs_(database, "SELECT " JOB_COLUMNS
                           ", j.job FROM jobs j WHERE j.tenant = ?1 AND j.job > ?2 "
                           "ORDER BY j.job LIMIT ?3"),
      list_failed_(database, "SELECT " JOB_COLUMNS
                             ", j.job FROM jobs j WHERE j.tenant = ?1 AND j.job > ?2 AND "
                             "j.state = 3 ORDER BY j.job LIMIT ?3"),
      select_ended_(database,
                    "SELECT tenant, job FROM jobs WHERE ended_us IS NOT NULL AND ended_us <= ?1 "
                    "ORDER BY ended_us, tenant, job LIMIT ?2"),
      delete_job_(database, "DELETE FROM jobs WHERE tenant = ?1 AND job = ?2"),
      select_incident_(database,
                       "SELECT tenant, job FROM jobs WHERE incident = ?1 AND incident <> 0 "
                       "ORDER BY sequence"),
      insert_queue_(database, "INSERT INTO queue VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"),
      delete_queue_(database,
                    "DELETE FROM queue WHERE tenant = ?1 AND suspect = ?2 AND model = ?3 AND "
                    "kv = ?4 AND priority = ?5 AND sequence = ?6"),
      select_queue_page_(database,
                         "SELECT priority, sequence, job, deadline_us, prefix FROM queue WHERE "
                         "tenant = ?1 AND suspect = ?2 AND model = ?3 AND kv = ?4 AND "
                         "(priority, sequence) > (?5, ?6) ORDER BY priority, sequence LIMIT ?7"),
      select_suspects_(
          database,
          "SELECT q.model, q.kv, q.suspect < ?2, count(*), min(j.suspect_us), j.batch FROM queue "
          "q CROSS JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job WHERE "
          "q.tenant = ?1 AND q.suspect > 0 GROUP BY 1, 2, 3, 6 ORDER BY 1, 2, 3, 6"),
      select_among_(database,
                    "SELECT suspect FROM queue WHERE tenant = ?1 AND suspect > ?2 "
                    "ORDER BY suspect LIMIT 1"),
      add_ready_(database,
                 "INSERT INTO ready_counts VALUES (?1, ?2, ?3, ?4, ?5) "
                 "ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs RETURNING jobs"),
      delete_ready_(database,
                    "DELETE FROM ready_counts WHERE tenant = ?1 AND batch = ?2 AND model = ?3 AND "
                    "kv = ?4"),
      select_ready_(database,
                    "SELECT model, kv, jobs FROM ready_counts WHERE tenant = ?1 AND batch = ?2 "
                    "ORDER BY model, kv"),
      add_count_(database,
                 "INSERT INTO job_counts VALUES (?1, ?2, ?3, ?4) "
                 "ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs"),
      select_counts_(database,
                     "SELECT state, jobs FROM job_counts WHERE tenant = ?1 AND batch = ?2"),
      select_tenant_(database,
                     "SELECT min(tenant) FROM (SELECT min(tenant) AS tenant FROM job_counts WHERE "
                     "tenant > ?1 UNION ALL SELECT min(tenant) FROM streams WHERE tenant > ?1)"),
      delete_counts_(database, "DELETE FROM job_counts WHERE tenant = ?1 AND batch = ?2"),
      select_batch_record_(
          database,
          "SELECT batch, created_us, closed, finished_us, number, metadata, paused, stream, first "
          "FROM batches WHERE tenant = ?1 AND batch = ?2"),
      put_batch_(database,
                 "INSERT OR REPLACE INTO batches (tenant, batch, created_us, closed, finished_us, "
                 "number, metadata, paused, stream, first) "
                 "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"),
      delete_batch_(database, "DELETE FROM batches WHERE tenant = ?1 AND batch = ?2"),
      list_batches_(
          database,
          "SELECT batch, created_us, closed, finished_us, number, metadata, paused, stream, "
          "first FROM batches WHERE tenant = ?1 AND batch > ?2 ORDER BY batch LIMIT ?3"),
      select_set_aside_(database,
                        "SELECT job FROM jobs WHERE tenant = ?1 AND batch = ?2 AND "
                        "start_us = " MILLRACE_UNTIL_RESUMED " ORDER BY sequence LIMIT ?3"),
      next_set_aside_(database,
                      "SELECT batch FROM jobs WHERE tenant = ?1 AND batch > ?2 AND "
                      "start_us = " MILLRACE_UNTIL_RESUMED " ORDER BY batch LIMIT 1"),
      select_pauses_(database, "SELECT model FROM pauses WHERE tenant = ?1 ORDER BY model"),
      insert_pause_(database, "INSERT OR IGNORE INTO pauses (tenant, model) VALUES (?1, ?2)"),
      delete_pause_(database, "DELETE FROM pauses WHERE tenant = ?1 AND model = ?2"),
      select_lease_(database, "SELECT " LEASE_COLUMNS " FROM leases l WHERE l.lease = ?1"),
      insert_lease_(database, "INSERT INTO leases VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      update_lease_(database, "UPDATE leases SET until_us = ?2 WHERE lease = ?1"),
      delete_lease_(database, "DELETE FROM leases WHERE lease = ?1"),
      count_leases_(database, "SELECT count(*) FROM leases WHERE engine = ?1"),
      select_leases_(database, "SELECT " LEASE_COLUMNS " FROM leases l ORDER BY l.lease"),
      select_leases_until_(database,
                           "SELECT " LEASE_COLUMNS " FROM leases l WHERE l.until_us <= ?1"),
      select_leases_of_engine_(database,
                               "SELECT " LEASE_COLUMNS " FROM leases l WHERE l.engine = ?1"),
      select_leased_(database,
                     "SELECT " LEASE_COLUMNS ", j.job IS NULL, " JOB_COLUMNS
                     " FROM leases l LEFT JOIN jobs j ON j.tenant = l.tenant AND j.job = l.job "
                     "WHERE l.lease = ?1"),
      select_renewed_(database,
                      "SELECT l.engine, l.until_us, l.job, j.cancel FROM leases l LEFT JOIN jobs j "
                      "ON j.tenant = l.tenant AND j.job = l.job WHERE l.lease = ?1"),
      select_claimable_(database, "SELECT b.checksum, b.body, " JOB_COLUMNS
                                  " FROM jobs j LEFT JOIN job_bodies b ON b.tenant = j.tenant AND "
                                  "b.sequence = j.sequence WHERE j.tenant = ?1 AND j.job = ?2"),
      select_stream_(database,
                     "SELECT " STREAM_COLUMNS " FROM streams s WHERE tenant = ?1 AND stream = ?2"),
      insert_stream_(database,
                     "INSERT OR REPLACE INTO streams (first, high, oldest, bytes, age_us, "
                     "max_bytes, cursor_age_us, tenant, stream) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"),
      list_streams_(database,
                    "SELECT " STREAM_COLUMNS
                    ", stream, (SELECT count(*) FROM cursors c WHERE c.tenant = s.tenant AND "
                    "c.stream = s.stream) FROM streams s WHERE tenant = ?1 AND stream > ?2 "
                    "ORDER BY stream LIMIT ?3"),
      next_stream_(database,
                   "SELECT tenant, stream FROM streams WHERE (tenant, stream) > (?1, ?2) "
                   "ORDER BY tenant, stream LIMIT 1"),
      insert_entry_(database,
                    "INSERT INTO entries (tenant, stream, number, job, checksum, body, written_us) "
                    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"),
      select_entries_(database,
                      "SELECT number, job, checksum, body FROM entries WHERE tenant = ?1 AND "
                      "stream = ?2 AND number >= ?3 ORDER BY number LIMIT ?4"),
      select_sizes_(database,
                    "SELECT number, length(body), written_us FROM entries WHERE tenant = ?1 AND "
                    "stream = ?2 AND number >= ?3 ORDER BY number LIMIT ?4"),
      delete_entries_(database,
                      "DELETE FROM entries WHERE tenant = ?1 AND stream = ?2 AND number < ?3"),
      select_cursor_(database,
                     "SELECT number, moved_us FROM cursors WHERE tenant = ?1 AND stream = ?2 AND "
                     "cursor = ?3"),
      set_cursor_(database,
                  "INSERT OR REPLACE INTO cursors (tenant, stream, cursor, number, moved_us) "
                  "VALUES (?1, ?2, ?3, ?4, ?5)"),
      delete_cursor_(database,
                     "DELETE FROM cursors WHERE tenant = ?1 AND stream = ?2 AND cursor = ?3"),
      list_cursors_(database,
                    "SELECT cursor, number, moved_us FROM cursors WHERE tenant = ?1 AND "
                    "stream = ?2 ORDER BY cursor") {}

#undef JOB_COLUMNS
#undef JOB_INSERT
#undef LEASE_COLUMNS
#undef STREAM_COLUMNS

void SqliteRecords::load() {
  streams_.clear();
  counters_changed_ = false;
  if (select_meta_.run("epoch")) epoch_ = select_meta_.text(0);
  if (select_counter_.run("next_sequence")) next_sequence_ = select_counter_.integer(0);
  if (select_counter_.run("next_lease")) next_lease_ = select_counter_.integer(0);
  database_.reset_statements();
}

void SqliteRecords::flush() {
  flush_streams();
  streams_.clear();
  if (!counters_changed_) return;
  update_counter_.run("next_sequence", next_sequence_);
  update_counter_.run("next_lease", next_lease_);
  counters_changed_ = false;
}

void SqliteRecords::note_corruption(const std::string& what) {
  database_.note_failure({Code::ledger_corrupt, "ledger " + database_.path() + ": " + what,
                          "restore the ledger from a backup"});
}

// ---- jobs

// Reads the columns of a job, which begin at `column`.
std::optional<JobRecord> SqliteRecords::read_job(const Statement& row, int column,
                                                 std::string tenant, std::string job) {
  const std::int64_t state = row.integer(column + 11);
  if (state < 0 || state > static_cast<std::int64_t>(JobState::expired)) {
    note_corruption("job '" + job + "' has the state " + std::to_string(state) +
                    ", which does not exist");
    return std::nullopt;
  }
  JobRecord out;
  out.tenant = std::move(tenant);
  out.job = std::move(job);
  out.hash = row.text(column);
  out.hash_version = static_cast<int>(row.integer(column + 1));
  out.custom_id = row.text(column + 2);
  out.model = row.text(column + 3);
  out.stream = row.text(column + 4);
  out.batch = row.text(column + 5);
  out.priority = static_cast<std::uint32_t>(row.integer(column + 6));
  out.max_attempts = static_cast<std::uint32_t>(row.integer(column + 7));
  out.deadline_us = row.optional_integer(column + 8);
  out.sequence = static_cast<std::uint64_t>(row.integer(column + 9));
  out.submitted_us = row.integer(column + 10);
  out.state = static_cast<JobState>(state);
  out.attempts = static_cast<std::uint32_t>(row.integer(column + 12));
  out.failures = static_cast<std::uint32_t>(row.integer(column + 13));
  if (const auto since_us = row.optional_integer(column + 14)) {
    out.suspicion = {*since_us, static_cast<std::uint64_t>(row.integer(column + 20)),
                     static_cast<std::uint32_t>(row.integer(column + 21))};
  }
  out.cancel_requested = row.integer(column + 15) != 0;
  out.number = static_cast<std::uint64_t>(row.integer(column + 16));
  out.lease = static_cast<LeaseId>(row.integer(column + 17));
  out.kv = row.text(column + 18);
  out.labels = Body(row.bytes(column + 19));
  out.ended_us = row.optional_integer(column + 22);
  out.cost_tokens = static_cast<std::uint64_t>(row.integer(column + 23));
  out.start_us = row.optional_integer(column + 24);
  if (const std::string code = row.text(column + 25); !code.empty()) {
    out.error = Error{code_from_name(code).value_or(Code::internal), row.text(column + 26),
                      row.text(column + 27)};
  }
  out.prefix = static_cast<std::uint64_t>(row.integer(column + 28));
  return out;
}

std::optional<JobRecord> SqliteRecords::find_job(const std::string& tenant,
                                                 const std::string& job) {
  if (!select_job_.run(tenant, job)) return std::nullopt;
  return read_job(select_job_, 0, tenant, job);
}

void SqliteRecords::insert_job(JobRecord& job, const Body& body) {
  job.sequence = static_cast<std::uint64_t>(next_sequence_++);
  counters_changed_ = true;
  insert_job_.run(job.tenant, job.job, job.hash, job.hash_version, job.custom_id, job.model,
                  job.stream, job.batch, job.priority, job.max_attempts, job.deadline_us,
                  job.sequence, job.submitted_us, job.kv, Blob{job.labels}, job.cost_tokens,
                  job.start_us, job.prefix);
  insert_body(job, body);
}

void SqliteRecords::insert_body(const JobRecord& job, const Body& body) {
  insert_body_.run(job.tenant, job.sequence, checksum(body, job.sequence), Blob{body});
}

void SqliteRecords::update_job(const JobRecord& job) {
  const auto lease =
      job.lease == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(job.lease));
  const Suspicion suspicion = job.suspicion.value_or(Suspicion{0, 0, 0});
  const auto suspect_us = job.suspicion ? std::optional(suspicion.since_us) : std::nullopt;
  const Error error = job.error.value_or(Error{});
  const std::string code(job.error ? code_name(error.code) : "");
  update_job_.run(job.tenant, job.job, static_cast<int>(job.state), job.attempts, job.failures,
                  suspect_us, job.cancel_requested, job.number, lease, suspicion.incident,
                  suspicion.among, job.ended_us, job.start_us, code, error.message, error.hint);
}

std::optional<Body> SqliteRecords::find_body(const JobRecord& job) {
  if (!select_body_.run(job.tenant, job.sequence)) return std::nullopt;
  return sound_body(select_body_, 0, job.sequence);
}

void SqliteRecords::delete_body(const JobRecord& job) {
  delete_body_.run(job.tenant, job.sequence);
}

void SqliteRecords::delete_job(const JobRecord& job) {
  delete_body(job);
  delete_job_.run(job.tenant, job.job);
}

std::vector<JobName> SqliteRecords::ended_jobs(std::int64_t until_us, std::uint64_t max_jobs) {
  std::vector<JobName> out;
  Statement& s = select_ended_;
  for (bool row = s.run(until_us, max_jobs); row; row = s.next()) {
    out.push_back({s.text(0), s.text(1)});
  }
  return out;
}

std::vector<std::string> SqliteRecords::due_jobs(const std::string& tenant, std::int64_t until_us,
                                                 std::uint64_t max_jobs) {
  std::vector<std::string> out;
  Statement& s = select_due_;
  for (bool row = s.run(tenant, until_us, max_jobs); row; row = s.next()) out.push_back(s.text(0));
  return out;
}

std::vector<std::string> SqliteRecords::starting_jobs(const std::string& tenant,
                                                      std::int64_t until_us,
                                                      std::uint64_t max_jobs) {
  std::vector<std::string> out;
  Statement& s = select_starting_;
  for (bool row = s.run(tenant, until_us, max_jobs); row; row = s.next()) out.push_back(s.text(0));
  return out;
}

std::vector<BatchJob> SqliteRecords::jobs_of_batch(const BatchScan& scan) {
  std::vector<BatchJob> out;
  Statement& s = select_batch_;
  bool row = s.run(scan.tenant, scan.batch, static_cast<int>(scan.state), scan.after, scan.max_jobs,
                   scan.uncancelled);
  for (; row; row = s.next()) {
    out.push_back({static_cast<std::uint64_t>(s.integer(0)), s.text(1)});
  }
  return out;
}

std::vector<JobRecord> SqliteRecords::list_jobs(const std::string& tenant, bool failed,
                                                const std::string& after, std::uint64_t max_jobs) {
  std::vector<JobRecord> out;
  Statement& s = failed ? list_failed_ : list_jobs_;
  for (bool row = s.run(tenant, after, max_jobs); row; row = s.next()) {
    auto job = read_job(s, 0, tenant, s.text(job_columns));
    if (!job) break;
    out.push_back(*std::move(job));
  }
  return out;
}

std::vector<JobName> SqliteRecords::jobs_of_incident(std::uint64_t incident) {
  std::vector<JobName> out;
  Statement& s = select_incident_;
  for (bool row = s.run(incident); row; row = s.next()) out.push_back({s.text(0), s.text(1)});
  return out;
}

// ---- queues

void SqliteRecords::enqueue(const JobRecord& job) {
  insert_queue_.run(job.tenant, job.among(), job.model, job.kv, job.priority, job.sequence, job.job,
                    job.deadline_us, job.prefix);
}
void SqliteRecords::dequeue(const JobRecord& job) {
  delete_queue_.run(job.tenant, job.among(), job.model, job.kv, job.priority, job.sequence);
}

QueuedJob SqliteRecords::read_queued(const Statement& row) {
  const Place place(static_cast<std::uint32_t>(row.integer(0)),
                    static_cast<std::uint64_t>(row.integer(1)));
  return {place, row.text(2), row.optional_integer(3), static_cast<std::uint64_t>(row.integer(4))};
}

std::vector<QueuedJob> SqliteRecords::queued_jobs(const QueueKey& queue, std::optional<Place> after,
                                                  std::size_t max_jobs) {
  std::vector<QueuedJob> out;
  Statement& s = select_queue_page_;
  const std::int64_t priority = after ? std::int64_t{after->first} : -1;
  const std::uint64_t sequence = after ? after->second : 0;
  bool row = s.run(queue.tenant, queue.among, queue.model, queue.kv, priority, sequence, max_jobs);
  for (; row; row = s.next()) out.push_back(read_queued(s));
  return out;
}

}  // namespace millrace::broker
