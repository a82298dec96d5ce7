// Reading together what a transaction will ask for one by one.
#include <algorithm>

#include "broker/ledger/postgres_job_columns.hpp"
#include "broker/ledger/postgres_records.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {
namespace {

struct NameColumns {
  TextColumn tenants, names;
};
NameColumns columns_of_names(const ExpectedRecords::Names& names) {
  NameColumns out;
  for (const auto& [tenant, name] : names) {
    out.tenants.add(tenant);
    out.names.add(name);
  }
  return out;
}

constexpr std::size_t job_questions = 2, batch_questions = 4;

}  // namespace

// ---- the beginning of a transaction

// The leases' tenants are locked with the others. A lease keeps its tenant, so it is looked up
// without a lock.
void PostgresRecords::send_expected(const ExpectedRecords& expected) {
  if (writes_ && expected.every_tenant) {
    connection_.send("SELECT tenant FROM @.tenants ORDER BY tenant FOR UPDATE");
  } else if (writes_) {
    TextColumn tenants;
    IntegerColumn leases;
    for (const std::string& tenant : expected.tenants) tenants.add(tenant);
    for (const LeaseId lease : expected.leases) leases.add(lease);
    connection_.send(
        "SELECT tenant FROM @.tenants WHERE tenant = ANY(ARRAY(SELECT unnest($1::bytea[]) UNION "
        "SELECT l.tenant FROM @.leases l WHERE l.lease = ANY($2))) ORDER BY tenant FOR UPDATE",
        tenants, leases);
  }
  send_questions(expected);
}

void PostgresRecords::take_expected(const ExpectedRecords& expected,
                                    std::vector<PostgresRows> answers) {
  if (!status()) return;
  std::span<const PostgresRows> rest(answers);
  if (writes_) {
    for (int row = 0; row < rest[0].size(); ++row) owned_.insert(rest[0].text(row, 0));
    rest = rest.subspan(1);
    std::set<std::string> fresh;
    std::ranges::set_difference(expected.tenants, owned_, std::inserter(fresh, fresh.end()));
    if (!fresh.empty()) {
      // Tenants without a row: what was read of them was not read under their lock.
      lock(fresh);
      return expect(expected);
    }
  }
  take_answers(expected, rest);
}

// ---- questions and answers

ExpectedRecords PostgresRecords::missing(const ExpectedRecords& expected) const {
  ExpectedRecords out;
  for (const LeaseId lease : expected.leases) {
    if (!kept_leases_.contains(lease)) out.leases.push_back(lease);
  }
  const auto copy = [](const auto& from, auto& to, const auto& kept) {
    std::ranges::copy_if(from, std::inserter(to, to.end()),
                         [&](const Key& key) { return !kept.contains(key); });
  };
  copy(expected.jobs, out.jobs, kept_);
  copy(expected.batches, out.batches, batches_);
  copy(expected.streams, out.streams, streams_);
  return out;
}

void PostgresRecords::expect(const ExpectedRecords& expected) {
  const ExpectedRecords wanted = missing(expected);
  for (const auto* names : {&wanted.jobs, &wanted.batches, &wanted.streams}) {
    for (const auto& [tenant, name] : *names) own(tenant);
  }
  if (!wanted.leases.empty()) {
    flush_jobs();
    flush_leases();
  }
  // Questions follow what was sent before, such as locks, whose answers come first.
  connection_.settle();
  send_questions(wanted);
  take_answers(wanted, connection_.settle());
}

void PostgresRecords::send_questions(const ExpectedRecords& missing) {
  if (!missing.leases.empty()) {
    IntegerColumn leases;
    for (const LeaseId lease : missing.leases) leases.add(lease);
    connection_.send(
        "SELECT l.lease, l.tenant, l.job, l.engine, l.until_us, l.alone FROM @.leases l WHERE "
        "l.lease = ANY($1)",
        leases);
    connection_.send("SELECT " MILLRACE_POSTGRES_JOB
                     " FROM @.leases l JOIN @.jobs j ON j.tenant = l.tenant AND j.job = l.job "
                     "WHERE l.lease = ANY($1)",
                     leases);
  }
  if (!missing.jobs.empty()) {
    const auto [tenants, names] = columns_of_names(missing.jobs);
    connection_.send("SELECT " MILLRACE_POSTGRES_JOB
                     " FROM unnest($1::bytea[], $2::bytea[]) u(tenant, job) JOIN @.jobs j ON "
                     "j.tenant = u.tenant AND j.job = u.job",
                     tenants, names);
    connection_.send(
        "SELECT l.lease, l.tenant, l.job, l.engine, l.until_us, l.alone FROM "
        "unnest($1::bytea[], $2::bytea[]) u(tenant, job) JOIN @.jobs j ON j.tenant = u.tenant AND "
        "j.job = u.job JOIN @.leases l ON l.lease = j.lease",
        tenants, names);
  }
  if (!missing.batches.empty()) {
    const auto [tenants, names] = columns_of_names(missing.batches);
    connection_.send(
        "SELECT c.tenant, c.batch, c.state, c.jobs FROM unnest($1::bytea[], $2::bytea[]) "
        "u(tenant, batch) JOIN @.job_counts c ON c.tenant = u.tenant AND c.batch = u.batch",
        tenants, names);
    connection_.send(
        "SELECT c.tenant, c.batch, c.model, c.kv, c.jobs FROM unnest($1::bytea[], $2::bytea[]) "
        "u(tenant, batch) JOIN @.ready_counts c ON c.tenant = u.tenant AND c.batch = u.batch",
        tenants, names);
    connection_.send(
        "SELECT b.batch, b.created_us, b.closed, b.finished_us, b.number, b.metadata, b.paused, "
        "b.stream, b.first, b.tenant FROM unnest($1::bytea[], $2::bytea[]) u(tenant, batch) JOIN "
        "@.batches b ON b.tenant = u.tenant AND b.batch = u.batch",
        tenants, names);
    connection_.send("SELECT tenant, model FROM @.pauses WHERE tenant = ANY($1)", tenants);
  }
  if (missing.streams.empty()) return;
  const auto [tenants, names] = columns_of_names(missing.streams);
  connection_.send(
      "SELECT s.first, s.high, s.oldest, s.bytes, s.age_us, s.max_bytes, s.cursor_age_us, "
      "s.tenant, s.stream FROM unnest($1::bytea[], $2::bytea[]) u(tenant, stream) JOIN @.streams s "
      "ON s.tenant = u.tenant AND s.stream = u.stream",
      tenants, names);
}

