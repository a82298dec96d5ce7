#pragma once
// Jobs, leases, streams and counts as rows: the steps that operations consist of. No step checks
// whether it is allowed; the operation does that before its first step. Errors are sticky in the
// Database. Thread safety: one thread at a time.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/sqlite_database.hpp"

namespace millrace::broker {

struct JobRow {
  std::string tenant, job, hash, custom_id, model, stream, batch, kv;
  Body labels;
  int hash_version = 0;
  std::uint32_t priority = 0, max_attempts = 0, attempts = 0, failures = 0;
  std::optional<std::int64_t> deadline_us, suspect_us;  // suspect_us: when it became a suspect
  std::uint64_t sequence = 0, number = 0;
  std::int64_t submitted_us = 0;
  JobState state = JobState::queued;
  bool cancel_requested = false;
  LeaseId lease = 0;  // 0: none
};

struct LeaseRow {
  LeaseId lease = 0;
  std::string tenant, job, engine;
  std::int64_t until_us = 0;
  bool alone = false;
};

class Records {
 public:
  // The tables must exist.
  Records(Database& database, const Publish& publish);

  void load();   // reads the counters; call it after opening and after each rollback
  void flush();  // writes them; call it before each commit and before counts are read

  const std::string& epoch() const { return epoch_; }

  std::optional<JobRow> find_job(const std::string& tenant, const std::string& job);
  // A job that another row refers to. Its absence is corruption and becomes the database's error.
  std::optional<JobRow> known_job(const std::string& tenant, const std::string& job);
  std::optional<LeaseRow> find_lease(LeaseId lease);
  std::uint64_t leases_of(const std::string& engine);
  std::uint64_t queued_of(const std::string& tenant);  // includes this transaction's changes

  void insert(const SubmitJob& op, std::int64_t now_us);
  // The body as it was submitted; none where it is damaged or missing.
  std::optional<Body> body_of(const JobRow& row);

  // Each of these changes both `row` and the tables.
  LeaseId hand_out(JobRow& row, const std::string& engine, std::int64_t until_us, bool alone);
  void put_back(JobRow& row);  // from leased or failed to queued; the row's marks stay
  void mark_cancelled(JobRow& row);
  FinishReply end(JobRow& row, const Outcome& outcome);
  FinishReply append(const std::string& tenant, const std::string& stream, const std::string& job,
                     const Body& body, JobState state);

 private:
  void count(const JobRow& row, JobState state, std::int64_t change);
  void enqueue(const JobRow& row);
  void dequeue(const JobRow& row);
  void update(const JobRow& row);

  const Publish& publish_;
  std::string epoch_;
  std::int64_t next_sequence_ = 1, next_lease_ = 1;
  bool counters_changed_ = false;
  std::map<std::string, std::int64_t> queued_;  // by tenant, for those asked for so far
  // Changes of this transaction by (tenant, batch) and state; its end writes them.
  std::map<std::pair<std::string, std::string>, std::array<std::int64_t, 6>> count_changes_;

  Database& database_;
  Statement select_meta_, select_counter_, update_counter_;
  Statement select_job_, insert_job_, update_job_;
  Statement insert_body_, select_body_, delete_body_;
  Statement insert_queue_, delete_queue_;
  Statement select_lease_, insert_lease_, delete_lease_, count_leases_;
  Statement add_count_, select_count_;
  Statement next_number_, insert_entry_;
};

}  // namespace millrace::broker
