#pragma once
// Every limit of the product. Sizes are in bytes; the end of a time's name is its unit.
#include <cstdint>

namespace millrace::limits {

inline constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

// Messages
inline constexpr std::uint64_t frame_bytes = 64 * MiB;   // one ZeroMQ frame (MAXMSGSIZE)
inline constexpr std::uint64_t job_bytes = 8 * MiB;      // one job's msgpack body
inline constexpr std::uint64_t result_bytes = 32 * MiB;  // an engine's result as msgpack
// What the broker adds to it: ids, metadata, warnings and an error.
inline constexpr std::uint64_t facts_bytes = 1 * MiB;
inline constexpr std::uint64_t published_bytes = result_bytes + facts_bytes;
inline constexpr std::uint64_t error_text_bytes = 16 * KiB;  // an engine's message, or its hint
inline constexpr std::uint32_t jobs_per_submit = 10'000;
inline constexpr std::uint32_t message_depth = 40;
// msgpack objects in one frame. A node takes at least a byte, so a frame of lease_bytes or
// fetch_bytes always passes.
inline constexpr std::uint32_t message_nodes = 20'000'000;
inline constexpr std::uint32_t job_depth = 32;         // of a job by itself: tools nest deep
inline constexpr std::uint32_t body_depth = 8;         // of a published result by itself
inline constexpr std::uint32_t body_nodes = 200'000;   // longer token lists must be `bin`
inline constexpr std::uint32_t facts_nodes = 1'000;    // what the broker adds to a result
inline constexpr std::uint32_t job_warnings = 100;     // further ones are only counted
inline constexpr std::uint32_t map_keys = 128;         // keys of one map
inline constexpr std::uint32_t list_items = 10'000;    // items of one list of a message
inline constexpr std::uint64_t lease_bytes = 4 * MiB;  // of one Leases; its first job may exceed it
inline constexpr std::uint32_t id_bytes = 256;         // job, batch, stream, cursor and custom ids
inline constexpr std::uint32_t metadata_entries = 64;
inline constexpr std::uint32_t metadata_bytes = 16 * KiB;

// Jobs
inline constexpr std::uint32_t n = 128;
inline constexpr std::uint32_t job_tokens = 1'048'576;  // n x max_tokens
inline constexpr std::uint32_t top_logprobs = 128;
inline constexpr std::uint32_t listed_logprobs = 128;
inline constexpr std::uint32_t stop_strings = 64;
inline constexpr std::uint32_t stop_string_bytes = 1024;
inline constexpr std::uint32_t stop_token_ids = 1024;
inline constexpr std::uint32_t stop_sequences = 256;
inline constexpr std::uint32_t stop_sequence_tokens = 64;
inline constexpr std::uint32_t markers = 16;
inline constexpr std::uint32_t marker_bytes = 256;
inline constexpr std::uint32_t repetition_pattern = 1024;  // tokens; each draw checks every size
inline constexpr std::uint32_t repetition_count = 1024;
inline constexpr std::uint32_t chat_messages = 4096;
inline constexpr std::uint32_t tools = 1024;
inline constexpr std::uint32_t template_kwargs = 64;
// The text of a KV policy: 1,024 layers, as many as a model may have, each unlike the one before.
inline constexpr std::uint64_t kv_bytes = 16 * KiB;
inline constexpr std::uint32_t logit_bias = 1024;  // tokens with a bias; the bias is within +-100
inline constexpr float logit_bias_value = 100.0f;
inline constexpr float additive_penalty = 2.0f;     // presence and frequency, of either sign
inline constexpr float repetition_penalty = 10.0f;  // the least is its inverse
inline constexpr std::uint32_t penalty_window = 1'048'576;
inline constexpr std::uint32_t ngram = 64;
inline constexpr std::uint32_t allowed_token_ids = 65'536;
inline constexpr std::uint32_t bad_words = 1024;
inline constexpr std::uint32_t bad_word_bytes = 1024;
inline constexpr std::uint32_t bad_word_tokens = 64;
inline constexpr float dry_multiplier = 100.0f;
inline constexpr float dry_base = 10.0f;
inline constexpr std::uint32_t dry_length = 64;    // longer repeats count as this long
inline constexpr std::uint32_t dry_window = 4096;  // bounds the search of each draw
inline constexpr std::uint32_t dry_breakers = 64;
inline constexpr float temperature = 100.0f;
inline constexpr std::uint32_t priority_count = 5;  // 0 is served first
inline constexpr std::uint32_t priority_default = 2;
inline constexpr std::uint32_t max_attempts = 100;
inline constexpr std::uint32_t max_attempts_default = 2;  // failures of engines
// The pause after an engine's error, four times as long after each further one.
inline constexpr std::uint32_t retry_pause_ms = 2'000;
inline constexpr std::uint32_t retry_pause_most_ms = 600'000;

// Input lines of `millrace run` and `submit`
inline constexpr std::uint64_t line_bytes = 8 * MiB;

// Broker
inline constexpr std::uint32_t sessions = 4096;
inline constexpr std::uint32_t sessions_per_tenant = 1024;
inline constexpr std::uint32_t leases_per_engine = 2048;
inline constexpr std::uint32_t engines = 1'000;
inline constexpr std::uint32_t kv_policies_per_engine = 16;
inline constexpr std::uint32_t prefixes_per_engine = 256;  // that a heartbeat announces
inline constexpr std::uint32_t capabilities = 64;          // of a hello
inline constexpr std::uint64_t hello_bytes = 64 * KiB;     // the broker keeps most of a hello
inline constexpr std::uint64_t queued_jobs = 50'000'000;
inline constexpr std::uint32_t group_commit_operations = 256;
inline constexpr std::uint32_t group_commit_wait_us = 2'000;  // only where several came at once
// A database that says nothing for this long is not waited for by a broker that has to stop.
inline constexpr std::uint32_t ledger_silence_ms = 10'000;
inline constexpr std::uint32_t heartbeat_ms = 1'000;
inline constexpr std::uint32_t lease_ms = 15'000;  // a lease without renewal ends after this
// An engine that holds leases and makes no step for this long counts as hung. The time is long
// because a first step may compile kernels.
inline constexpr std::uint32_t hang_ms = 60'000;
inline constexpr std::uint32_t session_idle_ms = 300'000;
// When all sessions are in use, a client that was silent this long loses its session to a new one.
inline constexpr std::uint32_t session_yield_ms = 10'000;
inline constexpr std::uint32_t requests_per_session = 64;  // not yet answered
// Jobs that were submitted and are not yet committed, of all sessions together, and their bytes.
inline constexpr std::uint32_t pending_jobs = 100'000;
inline constexpr std::uint64_t pending_bytes = 256 * MiB;
inline constexpr std::uint32_t jobs_per_claim = 256;
inline constexpr std::uint32_t doorbell_ms = 1'000;  // interval between repeats of the last number
inline constexpr std::uint32_t socket_high_water_mark = 1'000;
// A message from a client or to the push socket. ZeroMQ queues a few of each peer.
inline constexpr std::uint64_t client_frame_bytes = 16 * MiB;
inline constexpr std::uint32_t client_receive_queue = 4;
inline constexpr std::uint32_t engine_receive_queue = 16;
// Answers to clients: ZeroMQ queues a few messages for each peer; further ones wait in the broker,
// up to these bytes and messages for one peer and for all peers. Beyond them the session ends. A
// peer for which none waits may get one answer of any size.
inline constexpr std::uint32_t client_high_water_mark = 2;
inline constexpr std::uint64_t unread_bytes = 16 * MiB;
inline constexpr std::uint32_t unread_messages = 1'000;
inline constexpr std::uint64_t unread_bytes_all = 256 * MiB;
inline constexpr std::uint32_t watched_streams = 64;  // of a session
inline constexpr std::uint32_t cursors_per_stream = 1'000;
inline constexpr std::uint64_t keep_s = 3'155'760'000;  // a hundred years
inline constexpr std::uint32_t listed = 1'000;          // streams in one answer
inline constexpr std::uint32_t listed_jobs = 250;       // jobs in one answer
inline constexpr std::uint32_t scanned_jobs = 1'000;    // looked through for one answer
inline constexpr std::uint32_t retention_rows = 32;     // entries and jobs that one step deletes
inline constexpr std::uint32_t retention_rows_most = 1'024;  // where commits are slow
inline constexpr std::uint64_t ballast_bytes = 16 * MiB;
// Free space of the ledger's disk. Below the first mark the broker takes no new jobs, until there
// is as much as the second; below the third it warns.
inline constexpr std::uint64_t disk_low_bytes = ballast_bytes, disk_high_bytes = 2 * ballast_bytes;
inline constexpr std::uint64_t disk_warn_bytes = 1 * GiB;
// What refusals for want of room suggest as the time until the next try.
inline constexpr std::uint32_t retry_commit_ms = 100;  // jobs wait for their commit
// A queue has room again when one job has ended, which may take an engine milliseconds or minutes:
// a producer asks again soon, and later each time that it is refused again.
inline constexpr std::uint32_t retry_queue_ms = 100;
inline constexpr std::uint32_t retry_session_ms = 500;  // requests or sessions
inline constexpr std::uint32_t retry_start_ms = 2'000;  // the broker starts or stops
inline constexpr std::uint32_t retry_room_ms = 5'000;   // the disk is full
inline constexpr std::uint32_t retry_most_ms =
    60'000;  // a client waits no longer, whatever is suggested
inline constexpr std::uint32_t fetch_entries = 1'000;  // one DATA message
inline constexpr std::uint64_t fetch_bytes = 1 * MiB;  // likewise; its first entry may exceed it
inline constexpr std::uint64_t least_fetch_bytes = 64 * KiB;  // where many readers share the memory
inline constexpr std::uint32_t reads_at_once = 4;             // of all readers

}  // namespace millrace::limits
