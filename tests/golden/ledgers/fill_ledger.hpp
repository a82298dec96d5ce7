#pragma once
// Fills a ledger with jobs in each state, batches, streams, cursors and pauses. The ledgers in this
// folder were made by it, compiled beside the ledger of an earlier commit, so that it is written
// for all versions at once: FILLED_VERSION tells which one this is. Thread safety: one thread.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/sqlite_ledger.hpp"

#ifndef FILLED_VERSION
#include "broker/ledger/sqlite_schema.hpp"
#define FILLED_VERSION 12
static_assert(FILLED_VERSION == millrace::broker::ledger_version);
#endif

namespace millrace::broker::filled {

inline constexpr std::int64_t filled_us = 1'700'000'000'000'000;

// What a job of this ledger says of itself in its body, as in the tests of migrations: "wants X"
// names the KV policy X, "says X" has the labels X, and "costs X" costs X tokens.
inline SubmitJob filled_job(const std::string& id, const std::string& batch = "",
                            const std::string& body = "", const std::string& of = "default") {
  SubmitJob op;
  op.tenant = of;
  op.id = id;
  op.hash = "hash of " + id;
  op.body = body.empty() ? "body of " + id : body;
  op.custom_id = "label of " + id;
  op.model = "model";
  op.stream = "results";
  op.batch = batch;
#if FILLED_VERSION >= 2
  if (body.starts_with("wants ")) op.kv = body.substr(6);
#endif
#if FILLED_VERSION >= 3
  if (body.starts_with("says ")) op.labels = body.substr(5);
#endif
#if FILLED_VERSION >= 6
  if (body.starts_with("costs ")) op.cost_tokens = std::stoull(body.substr(6));
#endif
  return op;
}

inline Claim filled_claim(std::uint32_t jobs, bool suspects = false) {
  Claim op;
  op.tenant = "default";
  op.engine = "engine";
  op.model = "model";
  op.max_jobs = jobs;
  op.until_us = filled_us + 1'000'000'000;
#if FILLED_VERSION >= 5
  if (suspects) op.from = ClaimFrom::suspects;
#else
  op.suspect = suspects;
#endif
  return op;
}

// Since version 7 an error tells whether the job fails or runs again.
inline Finish filled_end(LeaseId lease, JobState state, Code why = Code::invalid_value) {
  Finish op;
  op.lease = lease;
  op.state = state;
#if FILLED_VERSION >= 3
  op.result = "result of lease " + std::to_string(lease);
#else
  op.body = "result of lease " + std::to_string(lease);
#endif
#if FILLED_VERSION >= 7
  if (state == JobState::failed) op.error = Error{why, "it failed", "ask for something else"};
#else
  (void)why;
#endif
  return op;
}

// Jobs that end, each in one way, and some that are handed out and come back: leases 1 to 10.
inline std::vector<Operation> ended_jobs() {
  SubmitJob due = filled_job("expired");
  due.deadline_us = filled_us - 1;
  std::vector<Operation> out{filled_job("completed-1"),
                             filled_job("completed-2", "closed"),
                             filled_job("failed-1", "open"),
                             filled_job("failed-2"),
                             filled_job("retried"),
                             filled_claim(5),
                             filled_end(1, JobState::completed),
                             filled_end(2, JobState::completed),
                             filled_end(3, JobState::failed),
                             filled_end(4, JobState::failed),
                             filled_end(5, JobState::failed),
                             filled_job("suspect-1"),
                             filled_job("suspect-2"),
                             filled_job("suspect-3", "open"),
                             filled_job("suspect-4"),
                             filled_claim(4),
                             GiveBack{{6, 7, 8, 9}, Blame::died, ""},
                             filled_claim(1, true),  // one of them stays leased
                             filled_job("cancelled", "closed"),
                             CancelJobs{"default", {"cancelled"}, ""},
                             due,
                             ExpireJobs{"default"},
                             Append{"default", "rejected", "unknown", "what was refused"}};
  return out;
}

// Jobs that wait, each for something else, and some that run: leases from 11 on.
inline std::vector<Operation> unfinished_jobs() {
  SubmitJob urgent = filled_job("urgent"), any = filled_job("any"), late = filled_job("deadline");
  urgent.priority = 1;
  any.model = "*";
  late.deadline_us = filled_us + 3'600'000'000;
  std::vector<Operation> out{filled_job("leased-1"),
                             filled_job("leased-2", "open"),
                             filled_job("leased-3"),
                             filled_claim(3),
                             CancelJobs{"default", {"leased-3"}, ""},
                             RetryJobs{"default", {"retried"}, ""},
                             urgent,
                             any,
                             late,
                             filled_job("queued-1", "open"),
                             filled_job("queued-2", "open"),
                             filled_job("wants", "", "wants r5/r3"),
                             filled_job("says", "", "says hello"),
                             filled_job("costs", "", "costs 900"),
                             filled_job("other-1", "", "", "other"),
                             filled_job("other-2", "open", "", "other")};
#if FILLED_VERSION >= 8
  SubmitJob again = filled_job("again");
  again.priority = 0;
  out.insert(out.end(), {again, filled_claim(1), filled_end(14, JobState::failed, Code::internal)});
  SubmitJob later = filled_job("later");
  later.not_before_us = filled_us + 60'000'000;
  out.push_back(later);
#endif
#if FILLED_VERSION >= 10
  SubmitJob begins = filled_job("begins");
  begins.prefix = 7;
  out.push_back(begins);
#endif
  return out;
}

inline std::vector<Operation> streams_and_pauses() {
  std::vector<Operation> out{MoveCursor{"default", "results", "reader", 2}};
#if FILLED_VERSION >= 3
  out.push_back(TrimStream{"default", "results", 2});
#else
  // Later versions read no results of these, so a reader has taken them all.
  out.push_back(TrimStream{"default", "results", 8});
  out.push_back(TrimStream{"default", "rejected", 2});
#endif
#if FILLED_VERSION >= 4
  StreamLimits limits;
  limits.age_us = 86'400'000'000;
  out.push_back(KeepStream{"default", "results", limits});
  out.push_back(Retain{});
  out.push_back(TrimStream{"default", "results", 3});  // whose entries are still there
#endif
#if FILLED_VERSION >= 8
  out.push_back(UpdateBatch{"default", {"closed", true, {{"made", "up"}}}});
#endif
#if FILLED_VERSION >= 9
  SubmitJob rare = filled_job("rare");
  rare.model = "rare";
  out.push_back(rare);
  out.push_back(Pause{"default", "", "rare"});
  SubmitJob first = filled_job("aside", "paused"), second = filled_job("paused", "paused");
  first.priority = 0;
  out.push_back(first);
  out.push_back(Pause{"default", "paused", ""});
  out.push_back(filled_claim(1));  // meets the first, sets it aside, and takes another
  out.push_back(second);
#endif
  return out;
}

// Fills an empty ledger. Errors: those of `apply`, and the first refusal.
inline Status fill(Ledger& ledger) {
  for (const auto& operations : {ended_jobs(), unfinished_jobs(), streams_and_pauses()}) {
    auto replies = ledger.apply(operations, filled_us);
    if (!replies) return fail(replies.error());
    for (const auto& reply : *replies) {
      if (!reply) return fail(reply.error());
    }
  }
  return {};
}

}  // namespace millrace::broker::filled
