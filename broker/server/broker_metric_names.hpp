#pragma once
// The names of a broker's metrics. Counters count from the broker's start; seconds, bytes and
// counts are the only units. Thread safety: constants.
#include "schemas/base/metrics/page.hpp"

namespace millrace::broker::metric {

using enum metrics::Kind;
using metrics::Metric;

// ---- jobs
inline constexpr Metric jobs{"millrace_jobs", gauge, "tenant state",
                             "Jobs that the ledger holds, by state."};
inline constexpr Metric submitted{"millrace_jobs_submitted_total", counter, "tenant",
                                  "Jobs newly stored."};
inline constexpr Metric deduplicated{
    "millrace_jobs_deduplicated_total", counter, "tenant",
    "Jobs that were submitted again and answered with the stored one."};
inline constexpr Metric handed_out{"millrace_jobs_handed_out_total", counter, "tenant",
                                   "Hand-outs of jobs to engines."};
inline constexpr Metric completed{"millrace_jobs_completed_total", counter, "tenant",
                                  "Jobs that ended with a result."};
inline constexpr Metric failed{"millrace_jobs_failed_total", counter, "tenant reason",
                               "Jobs that ended with an error, by its code."};
inline constexpr Metric cancelled{"millrace_jobs_cancelled_total", counter, "tenant",
                                  "Jobs that were cancelled."};
inline constexpr Metric expired{"millrace_jobs_expired_total", counter, "tenant",
                                "Jobs whose deadline passed."};
inline constexpr Metric retried{
    "millrace_jobs_retried_total", counter, "tenant cause",
    "Jobs queued again, after an engine's error or because a client asked (request)."};
inline constexpr Metric rejected{"millrace_jobs_rejected_total", counter, "tenant reason",
                                 "Jobs that were not stored, by the error's code."};
inline constexpr Metric jobs_forgotten{"millrace_jobs_forgotten_total", counter, "",
                                       "Ended jobs that are no longer kept."};

// ---- queue
inline constexpr Metric oldest_age{
    "millrace_queue_oldest_age_seconds", gauge, "tenant",
    "How long the oldest job waits that an engine could take now; 0 where none waits."};
inline constexpr Metric queue_jobs{
    "millrace_queue_jobs", gauge, "tenant model_name",
    "Jobs that wait and that an engine could take now, by the model that they name; * is any."};
inline constexpr Metric queue_tokens{
    "millrace_queue_tokens", gauge, "tenant model_name",
    "Tokens of these jobs, of prompts and of answers at their longest; of many jobs an estimate."};
inline constexpr Metric leased_tokens{
    "millrace_leased_tokens", gauge, "model_name",
    "Tokens, counted likewise, of the jobs that engines connected to this broker hold."};
inline constexpr Metric queue_time{"millrace_queue_time_seconds", histogram, "tenant",
                                   "From a job's submission to its first hand-out."};
inline constexpr Metric batches{"millrace_batches", gauge, "tenant state",
                                "Batches: open, closed, paused or finished."};
inline constexpr Metric tenants{"millrace_tenants", gauge, "",
                                "Tenants in the ledger; only the first 100 appear by name."};

// ---- engines
inline constexpr Metric lease_expired{"millrace_lease_expired_total", counter, "",
                                      "Leases that were not renewed in time."};
inline constexpr Metric stale_results{
    "millrace_stale_results_total", counter, "",
    "Results refused because their engine no longer held the lease."};
inline constexpr Metric engines_died{"millrace_engines_died_total", counter, "",
                                     "Engines that went silent or whose process ended."};
inline constexpr Metric engines_hung{"millrace_engines_hung_total", counter, "",
                                     "Engines that held jobs and made no step."};

// ---- store
inline constexpr Metric commit_seconds{"millrace_store_commit_seconds", histogram, "",
                                       "Time of one commit of the ledger."};
inline constexpr Metric commit_operations{"millrace_store_commit_ops", histogram, "",
                                          "Operations in one commit."};
inline constexpr Metric sync_seconds{"millrace_store_fsync_seconds", histogram, "",
                                     "Of a commit, the time of the disk's sync."};
inline constexpr Metric wait_seconds{
    "millrace_store_wait_seconds", histogram, "",
    "From the moment an operation is asked for until it is on disk."};
inline constexpr Metric store_waiting{"millrace_store_waiting", gauge, "",
                                      "Operations that wait for the next commit."};
inline constexpr Metric store_retries{"millrace_store_errors_total", counter, "",
                                      "Commits that found the ledger unavailable."};
inline constexpr Metric store_bytes{"millrace_store_bytes", gauge, "",
                                    "Size of the ledger's file."};
inline constexpr Metric store_log_bytes{"millrace_store_wal_bytes", gauge, "",
                                        "Size of the ledger's write-ahead log."};
inline constexpr Metric store_free_bytes{"millrace_store_free_bytes", gauge, "",
                                         "Free space on the ledger's disk."};

// ---- streams
inline constexpr Metric stream_last{"millrace_stream_last_seq", gauge, "tenant stream",
                                    "Number of the last result in a stream."};
inline constexpr Metric stream_bytes{"millrace_stream_bytes", gauge, "tenant stream",
                                     "Bytes of the results that a stream keeps."};
inline constexpr Metric cursor_lag{"millrace_cursor_lag", gauge, "tenant stream consumer",
                                   "Results after the one that a cursor has acknowledged."};
inline constexpr Metric results_trimmed{"millrace_results_trimmed_total", counter, "",
                                        "Results that are no longer kept."};

// ---- connections
inline constexpr Metric sessions{"millrace_sessions", gauge, "role",
                                 "Clients and engines that are connected."};
inline constexpr Metric handshakes_failed{
    "millrace_handshake_failed_total", counter, "reason",
    "Connections refused: an unknown key, or a handshake or subscription that failed."};
inline constexpr Metric decode_errors{"millrace_decode_errors_total", counter, "",
                                      "Messages that could not be read."};
inline constexpr Metric messages_refused{"millrace_messages_refused_total", counter, "",
                                         "Messages answered with an error as a whole."};
inline constexpr Metric messages_unauthorized{"millrace_messages_unauthorized_total", counter, "",
                                              "Of these, those that their key does not allow."};
inline constexpr Metric messages_dropped{
    "millrace_messages_dropped_total", counter, "",
    "Messages that could not be delivered, or whose frames could not be read."};

// ---- traces
inline constexpr Metric spans_sent{"millrace_spans_sent_total", counter, "",
                                   "Spans of traces that the receiver has taken."};
inline constexpr Metric spans_dropped{
    "millrace_spans_dropped_total", counter, "",
    "Spans that it has not taken, or for which there was no room."};

inline constexpr const Metric* all[] = {&jobs,
                                        &submitted,
                                        &deduplicated,
                                        &handed_out,
                                        &completed,
                                        &failed,
                                        &cancelled,
                                        &expired,
                                        &retried,
                                        &rejected,
                                        &jobs_forgotten,
                                        &oldest_age,
                                        &queue_jobs,
                                        &queue_tokens,
                                        &leased_tokens,
                                        &queue_time,
                                        &batches,
                                        &tenants,
                                        &lease_expired,
                                        &stale_results,
                                        &engines_died,
                                        &engines_hung,
                                        &commit_seconds,
                                        &commit_operations,
                                        &sync_seconds,
                                        &wait_seconds,
                                        &store_waiting,
                                        &store_retries,
                                        &store_bytes,
                                        &store_log_bytes,
                                        &store_free_bytes,
                                        &stream_last,
                                        &stream_bytes,
                                        &cursor_lag,
                                        &results_trimmed,
                                        &sessions,
                                        &handshakes_failed,
                                        &decode_errors,
                                        &messages_refused,
                                        &messages_unauthorized,
                                        &messages_dropped,
                                        &spans_sent,
                                        &spans_dropped};

}  // namespace millrace::broker::metric
