#pragma once
// Every message of the protocol, as C++ values. One ZeroMQ frame holds one envelope {v, kind, id,
// body}. The side that asks chooses `id`, and the answer repeats it; it is 0 where there is no
// answer. Kinds are the struct names in lower_snake_case (Hello -> "hello").
// Jobs and results are sent on and stored as the msgpack bytes that arrived (`Body`).
// schemas/docs/messages.md has the wire form of each field, with examples.
// Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schemas/job_messages.hpp"

namespace millrace {

inline constexpr std::uint32_t protocol_version = 1;

using Body = std::string;  // msgpack bytes
using LeaseId = std::uint64_t;

enum class Role : std::uint8_t { client, engine };

// The first message of each session. The broker answers Welcome or Refused.
struct Hello {
  Role role = Role::client;
  std::string name;      // for people: host and process
  std::string software;  // "millrace 0.1.0"
  std::uint32_t version_min = protocol_version, version_max = protocol_version;
  std::vector<std::string> capabilities;
  // Engines only
  // Random id of this process, the same over all its reconnections, because leases belong to it.
  // Another instance under the same name is another engine; the earlier one counts as dead once its
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
  std::uint32_t hang_ms = limits::hang_ms;
  std::string doorbell;         // endpoint of the PUB socket; empty: there is none, so poll
  std::string doorbell_prefix;  // what comes before the stream's name in each topic
  friend bool operator==(const Welcome&, const Welcome&) = default;
};
// The answer to a message that is refused as a whole. `error.code` is one of base/error.hpp.
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
  std::string job;                  // the job's id, also where the broker derived it
  bool known = false;               // the same id and body had been submitted before
  std::optional<JobState> state{};  // of a job that is stored
  std::optional<Error> error{};     // why the job was refused; nothing was stored
  std::string waits{};              // why it waits: no connected engine can run it
  friend bool operator==(const SubmitAnswer&, const SubmitAnswer&) = default;
};
struct Submitted {  // sent after the commit that holds the jobs; one answer for each job, in order
  std::vector<SubmitAnswer> answers;
  friend bool operator==(const Submitted&, const Submitted&) = default;
};
struct StatusRequest {  // asks about what it names; about the whole broker if it names nothing
  std::string job{}, batch{}, stream{};
  bool queues = false;  // also for the queues, which takes the ledger some look-ups
  friend bool operator==(const StatusRequest&, const StatusRequest&) = default;
};
// How full an engine is, and what it has done since its start; 0 where it cannot tell.
struct EngineLoad {
  std::uint32_t max_rows = 0;      // the most sequences in one step
  std::uint32_t waiting_jobs = 0;  // of its leases, those that no step has computed yet
  std::uint64_t kv_used_tokens = 0, kv_pool_tokens = 0;  // used: held by running sequences
  std::uint64_t kv_used_bytes = 0, kv_pool_bytes = 0;
  std::uint64_t prefix_tokens = 0;  // whose pages the prefix cache holds, in use or not
  std::uint64_t prompt_tokens = 0;  // of the jobs so far, also those found in the prefix cache
  std::uint64_t cached_tokens = 0;  // these
  std::uint64_t completion_tokens = 0;
  friend bool operator==(const EngineLoad&, const EngineLoad&) = default;
};
struct EngineInfo {
  std::string name;
  EngineProfile engine;
  std::uint32_t leases = 0;
  std::uint32_t rows = 0;  // sequences of its current step at its last heartbeat
  double tokens_per_second = 0;
  std::uint64_t silent_ms = 0;  // since it was last heard
  EngineLoad load{};            // of its last heartbeat
  double prompt_tokens_per_second = 0, completion_tokens_per_second = 0;
  friend bool operator==(const EngineInfo&, const EngineInfo&) = default;
};
struct TenantQueue {
  std::string tenant;
  std::uint64_t queued = 0, queued_tokens = 0;  // jobs, and about so many tokens
  std::uint64_t leased = 0, leased_tokens = 0;
  std::optional<std::uint64_t> oldest_ms;  // age of the job that waits longest
  bool paused = false;                     // all its jobs
  friend bool operator==(const TenantQueue&, const TenantQueue&) = default;
};
struct StatusAnswer {
  JobCounts counts;               // of the batch, or of all
  std::optional<JobState> state;  // of the job
  std::uint32_t attempts = 0;
  std::string job_stream, job_batch;  // of the job
  std::uint64_t job_number = 0;       // of the job's result in its stream; 0: not ended
  std::string job_waits;              // why the job waits: for a time, a resumption or an engine
  std::string epoch;                  // of the stream
  std::uint64_t first = 0, high = 0;
  std::vector<EngineInfo> engines;
  bool draining = false;
  bool paused = false;                     // the batch, or all jobs
  std::vector<std::string> paused_models;  // whose queues are paused
  std::string refuses;                     // why the last new jobs were refused, as for a full disk
  std::vector<TenantQueue> queues;         // where they are asked for
  bool more_queues = false;                // there are others, which are not told
  friend bool operator==(const StatusAnswer&, const StatusAnswer&) = default;
};

