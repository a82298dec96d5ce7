#pragma once
// The names of an engine's metrics. They end like those of vLLM, and mean the same, so that
// dashboards and autoscalers need another prefix only. Counters count from the engine's start.
// Thread safety: constants.
#include "schemas/base/metrics/page.hpp"

namespace millrace::worker::metric {

using enum metrics::Kind;
using metrics::Metric;

inline constexpr Metric running{"millrace_num_requests_running", gauge, "model_name",
                                "Jobs that steps compute."};
inline constexpr Metric waiting{"millrace_num_requests_waiting", gauge, "model_name",
                                "Jobs that the engine holds and that no step has computed yet."};
inline constexpr Metric kv_usage{
    "millrace_kv_cache_usage_perc", gauge, "model_name",
    "Share of the KV cache's pages that running jobs hold; 1 is all of them."};
inline constexpr Metric prompt_tokens{"millrace_prompt_tokens_total", counter, "model_name",
                                      "Tokens of prompts, also those found in the prefix cache."};
inline constexpr Metric generation_tokens{"millrace_generation_tokens_total", counter, "model_name",
                                          "Tokens generated."};
inline constexpr Metric prefix_queries{
    "millrace_prefix_cache_queries_total", counter, "model_name",
    "Tokens of prompts that were looked up in the prefix cache."};
inline constexpr Metric prefix_hits{"millrace_prefix_cache_hits_total", counter, "model_name",
                                    "Of these, tokens that were found there."};
inline constexpr Metric preemptions{
    "millrace_num_preemptions_total", counter, "model_name",
    "Times that a running job gave its pages back, to be computed again."};
inline constexpr Metric steps{"millrace_engine_steps_total", counter, "model_name",
                              "Steps of the engine."};
inline constexpr Metric success{"millrace_request_success_total", counter,
                                "model_name finished_reason",
                                "Texts that ended, by their reason; of a job that is only scored, "
                                "one with the reason scored."};
inline constexpr Metric failure{"millrace_request_failure_total", counter, "model_name reason",
                                "Jobs that ended with an error, by its code."};
inline constexpr Metric first_token{"millrace_time_to_first_token_seconds", histogram, "model_name",
                                    "From the engine's acceptance of a job to its first token."};
inline constexpr Metric token_gap{"millrace_inter_token_latency_seconds", histogram, "model_name",
                                  "Between two tokens of a text."};
inline constexpr Metric latency{"millrace_e2e_request_latency_seconds", histogram, "model_name",
                                "From the engine's acceptance of a job to its end."};
inline constexpr Metric queue_time{"millrace_request_queue_time_seconds", histogram, "model_name",
                                   "From the engine's acceptance of a job to its first step."};
inline constexpr Metric spans_sent{"millrace_spans_sent_total", counter, "model_name",
                                   "Spans of traces that the receiver has taken."};
inline constexpr Metric spans_dropped{
    "millrace_spans_dropped_total", counter, "model_name",
    "Spans that it has not taken, or for which there was no room."};

inline constexpr const Metric* all[] = {
    &running,     &waiting,     &kv_usage,   &prompt_tokens, &generation_tokens, &prefix_queries,
    &prefix_hits, &preemptions, &steps,      &success,       &failure,           &first_token,
    &token_gap,   &latency,     &queue_time, &spans_sent,    &spans_dropped};

// The bounds of the times, in seconds: those of vLLM, and longer ones, because batch jobs may wait
// and run for hours.
inline constexpr double first_token_bounds[] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,  0.75,   1,
    2.5,   5,     7.5,  10,   20,   40,   80,   160, 640,  2560, 10'240, 40'960};
inline constexpr double request_bounds[] = {0.3, 0.5, 0.8, 1,    1.5,  2,      2.5,    5,
                                            10,  15,  20,  30,   40,   50,     60,     120,
                                            240, 480, 960, 1920, 7680, 15'360, 43'200, 86'400};

}  // namespace millrace::worker::metric
