#pragma once
// The settings and the counters of the state machine. Times are milliseconds of the monotonic
// clock.
// Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/core/tenant_limits.hpp"
#include "broker/ledger/retention.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/keys/grants.hpp"

namespace millrace::broker {

// What may change while the broker runs (Retune in events.hpp).
struct CoreTuning {
  TenantTable tenants;  // what each tenant may use
  std::uint32_t hang_ms = limits::hang_ms;
  // An engine that holds nothing, such as one that was just started again, gets suspects at once. A
  // group of them goes to an engine at work once it has waited this long.
  std::uint32_t group_wait_ms = 2'000;
  // Once a suspect that has to run alone has waited this long, one engine gets no more jobs until
  // it is free to run it.
  std::uint32_t suspect_wait_ms = 30'000;
  std::uint32_t drain_wait_ms = 5'000;  // a drain waits this long for leased jobs to end
  RetentionPolicy retention;            // without limits: everything is kept
  std::uint32_t sessions = limits::sessions;
  std::uint32_t sessions_per_tenant = limits::sessions_per_tenant;  // where there are keys
  std::uint32_t session_idle_ms = limits::session_idle_ms;
  std::uint32_t requests_per_session = limits::requests_per_session;
  std::uint32_t pending_jobs = limits::pending_jobs;
  std::uint64_t pending_bytes = limits::pending_bytes;
};

struct CoreConfig : CoreTuning {
  std::string broker_id;  // random id of this broker process
  std::string software = "millrace-broker";
  std::string doorbell;  // endpoint named in Welcome; empty: none
  bool push = false;     // a PULL socket is bound
  // The engines of all leases in the ledger are certainly gone (an embedded broker owns its
  // engine): the broker gives all leases back at its start and blames no job.
  bool previous_engines_are_gone = false;
  // Other brokers may serve the same ledger at the same time.
  bool shares_ledger = false;
  // A job that names a KV policy waits for an engine that runs this policy. An embedded broker,
  // which has one engine only, sets this to false: the engine gets every job and refuses those that
  // it cannot run.
  bool match_kv = true;
  // Engines with another numeric fingerprint may join and appear in the status, but get no job. An
  // embedded broker that continues earlier results sets this. Empty: any fingerprint.
  std::string fingerprint;
  // The keys that may connect, and what each may do. None: there are no keys, and every peer is the
  // local user, who may do everything as the default tenant.
  std::optional<std::vector<Grant>> grants;

  bool tell_jobs = false;  // the actions tell what happens to each job (JobNews)

  std::uint32_t heartbeat_ms = limits::heartbeat_ms;
  std::uint32_t lease_ms = limits::lease_ms;
  // The client that loses its session may have gone without a goodbye; if it has not, it is asked
  // for hello again.
  std::uint32_t session_yield_ms = limits::session_yield_ms;
  std::uint32_t sweep_ms = 1'000;   // interval of the checks of deadlines, leases and counts
  std::uint32_t retain_ms = 1'000;  // interval of the passes that delete what is not kept
  std::uint32_t doorbell_ms = limits::doorbell_ms;
  std::uint32_t jobs_per_claim = limits::jobs_per_claim;
  // The last jobs of a closed batch or of a tenant go out by their cost, and not in order, once
  // they are as few as the engines could hold at once, and at most so many. 0: never.
  std::uint32_t tail_jobs = 256;
};

// Counts of what happened since the start. BrokerServer::statistics returns them, and
// millrace-broker logs some of them when it ends.
struct CoreCounters {
  std::uint64_t submitted = 0;     // jobs newly stored
  std::uint64_t known = 0;         // jobs that were stored already
  std::uint64_t refused_jobs = 0;  // jobs answered with an error
  std::uint64_t rejected = 0;      // pushed jobs written to the `rejected` stream
  std::uint64_t refused = 0;       // messages answered with Refused
  std::uint64_t malformed = 0;     // frames that did not decode
  std::uint64_t unauthorized = 0;  // messages that their key does not allow
  std::uint64_t handed_out = 0;
  std::uint64_t finished = 0;
  std::uint64_t run_again = 0;  // jobs that wait after an engine's error
  std::uint64_t stale = 0;
  std::uint64_t lapsed = 0;        // leases that their engines did not renew
  std::uint64_t engines_died = 0;  // sessions lost, hung and reported deaths
  std::uint64_t engines_hung = 0;
  std::uint64_t dead_lettered = 0;
  std::uint64_t expired = 0;
  std::uint64_t trimmed = 0;    // results that are no longer kept
  std::uint64_t forgotten = 0;  // ended jobs, likewise
};

}  // namespace millrace::broker