// ---- readers

// One Fetch is credit for one Data answer of at most max_entries and max_bytes.
struct Fetch {
  std::string stream = "results";
  std::string epoch;       // empty: any; otherwise another one is refused (epoch_changed)
  std::uint64_t from = 1;  // first number wanted; 0: the one after the cursor
  std::string cursor;      // name of a cursor (see Acknowledge), or empty
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
struct Data {  // without entries the reader has caught up
  std::string stream, epoch;
  std::uint64_t first = 0;  // first number kept
  std::uint64_t high = 0;   // last number written
  std::vector<Entry> entries;
  friend bool operator==(const Data&, const Data&) = default;
};
struct Trimmed {  // the requested numbers are no longer kept
  std::string stream, epoch;
  std::uint64_t first = 0;
  friend bool operator==(const Trimmed&, const Trimmed&) = default;
};
struct Acknowledge {  // moves a named cursor forward, up to and including `number`
  std::string stream, cursor;
  std::uint64_t number = 0;
  friend bool operator==(const Acknowledge&, const Acknowledge&) = default;
};
struct Acknowledged {
  std::uint64_t number = 0;
  friend bool operator==(const Acknowledged&, const Acknowledged&) = default;
};

// Asks for the partials of a stream's jobs. They come as long as the session lasts; they are never
// stored, and some may be lost.
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
struct Partials {      // from an engine, passed on to the sessions that watch
  std::string stream;  // to clients
  std::vector<PartialEntry> entries;
  friend bool operator==(const Partials&, const Partials&) = default;
};

// ---- streams and cursors

// Limits of what a stream keeps, 0: none. Set for one stream, an absent one is the broker's.
struct KeepLimits {
  std::optional<std::uint64_t> age_s;         // of results
  std::optional<std::uint64_t> bytes;         // of the stored results
  std::optional<std::uint64_t> cursor_age_s;  // of cursors since they were last moved
  friend bool operator==(const KeepLimits&, const KeepLimits&) = default;
};
struct StreamState {
  std::string stream;
  std::uint64_t first = 1, high = 0;  // first number kept, last number written
  std::uint64_t bytes = 0;            // stored
  std::uint64_t cursors = 0;
  KeepLimits set;      // for this stream
  KeepLimits applied;  // those, and the broker's in place of absent ones
  friend bool operator==(const StreamState&, const StreamState&) = default;
};
struct StreamsRequest {  // one stream, or all in order of their names
  std::string stream;    // empty: all
  std::string after;     // only those whose names come after it
  friend bool operator==(const StreamsRequest&, const StreamsRequest&) = default;
};
struct StreamsAnswer {
  std::string epoch;
  std::vector<StreamState> streams;
  bool more = false;  // ask again, after the last of these
  friend bool operator==(const StreamsAnswer&, const StreamsAnswer&) = default;
};
struct CursorState {
  std::string cursor;
  std::uint64_t number = 0;   // last number that its reader has acknowledged
  std::int64_t moved_us = 0;  // Unix time of the last `acknowledge`
  friend bool operator==(const CursorState&, const CursorState&) = default;
};
struct CursorsRequest {
  std::string stream;
  friend bool operator==(const CursorsRequest&, const CursorsRequest&) = default;
};
struct CursorsAnswer {
  std::string stream;
  std::vector<CursorState> cursors;  // by name
  friend bool operator==(const CursorsAnswer&, const CursorsAnswer&) = default;
};
struct Trim {  // makes `first` the first number kept
  std::string stream;
  std::uint64_t first = 0;
  friend bool operator==(const Trim&, const Trim&) = default;
};
struct Keep {  // sets all limits of a stream
  std::string stream;
  KeepLimits set;
  friend bool operator==(const Keep&, const Keep&) = default;
};
struct Remove {  // a stream with all that it holds, or one of its cursors
  std::string stream, cursor;
  friend bool operator==(const Remove&, const Remove&) = default;
};
struct StreamChanged {
  std::string epoch;
  StreamState stream;
  friend bool operator==(const StreamChanged&, const StreamChanged&) = default;
};

// ---- operating a broker

// Asks for a copy of the whole ledger under a name, in a folder that the broker chooses. The copy
// is made while the broker works: ask again with the same name until the answer says `done`.
struct BackupRequest {
  std::string name;
  friend bool operator==(const BackupRequest&, const BackupRequest&) = default;
};
struct BackupAnswer {
  std::string folder;                   // on the broker's machine
  std::uint64_t bytes = 0, copied = 0;  // of the ledger's file
  bool done = false;                    // the copy is whole and on disk
  friend bool operator==(const BackupAnswer&, const BackupAnswer&) = default;
};
struct DrainRequest {    // begins an orderly stop of the broker
  bool engines = false;  // the engines are told to leave as well
  friend bool operator==(const DrainRequest&, const DrainRequest&) = default;
};
struct DrainAnswer {
  std::uint32_t wait_ms = 0;  // so long running jobs may go on
  friend bool operator==(const DrainAnswer&, const DrainAnswer&) = default;
};

// ---- engines
struct Ready {  // grants credit: how many more leases the engine would take now; replaces the last
  std::uint32_t credit = 0;
  friend bool operator==(const Ready&, const Ready&) = default;
};
struct Lease {
  LeaseId lease = 0;
  std::string job;
  std::uint32_t attempt = 1;  // hand-outs, this one included
  bool alone = false;         // run it without any other job: its engine may die of it
  std::int64_t submitted_us = 0;
  Body body;                 // the job map
  std::uint64_t prefix = 0;  // names what the prompt begins with; 0: it is too short to matter
  friend bool operator==(const Lease&, const Lease&) = default;
};
struct Leases {
  std::vector<Lease> leases;
  friend bool operator==(const Leases&, const Leases&) = default;
};
// Sent every heartbeat_ms. It renews the leases that it lists: all that the engine holds, including
// those whose end Committed has not answered yet.
struct Heartbeat {
  std::vector<LeaseId> leases;
  std::uint64_t steps = 0;  // engine steps so far, which prove progress
  std::uint64_t tokens = 0;
  std::uint32_t credit = 0;
  std::uint32_t rows = 0;  // sequences of the current step; 0: no step is running
  // Those of `leases` that wait: for their first step, with their prompts prepared, or with an end
  // for Committed. They are not to blame if the engine dies.
  std::vector<LeaseId> waiting{};
  // The `prefix` of leases, also earlier ones, whose prompts' beginnings the engine still holds; at
  // most limits::prefixes_per_engine, those that were used last first.
  std::vector<std::uint64_t> prefixes{};
  EngineLoad load{};
  friend bool operator==(const Heartbeat&, const Heartbeat&) = default;
};
// Sent before the first step of leases that a heartbeat has called waiting, or soon after it began.
struct Begun {
  std::vector<LeaseId> leases;
  friend bool operator==(const Begun&, const Begun&) = default;
};
struct HeartbeatAnswer {           // also sent unasked (id 0), as soon as there is something to say
  std::vector<LeaseId> lost;       // no longer this engine's: stop their jobs
  std::vector<LeaseId> cancelled;  // cancel these and send their results
  bool drain = false;              // take no more jobs, finish or release those held, then leave
  friend bool operator==(const HeartbeatAnswer&, const HeartbeatAnswer&) = default;
};
// The engine's part of a job's end. The broker publishes it as a JobResult with the job's facts
// around it; the bytes of `result` stay as they are.
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
struct Release {  // gives leases back without blame, when the engine drains
  std::vector<LeaseId> leases;
  friend bool operator==(const Release&, const Release&) = default;
};
struct Goodbye {  // this side leaves on purpose; an engine's leases are given back
  std::string reason;
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};

using Message =
    std::variant<Hello, Welcome, Refused, Submit, Submitted, Cancel, Cancelled, Retry, Retried,
                 StatusRequest, StatusAnswer, Fetch, Data, Trimmed, Acknowledge, Acknowledged,
                 Ready, Leases, Heartbeat, HeartbeatAnswer, Ends, Committed, Release, Goodbye,
                 Watch, Watching, Partials, Begun, StreamsRequest, StreamsAnswer, CursorsRequest,
                 CursorsAnswer, Trim, Keep, Remove, StreamChanged, BackupRequest, BackupAnswer,
                 DrainRequest, DrainAnswer, JobsRequest, JobsAnswer, Drop, Dropped, BatchesRequest,
                 BatchesAnswer, ChangeBatch, BatchChanged, ChangePause, PauseChanged>;

struct Envelope {
  std::uint64_t id = 0;
  Message message;
  friend bool operator==(const Envelope&, const Envelope&) = default;
};

}  // namespace millrace
