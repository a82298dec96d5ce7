#pragma once
// Every message of the protocol, as C++ values. One ZeroMQ frame holds one envelope {v, kind, id,
// body}; `id` is chosen by the asking side and echoed in the answer (0 where nothing is answered).
// Kinds are the struct names in lower_snake_case (Hello -> "hello").
// Bodies of jobs and results travel and are stored as the msgpack bytes that arrived (`Body`).
// Wire form of each field, with examples: schemas/README.md. Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schemas/job.hpp"

namespace millrace {

inline constexpr std::uint32_t protocol_version = 1;

using Body = std::string;  // msgpack bytes
using LeaseId = std::uint64_t;

enum class Role : std::uint8_t { client, engine };

// First message of each session, either way. The broker answers Welcome or Refused.
struct Hello {
  Role role = Role::client;
  std::string name;      // for people: host and process
  std::string software;  // "millrace 0.1.0"
  std::uint32_t version_min = protocol_version, version_max = protocol_version;
  std::vector<std::string> capabilities;
  // Engines only
  // Random id of this process, the same over all its reconnections: leases belong to it. Another
  // instance under the same name is another engine, and the one before it is taken as dead once its
  // leases lapse. Required.
  std::string instance;
  EngineProfile engine;
  friend bool operator==(const Hello&, const Hello&) = default;
};
struct Welcome {
  std::string broker;  // random id of this broker process
  std::string software;
  std::uint32_t version = protocol_version;
  std::vector<std::string> capabilities;
  std::uint64_t frame_bytes = limits::frame_bytes, job_bytes = limits::job_bytes;
  std::uint32_t jobs_per_submit = limits::jobs_per_submit;
  std::uint32_t heartbeat_ms = limits::heartbeat_ms, lease_ms = limits::lease_ms;
  std::string doorbell;  // endpoint of the PUB socket; empty: none, poll instead
  friend bool operator==(const Welcome&, const Welcome&) = default;
};
// The answer to anything that is refused as a whole. `error.code` is one of base/error.hpp.
struct Refused {
  Error error;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// ---- producers
struct Submit {
  std::vector<Body> jobs;  // each a job map
  friend bool operator==(const Submit&, const Submit&) = default;
};
struct SubmitAnswer {
  std::string job;     // its id, also when it was derived
  bool known = false;  // the same id and body had been submitted before
  JobState state = JobState::queued;
  std::optional<Error> error;  // refused: nothing was stored
  std::string waits{};         // taken, but no engine connected can run it: what is missing
  friend bool operator==(const SubmitAnswer&, const SubmitAnswer&) = default;
};
struct Submitted {  // sent after the commit that holds the jobs; one answer a job, in order
  std::vector<SubmitAnswer> answers;
  friend bool operator==(const Submitted&, const Submitted&) = default;
};
struct Cancel {  // jobs by id, or a whole batch
  std::vector<std::string> jobs;
  std::string batch;
  friend bool operator==(const Cancel&, const Cancel&) = default;
};
struct Cancelled {
  std::uint64_t cancelled = 0;  // ended at once, they were queued
  std::uint64_t requested = 0;  // leased: the engine is told and will end them
  std::uint64_t ended = 0;      // had ended already
  std::uint64_t unknown = 0;
  friend bool operator==(const Cancelled&, const Cancelled&) = default;
};
struct Retry {  // failed jobs of a batch, or by id, are queued again
  std::vector<std::string> jobs;
  std::string batch;
  friend bool operator==(const Retry&, const Retry&) = default;
};
struct Retried {
  std::uint64_t retried = 0, not_failed = 0, unknown = 0;
  friend bool operator==(const Retried&, const Retried&) = default;
};
struct JobCounts {
  std::uint64_t queued = 0, leased = 0, completed = 0, failed = 0, cancelled = 0, expired = 0;
  friend bool operator==(const JobCounts&, const JobCounts&) = default;
};
struct StatusRequest {  // what is named is answered; nothing named: the whole broker
  std::string job, batch, stream;
  friend bool operator==(const StatusRequest&, const StatusRequest&) = default;
};
struct EngineInfo {
  std::string name;
  EngineProfile engine;
  std::uint32_t leases = 0;
  std::uint32_t rows = 0;  // sequences in the step under way when it was last heard
  double tokens_per_second = 0;
  friend bool operator==(const EngineInfo&, const EngineInfo&) = default;
};
struct StatusAnswer {
  JobCounts counts;               // of the batch, or of all
  std::optional<JobState> state;  // of the job
  std::uint32_t attempts = 0;
  std::string job_stream, job_batch;  // of the job
  std::uint64_t job_number = 0;       // of the job's result in its stream; 0: not ended
  std::string job_waits;              // queued, and no engine connected can run it: what is missing
  std::string epoch;                  // of the stream
  std::uint64_t first = 0, high = 0;
  std::vector<EngineInfo> engines;
  bool draining = false;
  friend bool operator==(const StatusAnswer&, const StatusAnswer&) = default;
};

// ---- readers

// One Fetch is credit for one Data answer of at most max_entries and max_bytes.
struct Fetch {
  std::string stream = "results";
  std::string epoch;       // empty: any; else another one is refused (epoch_changed)
  std::uint64_t from = 1;  // first number wanted; 0: from the cursor named
  std::string cursor;      // optional name, see Acknowledge
  std::uint32_t max_entries = limits::fetch_entries;
  std::uint64_t max_bytes = limits::fetch_bytes;
  friend bool operator==(const Fetch&, const Fetch&) = default;
};
struct Entry {
  std::uint64_t number = 0;
  std::string job;
  Body body;  // a JobResult map
  friend bool operator==(const Entry&, const Entry&) = default;
};
struct Data {  // no entries: caught up
  std::string stream, epoch;
  std::uint64_t first = 0;  // first number kept
  std::uint64_t high = 0;   // last number written
  std::vector<Entry> entries;
  friend bool operator==(const Data&, const Data&) = default;
};
struct Trimmed {  // the range asked for is no longer kept
  std::string stream, epoch;
  std::uint64_t first = 0;
  friend bool operator==(const Trimmed&, const Trimmed&) = default;
};
struct Acknowledge {  // moves a named cursor forward; cumulative
  std::string stream, cursor;
  std::uint64_t number = 0;
  friend bool operator==(const Acknowledge&, const Acknowledge&) = default;
};
struct Acknowledged {
  std::uint64_t number = 0;
  friend bool operator==(const Acknowledged&, const Acknowledged&) = default;
};

// Partials of jobs of a stream: they come to this session as long as it lasts. Never stored or
// counted; some may be missed.
struct Watch {
  std::string stream = "results";
  bool on = true;
  friend bool operator==(const Watch&, const Watch&) = default;
};
struct Watching {
  std::string stream;
  bool on = true;
  friend bool operator==(const Watching&, const Watching&) = default;
};
struct PartialEntry {
  LeaseId lease = 0;           // from engines; 0 to clients
  std::string job, custom_id;  // to clients; empty from engines
  std::uint32_t attempt = 0;
  Partial partial;
  friend bool operator==(const PartialEntry&, const PartialEntry&) = default;
};
struct Partials {      // from the engine, and on to the sessions that watch
  std::string stream;  // to clients
  std::vector<PartialEntry> entries;
  friend bool operator==(const Partials&, const Partials&) = default;
};

// ---- engines
struct Ready {  // grants credit: how many more leases the engine would take now (absolute, not
                // added)
  std::uint32_t credit = 0;
  friend bool operator==(const Ready&, const Ready&) = default;
};
struct Lease {
  LeaseId lease = 0;
  std::string job;
  std::uint32_t attempt = 1;  // hand-outs, this one included
  bool alone = false;         // a suspect: run it with no other job
  std::int64_t submitted_us = 0;
  Body body;  // the job map
  friend bool operator==(const Lease&, const Lease&) = default;
};
struct Leases {
  std::vector<Lease> leases;
  friend bool operator==(const Leases&, const Leases&) = default;
};
struct Heartbeat {  // every heartbeat_ms; renews what it lists: all that is held, and all that
                    // ended but was not yet answered by Committed
  std::vector<LeaseId> leases;
  std::uint64_t steps = 0;  // engine steps so far: progress, not just life
  std::uint64_t tokens = 0;
  std::uint32_t credit = 0;
  std::uint32_t rows = 0;  // sequences in the step under way; 0: none is
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
struct HeartbeatAnswer {      // also sent unasked (id 0), as soon as there is something to tell
  std::vector<LeaseId> lost;  // no longer this engine's: stop them
  std::vector<LeaseId> cancelled;  // cancel these and send their results
  bool drain = false;              // take no more, finish or release what is held, then leave
  friend bool operator==(const HeartbeatAnswer&, const HeartbeatAnswer&) = default;
};
// The engine's part of a job's end. The broker publishes it as a JobResult with what it knows
// itself around it; the bytes of `result` stay as they are.
struct JobEnd {
  LeaseId lease = 0;
  JobState state = JobState::completed;  // completed, failed or cancelled
  Body result;                           // a GenerationResult map; empty: there is none
  std::optional<Error> error;            // why there is none
  friend bool operator==(const JobEnd&, const JobEnd&) = default;
};
struct Ends {
  std::vector<JobEnd> ends;
  friend bool operator==(const Ends&, const Ends&) = default;
};
struct Committed {
  std::vector<LeaseId> committed;  // on disk: the engine may forget them
  std::vector<LeaseId> stale;      // refused: the lease was not current
  friend bool operator==(const Committed&, const Committed&) = default;
};
struct Release {  // hands leases back unblamed (draining)
  std::vector<LeaseId> leases;
  friend bool operator==(const Release&, const Release&) = default;
};
struct Goodbye {  // either side leaves on purpose; an engine's leases are released
  std::string reason;
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

using Message = std::variant<Hello, Welcome, Refused, Submit, Submitted, Cancel, Cancelled, Retry,
                             Retried, StatusRequest, StatusAnswer, Fetch, Data, Trimmed,
                             Acknowledge, Acknowledged, Ready, Leases, Heartbeat, HeartbeatAnswer,
                             Ends, Committed, Release, Goodbye, Watch, Watching, Partials>;

struct Envelope {
  std::uint64_t id = 0;
  Message message;
  friend bool operator==(const Envelope&, const Envelope&) = default;
};

}  // namespace millrace