void PostgresRecords::take_answers(const ExpectedRecords& missing,
                                   std::span<const PostgresRows> answers) {
  for (const LeaseId lease : missing.leases) kept_leases_.try_emplace(lease);
  for (const Key& key : missing.jobs) kept_.try_emplace(key);
  for (const Key& key : missing.batches) batches_.try_emplace(key);
  for (const Key& key : missing.streams) {
    if (!streams_.contains(key)) streams_[key].exists = false;
  }
  if (!status()) return;
  if (!missing.leases.empty()) {
    take_jobs(answers[1], answers[0]);
    answers = answers.subspan(job_questions);
  }
  if (!missing.jobs.empty()) {
    take_jobs(answers[0], answers[1]);
    answers = answers.subspan(job_questions);
  }
  if (!missing.batches.empty()) {
    take_batches(missing, answers);
    answers = answers.subspan(batch_questions);
  }
  if (missing.streams.empty()) return;
  const PostgresRows& streams = answers[0];
  for (int row = 0; row < streams.size(); ++row) {
    streams_[{streams.text(row, 7), streams.text(row, 8)}] = {read_stream(streams, row), true,
                                                              false};
  }
}

// What is kept already may have changed since, and counts.
void PostgresRecords::take_jobs(const PostgresRows& jobs, const PostgresRows& leases) {
  for (int row = 0; row < jobs.size(); ++row) {
    auto job = read_job(jobs, row, 0);
    if (!job) return;
    KeptJob& kept = kept_[{job->tenant, job->job}];
    if (!kept.record && !kept.changed && !deleted_jobs_.contains({job->tenant, job->job})) {
      kept.record = *std::move(job);
    }
  }
  for (int row = 0; row < leases.size(); ++row) {
    auto& kept = kept_leases_[leases.number(row, 0)];
    if (!kept) kept = read_lease(leases, row);
  }
}

void PostgresRecords::take_batches(const ExpectedRecords& missing,
                                   std::span<const PostgresRows> answers) {
  const PostgresRows &counts = answers[0], &ready = answers[1], &records = answers[2],
                     &pauses = answers[3];
  for (int row = 0; row < counts.size(); ++row) {
    KeptBatch& kept = batches_[{counts.text(row, 0), counts.text(row, 1)}];
    const auto state = static_cast<std::size_t>(counts.integer(row, 2));
    if (state < kept.counts.size()) kept.counts[state] = counts.integer(row, 3);
  }
  for (int row = 0; row < ready.size(); ++row) {
    KeptBatch& kept = batches_[{ready.text(row, 0), ready.text(row, 1)}];
    kept.ready[{ready.text(row, 2), ready.text(row, 3)}] = ready.integer(row, 4);
  }
  for (int row = 0; row < records.size(); ++row) {
    batches_[{records.text(row, 9), records.text(row, 0)}].record = read_batch(records, row);
  }
  for (const auto& [tenant, batch] : missing.batches) pauses_[tenant];
  for (int row = 0; row < pauses.size(); ++row) {
    pauses_[pauses.text(row, 0)].insert(pauses.text(row, 1));
  }
}

// What a change of these jobs touches as well.
void PostgresRecords::expect_batches_of(std::span<const JobRecord* const> jobs) {
  ExpectedRecords expected;
  for (const JobRecord* job : jobs) {
    expected.batches.emplace(job->tenant, "");
    if (!job->batch.empty()) expected.batches.emplace(job->tenant, job->batch);
    expected.streams.emplace(job->tenant, job->stream);
  }
  expect(expected);
}

}  // namespace millrace::broker
