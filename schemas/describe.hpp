#pragma once
// The messages of the protocol, declared once: their kinds with direction and meaning, and the
// fields of each in wire order. A visitor offers the functions of describe_result.hpp and:
//
//   v.body(name, member, what, about)           a required map that is kept as its bytes; `what`
//                                               names its schema: job, result
//   v.optional_body(name, member, what, about)  the same, may be absent
//   v.bodies(name, member, what, about)         a list of such maps
//
// Every string of a message that the broker keeps has a form, which limits its bytes.
//
// Thread safety: pure functions.
#include <array>
#include <string_view>
#include <variant>

#include "schemas/describe_jobs.hpp"
#include "schemas/describe_operating.hpp"
#include "schemas/describe_status.hpp"
#include "schemas/describe_streams.hpp"
#include "schemas/messages.hpp"

namespace millrace {

struct MessageKind {
  std::string_view name, direction, about;
};
// The kinds, in the order of Message's alternatives.
inline constexpr std::array<MessageKind, std::variant_size_v<Message>> message_kinds = {{
    {"hello", "client or engine → broker",
     "The first message of each session. The broker answers `welcome` or `refused`. Say hello "
     "again after a reconnection and whenever the broker answers `unexpected_message`."},
    {"welcome", "broker → client or engine", "The session is open."},
    {"refused", "broker → client or engine",
     "The answer to any message that is refused as a whole. Nothing of the message was done."},
    {"submit", "client → broker",
     "Jobs to store and run. The broker answers `submitted`, with one answer for each job, after "
     "the commit that holds them. A `submit` to the PUSH/PULL socket is not answered; jobs refused "
     "there go to the stream `rejected`."},
    {"submitted", "broker → client",
     "The outcome for each job of a `submit`, in order. What it acknowledges is on disk."},
    {"cancel", "client → broker",
     "Ends jobs by id, or all jobs of a batch. The broker answers `cancelled`, or refuses a batch "
     "that it does not hold (`not_found`)."},
    {"cancelled", "broker → client", "The outcome of a `cancel`, in numbers of jobs."},
    {"retry", "client → broker",
     "Queues failed jobs again, by id or all of a batch. The broker answers `retried`. When such a "
     "job ends it gets one more entry in its stream: its failure stays, and the later entry "
     "counts."},
    {"retried", "broker → client", "The outcome of a `retry`, in numbers of jobs."},
    {"status_request", "client → broker",
     "Asks about a job, a batch or a stream, or, where it names nothing, about the whole broker. "
     "The broker answers `status_answer`, or refuses what it does not hold (`not_found`): a job, a "
     "batch without jobs, a stream without results. To a client without the capability `not_found` "
     "such a stream is an empty one, as it was before."},
    {"status_answer", "broker → client",
     "Fills the fields that were asked for; the others have their defaults."},
    {"fetch", "client → broker",
     "Asks for the results of a stream from a number on. One `fetch` is credit for one `data` of "
     "at most `max_entries` and `max_bytes`; the next `fetch` asks from the last number received "
     "plus one. A stream that has no results yet is empty: its name cannot be wrong."},
    {"data", "broker → client",
     "Results in order. Without entries the reader has caught up: it waits for the doorbell, or "
     "asks again later."},
    {"trimmed", "broker → client", "The answer to a `fetch` whose numbers are no longer kept."},
    {"acknowledge", "client → broker",
     "Moves a named cursor of a stream forward, up to and including a number. The broker answers "
     "`acknowledged`."},
    {"acknowledged", "broker → client", "The cursor is on disk."},
    {"ready", "engine → broker", "Grants credit. The broker does not answer it."},
    {"leases", "broker → engine", "Jobs that are handed out, within the credit."},
    {"heartbeat", "engine → broker",
     "Renews the leases that it lists; engines send it every `heartbeat_ms`. The broker answers "
     "`heartbeat_answer`."},
    {"heartbeat_answer", "broker → engine",
     "Leases to drop or cancel, and whether to drain. The broker also sends it unasked, with id "
     "0."},
    {"ends", "engine → broker",
     "Jobs that have ended. The engine sends them again after a reconnection until `committed` "
     "names them."},
    {"committed", "broker → engine", "The answer to `ends`, after the commit."},
    {"release", "engine → broker",
     "Gives leases back without blame, when the engine drains. The broker does not answer it."},
    {"goodbye", "either way", "This side leaves on purpose; an engine's leases are given back."},
    {"watch", "client → broker",
     "Asks for the partial texts of a stream's jobs with `partials`, from now on. The broker "
     "answers `watching`; `partials` follow as long as the session lasts."},
    {"watching", "broker → client", "The answer to `watch`."},
    {"partials", "engine → broker, broker → client",
     "What running jobs have gained. Engines send it for jobs with `partials`, and the broker "
     "passes it on to the sessions that watch the stream. Partials are not stored, numbered, "
     "counted or answered, and some may be missed: the result is complete by itself."},
    {"begun", "engine → broker",
     "Leases that a `heartbeat` has called `waiting` and that a step now computes. Send it as soon "
     "as the step begins, to a broker that has the capability `begun`. The broker does not answer "
     "it."},
    {"streams_request", "client → broker",
     "Asks for one stream, or for all that hold results, cursors or limits. The broker answers "
     "`streams_answer`."},
    {"streams_answer", "broker → client", "Streams in order of their names."},
    {"cursors_request", "client → broker",
     "Asks for the cursors of a stream. The broker answers `cursors_answer`."},
    {"cursors_answer", "broker → client", "The cursors that have not expired, by name."},
    {"trim", "client → broker",
     "Drops the results of a stream below a number, whoever has read them. A number below the "
     "first one kept changes nothing. The broker answers `stream_changed`; the space is freed in "
     "small steps after it."},
    {"keep", "client → broker",
     "Sets how much a stream keeps, before or after its first result. Limits that are absent are "
     "the broker's own again. The broker answers `stream_changed`."},
    {"remove", "client → broker",
     "Removes a cursor, or a stream with its results, cursors and limits. The numbers of a stream "
     "that is removed go on where they ended, so that a reader that comes back is told `trimmed`. "
     "The broker answers `stream_changed`."},
    {"stream_changed", "broker → client",
     "The answer to `trim`, `keep` and `remove`, after the commit: the stream as it is now."},
    {"backup_request", "client → broker",
     "Asks for a copy of the whole ledger, made while the broker works. The broker answers "
     "`backup_answer` at once: ask again with the same name until it says `done`."},
    {"backup_answer", "broker → client", "How far the copy is."},
    {"drain_request", "client → broker",
     "Begins an orderly stop of the broker: it takes no new jobs and hands out none. The broker "
     "answers `drain_answer`, and says `goodbye` when it ends."},
    {"drain_answer", "broker → client", "The broker drains."},
    {"jobs_request", "client → broker",
     "Asks for one job, or for the jobs of a batch, of a stream or in a state. The broker answers "
     "`jobs_answer`, or refuses a job that it does not hold (`not_found`)."},
    {"jobs_answer", "broker → client",
     "Jobs, at most 250. Those of a batch come in the order of their submission, others in the "
     "order of their ids. An answer may hold fewer jobs, even none, and still say `more`, because "
     "the broker looks through a few thousand jobs at a time."},
    {"drop", "client → broker",
     "Forgets failed jobs, by id or all of a batch: they are no longer listed, counted or known, "
     "and cannot be retried. Their entries stay in the stream. The broker answers `dropped`."},
    {"dropped", "broker → client", "The outcome of a `drop`, in numbers of jobs."},
    {"batches_request", "client → broker",
     "Asks for one batch, or for all. The broker answers `batches_answer`."},
    {"batches_answer", "broker → client", "Batches in order of their names, at most 250."},
    {"change_batch", "client → broker",
     "Closes a batch, or sets its metadata. A closed batch takes no new jobs (`batch_closed`); "
     "when all its jobs have ended, an entry of the stream `batches` tells so, once. A retry of "
     "its "
     "jobs takes the end back, and the next end has another entry. The broker answers "
     "`batch_changed`, or refuses a batch without jobs (`not_found`)."},
    {"batch_changed", "broker → client", "The answer to `change_batch`, after the commit."},
    {"change_pause", "client → broker",
     "Pauses or resumes a batch, the queue of the jobs for one model, or all jobs of the tenant; "
     "exactly one of the three is named. Queued jobs that are paused are not handed out; those "
     "that "
     "run end as ever, deadlines count, and new jobs may be submitted. The three do not know of "
     "each other: a job is handed out when none of those that concern it is paused. A pause "
     "outlives a restart; that of a batch ends with its last job. The broker answers "
     "`pause_changed`, or refuses a batch without jobs (`not_found`) and a model that no engine "
     "has served here (`unknown_model`)."},
    {"pause_changed", "broker → client", "The answer to `change_pause`, after the commit."},
}};

// ---- sessions
void fields(auto& v, Is<Hello> auto& m) {
  v.field("role", m.role, "what this side is");
  v.field("name", m.name, short_label, "a name for people: host and process");
  v.field("software", m.software, short_label, "the name and version of the program");
  v.field("version_min", m.version_min, "the lowest protocol version that this side speaks");
  v.field("version_max", m.version_max, "the highest");
  v.field("capabilities", m.capabilities, Labels{limits::capabilities, limits::id_bytes},
          "names of optional features; ignore unknown ones");
  v.field("instance", m.instance, short_label,
          "engines: a random id of this process, the same over all its reconnections, because "
          "leases belong to it; engines must give it");
  fields(v, m.engine);
}
void fields(auto& v, Is<Welcome> auto& m) {
  v.field("broker", m.broker,
          "a random id of this broker process; after a restart it is another one");
  v.field("software", m.software, "the name and version of the program");
  v.field("version", m.version, "the protocol version of this session");
  v.field("capabilities", m.capabilities, "names of optional features; ignore unknown ones");
  v.field("frame_bytes", m.frame_bytes, "the largest frame; a larger one closes the connection");
  v.field("job_bytes", m.job_bytes, "the largest job");
  v.field("jobs_per_submit", m.jobs_per_submit, "the most jobs in one `submit`");
  v.field("heartbeat_ms", m.heartbeat_ms, "how often engines send a `heartbeat`");
  v.field("lease_ms", m.lease_ms, "how long a lease lasts without renewal");
  v.field("hang_ms", m.hang_ms,
          "an engine that holds leases and completes no step for this long loses them");
  v.field("doorbell", m.doorbell,
          "the endpoint of the PUB socket; empty: there is none, ask with `fetch`");
  v.field(
      "doorbell_prefix", m.doorbell_prefix,
      "what comes before the stream's name in each topic of the doorbell; empty where the broker "
      "has no keys");
}
void fields(auto& v, Is<Refused> auto& m) {
  v.required("error", m.error, "why, and what to do");
}
void fields(auto& v, Is<Goodbye> auto& m) {
  v.field("reason", m.reason, Text{limits::error_text_bytes}, "the reason, for people");
}

// ---- producers
void fields(auto& v, Is<Submit> auto& m) {
  v.bodies("jobs", m.jobs, "job", "the jobs");
}
void fields(auto& v, Is<SubmitAnswer> auto& m) {
  v.field("job", m.job, "the job's id, also where the broker derived it from the body");
  v.field("known", m.known, "the same id and body had been submitted before");
  v.field("state", m.state, "the job's state; absent where the job is refused");
  v.field("error", m.error,
          "why the job was refused: nothing was stored; where its id was readable `job` has it");
  v.field("waits", m.waits,
          "why the job waits: no connected engine can run it, which policies engines run, and what "
          "is missing");
}
void fields(auto& v, Is<Submitted> auto& m) {
  v.required("answers", m.answers, "one answer for each job");
}

// ---- readers
void fields(auto& v, Is<Fetch> auto& m) {
  v.field("stream", m.stream, short_name, "the stream's name");
  v.field("epoch", m.epoch, short_label,
          "the epoch that the reader knows, and another one is refused (`epoch_changed`); empty: "
          "any");
  v.field("from", m.from, "the first number wanted; 0: the one after the cursor");
  v.field("cursor", m.cursor, short_label, "the name of a cursor, see `acknowledge`");
  v.field("max_entries", m.max_entries, "the most entries wanted");
  v.field("max_bytes", m.max_bytes, "the most bytes wanted; one entry is given whatever its size");
}
void fields(auto& v, Is<Entry> auto& m) {
  v.required("number", m.number, "its place in the stream, from 1, without gaps");
  v.field("job", m.job, "the job's id");
  v.body("body", m.body, "result", "the result");
}
void fields(auto& v, Is<Data> auto& m) {
  v.required("stream", m.stream, "the stream's name");
  v.required(
      "epoch", m.epoch,
      "the random id of the broker's ledger; under another one the numbers start again at 1");
  v.field("first", m.first, "the first number that is kept");
  v.field("high", m.high, "the last number written");
  v.field("entries", m.entries, "the results by number, ascending, without gaps");
}
void fields(auto& v, Is<Trimmed> auto& m) {
  v.required("stream", m.stream, "the stream's name");
  v.required("epoch", m.epoch, "the epoch of the ledger");
  v.required("first", m.first, "the first number that is kept: fetch from there");
}
void fields(auto& v, Is<Acknowledge> auto& m) {
  v.required("stream", m.stream, short_name, "the stream's name");
  v.required("cursor", m.cursor, short_name,
             "the cursor's name; a new name makes a new cursor, at most 1,000 for a stream");
  v.required("number", m.number,
             "the last number that the reader is done with; 0 makes a cursor that holds the whole "
             "stream, and the same number again keeps a cursor from expiring");
}
void fields(auto& v, Is<Acknowledged> auto& m) {
  v.required("number", m.number, "the cursor's number now; it never goes back");
}
void fields(auto& v, Is<Watch> auto& m) {
  v.field("stream", m.stream, short_name, "the stream's name; a session watches up to 64");
  v.field("on", m.on, "false: send no more of them");
}
void fields(auto& v, Is<Watching> auto& m) {
  v.required("stream", m.stream, "as asked");
  v.field("on", m.on, "as asked");
}
void fields(auto& v, Is<PartialEntry> auto& m) {
  v.field("lease", m.lease, "the job's lease, from engines; 0 to clients");
  v.field("job", m.job, "the job's id, to clients");
  v.field("custom_id", m.custom_id, "the job's label, to clients");
  v.field("attempt", m.attempt,
          "which hand-out this is, to clients; another one starts again from the beginning");
  v.field("choice", m.partial.choice, "the number of the answer, from 0 to n - 1");
  v.field("first_token", m.partial.first_token,
          "how many tokens of the choice came before, which tells where some were missed");
  v.field("tokens", m.partial.tokens, "the tokens since");
  v.field("text", m.partial.text,
          "the text since, as far as it can no longer become a stop string or a marker");
  v.field("reasoning", m.partial.reasoning, "the reasoning since, under the same condition");
  v.field("tool_calls", m.partial.tool_calls, "the tool calls that have become whole");
}
void fields(auto& v, Is<Partials> auto& m) {
  v.field("stream", m.stream, "the stream, to clients");
  v.required("entries", m.entries, "one entry for each choice");
}

// ---- engines
void fields(auto& v, Is<Ready> auto& m) {
  v.required("credit", m.credit,
             "how many more jobs the engine would take now; it replaces the credit before");
}
void fields(auto& v, Is<Lease> auto& m) {
  v.required("lease", m.lease,
             "the fencing token, which every later message about the job carries");
  v.required("job", m.job, "the job's id");
  v.field("attempt", m.attempt, "how often the job was handed out, this time included");
  v.field("alone", m.alone,
          "run it with no other job, because engines died while it ran; other leases may come and "
          "must wait");
  v.field("submitted_us", m.submitted_us, "Unix time of the submission");
  v.body("body", m.body, "job", "the job");
  v.field("prefix", m.prefix,
          "a number that jobs have in common whose prompts begin with the same kibibyte; 0: the "
          "prompt is shorter. Heartbeats announce it");
}
void fields(auto& v, Is<Leases> auto& m) {
  v.required("leases", m.leases, "the jobs");
}
void fields(auto& v, Is<Heartbeat> auto& m) {
  v.field(
      "leases", m.leases,
      "all leases that the engine holds, including those whose end `committed` has not named yet");
  v.field("steps", m.steps,
          "how many steps the engine has completed: an engine whose steps stand still loses its "
          "leases");
  v.field("tokens", m.tokens, "how many tokens it has computed");
  v.field("credit", m.credit, "as in `ready`");
  v.field("rows", m.rows, "how many sequences the current step has; 0: no step is running");
  v.field("waiting", m.waiting,
          "those of `leases` that no step computes: their prompts are prepared and they wait for "
          "their first step, or they have ended. If the engine dies, these are not blamed. An "
          "engine that does not know leaves them out");
  v.field("prefixes", m.prefixes,
          "the `prefix` of leases, also of those that have ended, whose prompts' beginnings the "
          "engine still holds in its cache, those used last first: at most 256. It gets jobs with "
          "the same beginnings before other engines do. An engine that does not know leaves them "
          "out");
  fields(v, m.load);
}
void fields(auto& v, Is<Begun> auto& m) {
  v.required("leases", m.leases, "the leases");
}
void fields(auto& v, Is<HeartbeatAnswer> auto& m) {
  v.field("lost", m.lost, "leases that are no longer this engine's: stop them and send nothing");
  v.field("cancelled", m.cancelled, "cancel these and send their results");
  v.field("drain", m.drain, "take no more, finish or release what is held, and then leave");
}
void fields(auto& v, Is<JobEnd> auto& m) {
  v.required("lease", m.lease, "the lease that the job ran under");
  v.required("state", m.state, "`completed`, `failed` or `cancelled`");
  v.optional_body("result", m.result, "generation_result",
                  "what was generated or scored; a completed job has it");
  v.field("error", m.error,
          "why there is no result, or no whole one; a failed job has it, a completed one must not");
}
void fields(auto& v, Is<Ends> auto& m) {
  v.required("ends", m.ends, "the ends");
}
void fields(auto& v, Is<Committed> auto& m) {
  v.field("committed", m.committed, "these are on disk, and the engine may forget them");
  v.field(
      "stale", m.stale,
      "these were refused, because the lease was not the current one, or because the broker has "
      "restarted since it committed them; forget them too");
}
void fields(auto& v, Is<Release> auto& m) {
  v.required("leases", m.leases, "the leases");
}

}  // namespace millrace
