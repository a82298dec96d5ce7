#pragma once
// Defects that a test plants between the broker and its ledger, to show that the simulation notices
// them. Thread safety: none.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "broker/ledger/store.hpp"

namespace millrace::broker::simulation {

enum class Bug : std::uint8_t {
  none,
  blames_nobody,         // a death marks no job
  excuses_forever,       // every job counts as one that waited, however often
  blames_beside_others,  // each mark counts as a proof
  never_halves,          // a suspicion stays as wide as it was
  runs_all_together,     // a group is as large as what is suspected
  forgets_alone,         // the ledger does not know that a lease was alone
  shares_alone,          // the broker is not told so
  leaves_incident_open,  // nobody is cleared when the killer is found
  loses_returned_jobs,   // a job that comes back without a mark is not queued
  forgets_commits,       // a commit succeeds that was rolled back
  forgets_pauses,        // a claim finds nothing paused
  claims_twice,          // a job stays in the queue when it is handed out
  skips_numbers,         // a stream's next number is taken twice
  loses_results,         // a number is taken and no entry is written
  miscounts,             // a change of a count is lost
  miscounts_ready,       // the same of the jobs that a claim could hand out
  answers_stale_ends,    // an end that came too late is called committed
  unsynced_commits,      // a commit does not wait for the disk
  hides_full_disk,       // a job is acknowledged that found no room
  serves_damaged_jobs,   // a body is handed out as the disk returns it
  ignores_most_leases,   // a tenant's most leases are no limit to a claim
  ignores_most_queued,   // nor its most queued jobs to a submit
  never_rotates,         // the turn of one tenant comes before those of all others
  forgets_debts,         // what a tenant took beyond its turn
  reverses_weights,      // who should have the shortest turns has the longest
  looks_too_far,         // a claim looks ahead without a bound
  forgets_priorities,    // all queued jobs have the same
  robs_brokers,          // the leases of a broker that lives count as nobody's
  outlives_brokers,      // a broker that is gone counts as one that lives
  trusts_lost_commits,   // a commit whose outcome is not known counts as made
};

// Whether the bug shows on a disk only.
bool needs_disk(Bug bug);
// Whether it takes several brokers.
bool needs_brokers(Bug bug);
// Changes what the broker asks, as the bug would.
void plant(Bug bug, Operation& operation);
// Changes what it is answered.
void plant(Bug bug, const Operation& operation, Result<Reply>& reply);
// Puts a store with the bug in front of another.
std::unique_ptr<LedgerStore> plant(Bug bug, std::unique_ptr<LedgerStore> store);
// The same in front of one whose faults leave the outcome of a commit unknown.
std::unique_ptr<LedgerStore> plant_outcome(Bug bug, std::unique_ptr<LedgerStore> store);

}  // namespace millrace::broker::simulation
