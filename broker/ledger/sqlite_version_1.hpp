#pragma once
// The tables of the first version of the ledger's file. Later versions change them step by step
// (sqlite_schema.cpp); README.md describes what they are now. Thread safety: constants.

namespace millrace::broker {

inline constexpr const char* version_1 = R"sql(
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  tenant TEXT NOT NULL,
  job TEXT NOT NULL,
  hash TEXT NOT NULL,
  hash_version INTEGER NOT NULL,
  custom_id TEXT NOT NULL,
  model TEXT NOT NULL,
  stream TEXT NOT NULL,
  batch TEXT NOT NULL,
  priority INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  deadline_us INTEGER,
  sequence INTEGER NOT NULL,
  submitted_us INTEGER NOT NULL,
  state INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  suspect_us INTEGER,
  cancel INTEGER NOT NULL DEFAULT 0,
  number INTEGER NOT NULL DEFAULT 0,
  lease INTEGER,
  PRIMARY KEY (tenant, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_of_batch ON jobs (tenant, batch, state, sequence) WHERE batch <> '';
CREATE INDEX jobs_by_deadline ON jobs (tenant, deadline_us, sequence)
  WHERE deadline_us IS NOT NULL AND state < 2;

CREATE TABLE job_bodies (
  tenant TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, sequence)
) STRICT;

CREATE TABLE queue (
  tenant TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  model TEXT NOT NULL,
  priority INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  job TEXT NOT NULL,
  deadline_us INTEGER,
  PRIMARY KEY (tenant, suspect, model, priority, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (
  lease INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  job TEXT NOT NULL,
  engine TEXT NOT NULL,
  until_us INTEGER NOT NULL,
  alone INTEGER NOT NULL
) STRICT;
CREATE INDEX leases_of_engine ON leases (engine);
CREATE INDEX leases_by_end ON leases (until_us);

CREATE TABLE job_counts (
  tenant TEXT NOT NULL,
  batch TEXT NOT NULL,
  state INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (tenant, batch, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  first INTEGER NOT NULL,
  high INTEGER NOT NULL,
  PRIMARY KEY (tenant, stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE entries (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  number INTEGER NOT NULL,
  job TEXT NOT NULL,
  checksum INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant, stream, number)
) STRICT;

CREATE TABLE cursors (
  tenant TEXT NOT NULL,
  stream TEXT NOT NULL,
  cursor TEXT NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (tenant, stream, cursor)
) STRICT, WITHOUT ROWID;

INSERT INTO counters VALUES ('next_sequence', 1), ('next_lease', 1);
)sql";

}  // namespace millrace::broker
