// The statements that send what has gathered: each carries the rows of one table as arrays.
#include <utility>

#include "broker/ledger/postgres_records.hpp"

namespace millrace::broker {
namespace {

// The columns of jobs that are stored, or of those that change.
class JobRows {
 public:
  void add(const JobRecord& job) {
    tenant_.add(job.tenant);
    job_.add(job.job);
    hash_.add(job.hash);
    hash_version_.add(std::int64_t{job.hash_version});
    custom_id_.add(job.custom_id);
    model_.add(job.model);
    stream_.add(job.stream);
    batch_.add(job.batch);
    kv_.add(job.kv);
    labels_.add(job.labels);
    priority_.add(std::int64_t{job.priority});
    max_attempts_.add(std::int64_t{job.max_attempts});
    cost_tokens_.add(job.cost_tokens);
    prefix_.add(job.prefix);
    deadline_us_.add(job.deadline_us);
    sequence_.add(job.sequence);
    submitted_us_.add(job.submitted_us);
    add_changing(job);
  }
  void add_change(const JobRecord& job) {
    tenant_.add(job.tenant);
    job_.add(job.job);
    add_changing(job);
  }
  std::uint32_t rows() const { return tenant_.rows(); }

  void insert(PostgresConnection& connection) const {
    connection.send(
        "INSERT INTO @.jobs SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], "
        "$4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], "
        "$10::bytea[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], "
        "$16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], "
        "$21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], "
        "$26::bigint[], $27::bigint[], $28::bigint[], $29::bytea[], $30::bytea[], $31::bytea[])",
        tenant_, job_, hash_, hash_version_, custom_id_, model_, stream_, batch_, kv_, labels_,
        priority_, max_attempts_, cost_tokens_, prefix_, deadline_us_, sequence_, submitted_us_,
        state_, attempts_, failures_, suspect_us_, incident_, among_, cancel_, number_, lease_,
        ended_us_, start_us_, error_code_, error_message_, error_hint_);
  }
  void update(PostgresConnection& connection) const {
    connection.send(
        "UPDATE @.jobs j SET state = u.state, attempts = u.attempts, failures = u.failures, "
        "suspect_us = u.suspect_us, incident = u.incident, among = u.among, cancel = u.cancel, "
        "number = u.number, lease = u.lease, ended_us = u.ended_us, start_us = u.start_us, "
        "error_code = u.error_code, error_message = u.error_message, error_hint = u.error_hint "
        "FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], "
        "$6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], "
        "$12::bigint[], $13::bigint[], $14::bytea[], $15::bytea[], $16::bytea[]) "
        "u(tenant, job, state, attempts, failures, suspect_us, incident, among, cancel, number, "
        "lease, ended_us, start_us, error_code, error_message, error_hint) "
        "WHERE j.tenant = u.tenant AND j.job = u.job",
        tenant_, job_, state_, attempts_, failures_, suspect_us_, incident_, among_, cancel_,
        number_, lease_, ended_us_, start_us_, error_code_, error_message_, error_hint_);
  }

 private:
  void add_changing(const JobRecord& job) {
    const auto lease =
        job.lease == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(job.lease));
    const Suspicion suspicion = job.suspicion.value_or(Suspicion{0, 0, 0});
    state_.add(static_cast<std::int64_t>(job.state));
    attempts_.add(std::int64_t{job.attempts});
    failures_.add(std::int64_t{job.failures});
    suspect_us_.add(job.suspicion ? std::optional(suspicion.since_us) : std::nullopt);
    incident_.add(suspicion.incident);
    among_.add(std::int64_t{suspicion.among});
    cancel_.add(std::int64_t{job.cancel_requested ? 1 : 0});
    number_.add(job.number);
    lease_.add(lease);
    ended_us_.add(job.ended_us);
    start_us_.add(job.start_us);
    error_code_.add(job.error ? code_name(job.error->code) : std::string_view());
    error_message_.add(job.error ? job.error->message : std::string());
    error_hint_.add(job.error ? job.error->hint : std::string());
  }

