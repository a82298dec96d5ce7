#pragma once
// What can be set on the state machine. Times in milliseconds, by the monotonic clock.
// Thread safety: plain values.
#include <cstdint>
#include <string>

#include "schemas/base/limits.hpp"

namespace millrace::broker {

struct CoreConfig {
  std::string broker_id;  // random id of this broker process
  std::string software = "millrace-broker";
  std::string doorbell;  // endpoint told in Welcome; empty: none
  bool push = false;     // a PULL socket is bound
  // Every lease in the ledger is from an engine that is surely gone (an embedded broker that owns
  // its engine): all are given back at the start, nobody blamed.
  bool previous_engines_are_gone = false;
  // A job that names a KV policy waits for an engine that runs it. Where there is one engine for
  // ever (an embedded broker) such a job is given to it nevertheless: it refuses what it cannot do.
  bool match_kv = true;
  // Engines of another numeric fingerprint may join and are told of, but get no job: whoever goes
  // on with earlier results (an embedded broker) refuses them. Empty: any.
  std::string fingerprint;

  std::uint32_t heartbeat_ms = limits::heartbeat_ms;
  std::uint32_t lease_ms = limits::lease_ms;
  // An engine whose step count stands still this long while it holds leases is taken as hung. Long,
  // because a first step may compile kernels.
  std::uint32_t hang_ms = 60'000;
  // A suspect that waited this long makes one engine finish what it has and take it alone.
  std::uint32_t suspect_wait_ms = 30'000;
  std::uint32_t session_idle_ms = 300'000;
  // In a full table a client that was silent this long gives its place to a newcomer: it may have
  // gone without goodbye, and where it has not it is asked for hello again.
  std::uint32_t session_yield_ms = 10'000;
  std::uint32_t sweep_ms = 1'000;       // deadlines, lapsed leases and counts are looked at
  std::uint32_t drain_wait_ms = 5'000;  // a drain waits this long for leased jobs to end
  std::uint32_t doorbell_ms = limits::doorbell_ms;

  std::uint32_t sessions = limits::sessions;
  std::uint32_t requests_per_session = 64;  // not yet answered
  std::uint32_t pending_jobs = 100'000;     // submitted, not yet committed, all sessions together
  std::uint64_t pending_bytes = 256 * limits::MiB;
  std::uint32_t jobs_per_claim = 64;
};

// What happened since the start. Read by status and metrics; the server logs them when it ends.
struct CoreCounters {
  std::uint64_t submitted = 0;     // jobs newly stored
  std::uint64_t known = 0;         // jobs sent again
  std::uint64_t refused_jobs = 0;  // jobs answered with an error
  std::uint64_t rejected = 0;      // pushed jobs written to the `rejected` stream
  std::uint64_t refused = 0;       // messages answered with Refused
  std::uint64_t malformed = 0;     // frames that did not decode
  std::uint64_t handed_out = 0;
  std::uint64_t finished = 0;
  std::uint64_t stale = 0;
  std::uint64_t engines_died = 0;  // sessions lost, hung and reported deaths
  std::uint64_t engines_hung = 0;
  std::uint64_t dead_lettered = 0;
  std::uint64_t expired = 0;
};

}  // namespace millrace::broker
