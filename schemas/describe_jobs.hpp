#pragma once
// The fields of the messages about stored jobs and batches.
// The visitor is that of describe.hpp, which includes this file. Thread safety: pure functions.
#include "schemas/describe_result.hpp"
#include "schemas/messages.hpp"

namespace millrace {

// The forms of names and ids in messages to the broker.
inline constexpr Label short_label{limits::id_bytes}, short_name{limits::id_bytes, true};

void fields(auto& v, Is<Cancel> auto& m) {
  v.field("jobs", m.jobs, Labels{limits::list_items, limits::id_bytes}, "job ids");
  v.field("batch", m.batch, short_label, "a batch, in place of ids");
}
void fields(auto& v, Is<Cancelled> auto& m) {
  v.field("cancelled", m.cancelled, "these were queued and ended at once");
  v.field("requested", m.requested, "these are with an engine, which is told and will end them");
  v.field("ended", m.ended, "these had ended before");
  v.field("unknown", m.unknown, "these do not exist");
}
void fields(auto& v, Is<Retry> auto& m) {
  v.field("jobs", m.jobs, Labels{limits::list_items, limits::id_bytes}, "job ids");
  v.field("batch", m.batch, short_label, "a batch, in place of ids");
}
void fields(auto& v, Is<Retried> auto& m) {
  v.field("retried", m.retried, "these are queued again");
  v.field("not_failed", m.not_failed, "these had not failed and were left alone");
  v.field("unknown", m.unknown, "these do not exist");
}
void fields(auto& v, Is<Drop> auto& m) {
  v.field("jobs", m.jobs, Labels{limits::list_items, limits::id_bytes}, "job ids");
  v.field("batch", m.batch, short_label, "a batch, in place of ids");
}
void fields(auto& v, Is<Dropped> auto& m) {
  v.field("dropped", m.dropped, "these are forgotten");
  v.field("not_failed", m.not_failed, "these had not failed and were left alone");
  v.field("unknown", m.unknown, "these do not exist");
}
void fields(auto& v, Is<JobInfo> auto& m) {
  v.required("job", m.job, "the job's id");
  v.field("custom_id", m.custom_id, "the job's label");
  v.field("model", m.model, "the model that it asks for");
  v.field("stream", m.stream, "the stream of its result");
  v.field("batch", m.batch, "its batch");
  v.required("state", m.state, "its state");
  v.field("priority", m.priority, "its priority");
  v.field("attempts", m.attempts, "how often it was handed out");
  v.field("failures", m.failures,
          "how many failures of engines count against it: deaths while it ran alone, and errors "
          "after which it may run again");
  v.field("max_attempts", m.max_attempts, "with so many failures it ends as failed");
  v.field("suspect", m.suspect, "an engine died with it and others: they run again in groups");
  v.field("submitted_us", m.submitted_us, "Unix time of the submission");
  v.field("not_before_us", m.not_before_us,
          "it waits until this Unix time: as it asks, or after an engine's error");
  v.field("paused", m.paused,
          "it is queued, and its batch, its model or all jobs of the tenant are paused");
  v.field("deadline_us", m.deadline_us, "Unix time at which it expires");
  v.field("ended_us", m.ended_us, "Unix time of its end");
  v.field("number", m.number, "the number of its result in its stream; 0: there is none");
  v.field("engine", m.engine, "the name of the engine that runs it");
  v.field("error", m.error, "why it failed, or the error after which it is to run again");
}
void fields(auto& v, Is<JobsRequest> auto& m) {
  v.field("job", m.job, short_label, "one job's id; the other fields are not read then");
  v.field("batch", m.batch, short_label, "only jobs of this batch");
  v.field("stream", m.stream, short_label, "only jobs whose results go to this stream");
  v.field("state", m.state, "only jobs in this state");
  v.field("after", m.after, short_label,
          "`next` of the answer before, to the same question; empty: from the beginning");
}
void fields(auto& v, Is<JobsAnswer> auto& m) {
  v.field("jobs", m.jobs, "the jobs");
  v.field("more", m.more, "there may be further ones: ask again, with `next` as `after`");
  v.field("next", m.next, "where the next answer goes on; its form is the broker's own");
}
void fields(auto& v, Is<BatchState> auto& m) {
  v.required("batch", m.batch, "the batch's name");
  v.field("counts", m.counts, "its jobs by state, as far as they are kept");
  v.field("created_us", m.created_us, "Unix time of its first job");
  v.field("closed", m.closed, "it takes no new jobs");
  v.field("finished_us", m.finished_us,
          "Unix time since which it is closed and all its jobs have ended");
  v.field("paused", m.paused,
          "it is paused, or all jobs of the tenant are: its queued jobs are not handed out");
  v.field("number", m.number,
          "the number of the entry in the stream `batches` that tells so; 0: there is none");
  v.field("stream", m.stream, "the stream of its first job");
  v.field("first", m.first,
          "its results in that stream have this number or a higher one; 0: unknown, for batches "
          "that an earlier version stored");
  v.field("metadata", m.metadata, "what was set with `change_batch`");
  v.field("jobs_per_second", m.jobs_per_second,
          "how fast its jobs ended in the last five minutes; 0: none did, or none for ten times as "
          "long as ever before");
  v.field("eta_s", m.eta_s, "seconds until all have ended at that rate; absent while it is paused");
}
void fields(auto& v, Is<BatchesRequest> auto& m) {
  v.field("batch", m.batch, short_label, "the batch; one that does not exist is `not_found`");
  v.field("after", m.after, short_label, "of all batches, those whose names come after this one");
  v.field("unfinished", m.unfinished, "of all batches, those with jobs that have not ended");
}
void fields(auto& v, Is<BatchesAnswer> auto& m) {
  v.field("batches", m.batches, "the batches");
  v.field("more", m.more, "there may be further ones: ask again, with `next` as `after`");
  v.field("next", m.next, "the name after which the next answer goes on; empty without `more`");
}
void fields(auto& v, Is<ChangeBatch> auto& m) {
  v.required("batch", m.batch, short_name, "the batch, which has a job");
  v.field("close", m.close,
          "true: it takes no new jobs from now on, and finishes when all its jobs have ended");
  v.field("metadata", m.metadata, Dictionary{limits::metadata_entries, limits::metadata_bytes},
          "strings by name to set; an empty one removes the name. Others stay");
}
void fields(auto& v, Is<BatchChanged> auto& m) {
  v.required("batch", m.batch, "the batch as it is now");
}
void fields(auto& v, Is<ChangePause> auto& m) {
  v.field("batch", m.batch, short_label, "the batch, which has a job");
  v.field("model", m.model, short_label,
          "a model that engines have served here: the queue of the jobs that name it; `*` is the "
          "queue of the jobs that take any model");
  v.field("all", m.all, "all jobs of the tenant");
  v.field("paused", m.paused, "true: queued jobs are not handed out; false: they are again");
}
void fields(auto& v, Is<PauseChanged> auto& m) {
  v.field("changed", m.changed, "false: it was paused, or not paused, before");
}

}  // namespace millrace