  TextColumn tenant_, job_, hash_, custom_id_, model_, stream_, batch_, kv_, labels_;
  TextColumn error_code_, error_message_, error_hint_;
  IntegerColumn hash_version_, priority_, max_attempts_, cost_tokens_, prefix_, deadline_us_;
  IntegerColumn sequence_, submitted_us_, state_, attempts_, failures_, suspect_us_, incident_;
  IntegerColumn among_, cancel_, number_, lease_, ended_us_, start_us_;
};

}  // namespace

void PostgresRecords::flush() {
  flush_jobs();
  flush_bodies();
  flush_queue();
  flush_leases();
  flush_counts();
  flush_streams();
  flush_entries();
}

void PostgresRecords::flush_jobs() {
  if (!deleted_jobs_.empty()) {
    TextColumn tenants, jobs;
    for (const auto& [tenant, job] : std::exchange(deleted_jobs_, {})) {
      tenants.add(tenant);
      jobs.add(job);
    }
    connection_.send(
        "DELETE FROM @.jobs j USING unnest($1::bytea[], $2::bytea[]) u(tenant, job) "
        "WHERE j.tenant = u.tenant AND j.job = u.job",
        tenants, jobs);
  }
  JobRows stored, changed;
  for (const Key& key : std::exchange(changed_jobs_, {})) {
    KeptJob& kept = kept_[key];
    if (!kept.record) continue;
    if (kept.fresh) {
      stored.add(*kept.record);
    } else {
      changed.add_change(*kept.record);
    }
    kept.fresh = kept.changed = false;
  }
  if (stored.rows() > 0) stored.insert(connection_);
  if (changed.rows() > 0) changed.update(connection_);
}

void PostgresRecords::flush_bodies() {
  if (new_bodies_.tenants.rows() > 0) {
    connection_.send(
        "INSERT INTO @.job_bodies (tenant, sequence, checksum, body) SELECT * FROM "
        "unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[])",
        new_bodies_.tenants, new_bodies_.sequences, new_bodies_.checksums, new_bodies_.bodies);
    new_bodies_ = {};
  }
  if (deleted_bodies_.rows() == 0) return;
  connection_.send(
      "DELETE FROM @.job_bodies b USING unnest($1::bytea[], $2::bigint[]) u(tenant, sequence) "
      "WHERE b.tenant = u.tenant AND b.sequence = u.sequence",
      deleted_bodies_of_, deleted_bodies_);
  deleted_bodies_of_.clear();
  deleted_bodies_.clear();
}

void PostgresRecords::flush_queue() {
  struct Rows {
    TextColumn tenants, models, kvs, jobs;
    IntegerColumn suspects, priorities, sequences, deadlines, prefixes;
  } here, gone;
  for (const auto& [place, job] : std::exchange(queue_, {})) {
    Rows& rows = job ? here : gone;
    rows.tenants.add(std::get<0>(place));
    rows.suspects.add(std::int64_t{std::get<1>(place)});
    rows.models.add(std::get<2>(place));
    rows.kvs.add(std::get<3>(place));
    rows.priorities.add(std::int64_t{std::get<4>(place)});
    rows.sequences.add(std::get<5>(place));
    if (!job) continue;
    rows.jobs.add(job->job);
    rows.deadlines.add(job->deadline_us);
    rows.prefixes.add(job->prefix);
  }
  if (gone.tenants.rows() > 0) {
    connection_.send(
        "DELETE FROM @.queue q USING unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[], "
        "$5::bigint[], $6::bigint[]) u(tenant, suspect, model, kv, priority, sequence) WHERE "
        "q.tenant = u.tenant AND q.suspect = u.suspect AND q.model = u.model AND q.kv = u.kv AND "
        "q.priority = u.priority AND q.sequence = u.sequence",
        gone.tenants, gone.suspects, gone.models, gone.kvs, gone.priorities, gone.sequences);
  }
  if (here.tenants.rows() == 0) return;
  connection_.send(
      "INSERT INTO @.queue SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[], "
      "$4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[], $8::bigint[], $9::bigint[]) "
      "ON CONFLICT DO NOTHING",  // one that left its place and came back
      here.tenants, here.suspects, here.models, here.kvs, here.priorities, here.sequences,
      here.jobs, here.deadlines, here.prefixes);
}

