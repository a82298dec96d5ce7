#pragma once
// The fields of a broker's status: its counts, its engines with their load, and its queues. The
// visitor is that of describe.hpp, which includes this file. Thread safety: pure functions.
#include "schemas/describe_jobs.hpp"

namespace millrace {

void fields(auto& v, Is<StatusRequest> auto& m) {
  v.field("job", m.job, short_label, "a job's id");
  v.field("batch", m.batch, short_label, "a batch's name");
  v.field("stream", m.stream, short_label, "a stream's name");
  v.field("queues", m.queues, "also asks for `queues`");
}
void fields(auto& v, Is<EngineLoad> auto& m) {
  v.field("max_rows", m.max_rows,
          "the most sequences that a step can have; 0: the engine does not tell");
  v.field("waiting_jobs", m.waiting_jobs, "how many of its jobs wait for their first step");
  v.field("kv_used_tokens", m.kv_used_tokens,
          "the tokens whose keys and values running sequences hold, in whole pages; a shared page "
          "counts once");
  v.field("kv_pool_tokens", m.kv_pool_tokens,
          "the tokens that the KV memory holds; 0: the engine does not tell");
  v.field("kv_used_bytes", m.kv_used_bytes, "the bytes of the pages that running sequences hold");
  v.field("kv_pool_bytes", m.kv_pool_bytes, "the bytes of all pages");
  v.field("prefix_tokens", m.prefix_tokens,
          "the tokens of prompts' beginnings whose pages the prefix cache holds, whether a "
          "sequence uses them or not");
  v.field(
      "prompt_tokens", m.prompt_tokens,
      "the tokens of prompts since the engine's start, those found in the prefix cache included");
  v.field("cached_tokens", m.cached_tokens, "those of them that were found in the prefix cache");
  v.field("completion_tokens", m.completion_tokens,
          "the tokens generated since the engine's start");
}
void fields(auto& v, Is<EngineInfo> auto& m) {
  v.field("name", m.name, "a name for people");
  fields(v, m.engine);
  v.field("leases", m.leases, "how many jobs it holds");
  v.field("rows", m.rows,
          "how many sequences its current step had at its last heartbeat; jobs that wait inside "
          "the engine have none");
  v.field("tokens_per_second", m.tokens_per_second, "its speed between its last two heartbeats");
  v.field("silent_ms", m.silent_ms, "the time since the broker last heard from it");
  fields(v, m.load);
  v.field("prompt_tokens_per_second", m.prompt_tokens_per_second,
          "tokens of prompts between its last two heartbeats, those found in the prefix cache "
          "included");
  v.field("completion_tokens_per_second", m.completion_tokens_per_second,
          "tokens generated between its last two heartbeats");
}
void fields(auto& v, Is<TenantQueue> auto& m) {
  v.required("tenant", m.tenant, "the tenant");
  v.field("queued", m.queued, "its jobs that wait, also those that wait for a time or are paused");
  v.field(
      "queued_tokens", m.queued_tokens,
      "about how many tokens these are, prompts and answers: each job counts as in the shares of "
      "tenants, and of a long queue the first jobs tell what the others are; 0: unknown, or none");
  v.field("leased", m.leased, "its jobs that engines hold");
  v.field("leased_tokens", m.leased_tokens, "about how many tokens these are");
  v.field("oldest_ms", m.oldest_ms,
          "how long the oldest job waits that an engine could take now; absent: none does");
  v.field("paused", m.paused, "all its jobs are paused");
}
void fields(auto& v, Is<StatusAnswer> auto& m) {
  v.field("counts", m.counts, "the jobs of the batch, or all jobs, by state");
  v.field("state", m.state, "the state of the job");
  v.field("attempts", m.attempts, "how often the job was handed out");
  v.field("job_stream", m.job_stream, "the stream of the job's result");
  v.field("job_batch", m.job_batch, "the job's batch");
  v.field("job_number", m.job_number,
          "the number of the job's result in its stream; 0: it has not ended");
  v.field("job_waits", m.job_waits,
          "why the queued job waits: for its time, until what is paused is resumed, or because no "
          "connected engine can run it, which policies engines run, and what is missing");
  v.field("epoch", m.epoch, "the epoch of the stream");
  v.field("first", m.first, "the first number that the stream keeps");
  v.field("high", m.high, "the last number written to the stream");
  v.field("engines", m.engines, "the engines that are connected, in the order of their names");
  v.field("draining", m.draining, "the broker is shutting down and takes no new work");
  v.field("paused", m.paused, "the batch is paused, or all jobs are");
  v.field("paused_models", m.paused_models, "the models whose queues are paused");
  v.field("refuses", m.refuses,
          "why the broker takes no new jobs, where the disk had no room for the last ones");
  v.field("queues", m.queues,
          "the queues by tenant, where they are asked for: that of the asking key's tenant, or of "
          "all tenants, the first 100 by name, for a key that may operate the broker");
  v.field("more_queues", m.more_queues, "there are more tenants than `queues` tells of");
}

}  // namespace millrace
