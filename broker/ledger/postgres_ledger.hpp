#pragma once
// The ledger in PostgreSQL: the store behind `--ledger postgresql://...`.
//
// HOW THE RULES RUN ON IT. LedgerRules stand once, over records; here is what makes them right
// where several transactions, of several brokers, run at a time on one database.
//
// Isolation. A transaction that changes something is READ COMMITTED and first locks the rows of the
// tenants that it is about (`SELECT ... FOR UPDATE` on the table `tenants`, all of a batch in one
// statement, in order of their names). Every record but a lease's number belongs to one tenant, and
// each statement after the lock sees what was committed before the lock was granted. So a
// transaction sees each of its tenants as if it were alone; none fails to be serialized, and two
// that name their tenants beforehand cannot deadlock. One with an operation on all tenants
// (ListTenants, Retain) locks all that there are, because it would lock them after the named ones,
// out of order. Transactions of different tenants do not wait for each other. One that only reads
// is REPEATABLE READ, READ ONLY: one snapshot, no locks.
//
//   operation                  what it reads and changes                         why it is right
//   SubmitJob                  jobs by id, counts, batch, queue                  tenant's lock
//   Claim, ClaimShared         queue's heads, jobs, bodies, counts, leases       tenant's lock: a
//   job
//                              is in the queue or leased, and nobody else looks meanwhile
//   Renew, Finish, GiveBack    leases by number, their jobs; stream, counts      the lock of the
//                              leases' tenants, looked up by the leases: a lease keeps its tenant.
//                              A lease that went before the lock was granted is found gone: stale
//   jobs of an incident, Retain   jobs and streams of all tenants                each is looked up
//                              without a lock and read again under its tenant's lock; what changed
//                              meanwhile is skipped
//   next number of a stream    the row of the stream                             tenant's lock: the
//                              numbers have no gaps and are in the order of the commits
//   sequence of a job          nextval under the tenant's lock: in the order of the commits of a
//                              tenant, with gaps where a transaction was rolled back
//   BeatBroker, ReadNews       brokers, handles, news: a broker changes its own rows, and those of
//                              others that nobody has used for long. News are read in one statement
//   number of a lease          nextval, which never gives a number twice that was committed
//
// A claim needs no SKIP LOCKED: nobody else holds a row of this tenant's queue. Several brokers
// take turns on one tenant, and each turn is a batch of up to 256 operations.
//
// Statements. The changes of a batch gather in memory and are sent as arrays (unnest), a statement
// for each table; jobs are read by arrays of ids, claims read all their queues' heads in one
// statement and all their bodies in one more. A batch of N submits of one tenant takes as many
// statements whatever N is, and so do N ends. They are sent in pipeline mode: all changes and the
// COMMIT in one round trip. No statement has a name and nothing is set for a session, so a pooler
// in transaction mode (PgBouncer) does no harm.
//
// In memory a handle keeps only what no other broker can change: the numbers of leases that the
// sequence gave it. What the rules keep in a transaction is forgotten at its end.
//
// Outcome of a commit. Each transaction that changes something first writes the number of its batch
// into the handle's own row of the table `handles`, and sends its changes after the answer. Where
// the connection is lost in the COMMIT, the handle locks this row, which waits until the server has
// ended the lost transaction one way or the other, and reads the number.
//
// Durability. fsync and full_page_writes must be on, and synchronous_commit anything but off. They
// are read back in every transaction, before its first change, with the version of the tables.
// `local` means that a commit is on the primary's disk; `on` also waits for the disks of the
// replicas that synchronous_standby_names names, where it names some.
//
// Brokers. Any number serve one ledger. Each says in the table `brokers` until when it lives, by
// the server's clock (BeatBroker), and each lease has the name of the broker that handed it out or
// renewed it last. A broker takes back its own leases and those of brokers whose time has run out,
// and leaves the others alone. What a batch has for other brokers (News) is a few rows of the table
// `news`, with the numbers of the handle and of its batch; nothing is written while no other broker
// lives. A handle carries out one batch at a time, so its numbers grow in the order of its commits,
// and the last number that was read of each handle is the high mark of a reader.
//
// Not used: extensions, LISTEN/NOTIFY, advisory locks, sequences as numbers of streams.
//
// Errors: those of store.hpp and postgres_connection.hpp; ledger_newer, ledger_settings.
// Thread safety: one thread at a time for each handle.
#include <cstdint>
#include <memory>
#include <string>

#include "broker/ledger/store.hpp"

namespace millrace::broker {

// What a handle has sent.
struct PostgresTraffic {
  std::uint64_t statements = 0, round_trips = 0;
};

struct PostgresLedgerOptions {
  std::string schema = "millrace";  // of the ledger's tables
  // Names the broker, the same in all of its handles: no other broker has this name. Empty: the
  // handle is no broker's. Its leases are nobody's, and it tells and learns no news.
  std::string broker{};
  // A transaction of a broker from which the server has heard nothing for so long is ended there,
  // with its locks: the broker's machine may be gone without a word.
  std::uint32_t idle_ms = 30'000;
  // Counts on after each transaction; null: nobody wants to know.
  std::shared_ptr<PostgresTraffic> traffic{};
};

// Makes the tables where they are missing. Each handle has its own connection.
Result<std::unique_ptr<LedgerStore>> open_postgres_store(const std::string& url,
                                                         PostgresLedgerOptions options = {});

}  // namespace millrace::broker