void PostgresRecords::flush_leases() {
  if (new_leases_.leases.rows() > 0) {
    connection_.send(
        "INSERT INTO @.leases (lease, tenant, job, engine, until_us, alone, broker) SELECT u.*, $7 "
        "FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], "
        "$6::bigint[]) u",
        new_leases_.leases, new_leases_.tenants, new_leases_.jobs, new_leases_.engines,
        new_leases_.until, new_leases_.alone, broker_);
    new_leases_ = {};
  }
  if (deleted_leases_.rows() == 0) return;
  connection_.send("DELETE FROM @.leases WHERE lease = ANY($1)", deleted_leases_);
  deleted_leases_.clear();
}

void PostgresRecords::flush_counts() {
  if (!counts_.empty()) {
    TextColumn tenants, batches;
    IntegerColumn states, changes;
    for (const auto& [key, change] : std::exchange(counts_, {})) {
      tenants.add(std::get<0>(key));
      batches.add(std::get<1>(key));
      states.add(std::int64_t{std::get<2>(key)});
      changes.add(change);
    }
    connection_.send(
        "INSERT INTO @.job_counts AS c SELECT * FROM unnest($1::bytea[], $2::bytea[], "
        "$3::bigint[], $4::bigint[]) ON CONFLICT (tenant, batch, state) DO UPDATE SET "
        "jobs = c.jobs + excluded.jobs",
        tenants, batches, states, changes);
  }
  if (ready_.empty()) return;
  TextColumn tenants, batches, models, kvs;
  IntegerColumn changes;
  for (const auto& [key, change] : std::exchange(ready_, {})) {
    tenants.add(std::get<0>(key));
    batches.add(std::get<1>(key));
    models.add(std::get<2>(key));
    kvs.add(std::get<3>(key));
    changes.add(change);
  }
  connection_.send(
      "INSERT INTO @.ready_counts AS c SELECT * FROM unnest($1::bytea[], $2::bytea[], "
      "$3::bytea[], $4::bytea[], $5::bigint[]) ON CONFLICT (tenant, batch, model, kv) DO UPDATE "
      "SET jobs = c.jobs + excluded.jobs",
      tenants, batches, models, kvs, changes);
}

void PostgresRecords::flush_streams() {
  struct Rows {
    TextColumn tenants, streams;
    IntegerColumn first, high, oldest, bytes, age_us, max_bytes, cursor_age_us;
  } rows;
  for (auto& [key, kept] : streams_) {
    if (!std::exchange(kept.changed, false)) continue;
    const StreamRecord& r = kept.record;
    rows.tenants.add(key.first);
    rows.streams.add(key.second);
    rows.first.add(r.first);
    rows.high.add(r.high);
    rows.oldest.add(r.oldest);
    rows.bytes.add(r.bytes);
    rows.age_us.add(r.set.age_us);
    rows.max_bytes.add(r.set.bytes ? std::optional(static_cast<std::int64_t>(*r.set.bytes))
                                   : std::nullopt);
    rows.cursor_age_us.add(r.set.cursor_age_us);
  }
  if (rows.tenants.rows() == 0) return;
  connection_.send(
      "INSERT INTO @.streams SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], "
      "$4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[]) "
      "ON CONFLICT (tenant, stream) DO UPDATE SET first = excluded.first, high = excluded.high, "
      "oldest = excluded.oldest, bytes = excluded.bytes, age_us = excluded.age_us, "
      "max_bytes = excluded.max_bytes, cursor_age_us = excluded.cursor_age_us",
      rows.tenants, rows.streams, rows.first, rows.high, rows.oldest, rows.bytes, rows.age_us,
      rows.max_bytes, rows.cursor_age_us);
}

void PostgresRecords::flush_entries() {
  Entries& e = new_entries_;
  if (e.numbers.rows() == 0) return;
  connection_.send(
      "INSERT INTO @.entries (tenant, stream, number, job, checksum, body, written_us) SELECT * "
      "FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[], "
      "$6::bytea[], $7::bigint[])",
      e.tenants, e.streams, e.numbers, e.jobs, e.checksums, e.bodies, e.written);
  new_entries_ = {};
}

}  // namespace millrace::broker
