// The end of a batch: its results become files. Each step may be repeated after a crash.
#include <utility>

#include "http/batches/batch_run.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t us_per_s = 1'000 * us_per_ms;

using openai::BatchStatus;

void end(openai::BatchObject& object, std::int64_t now_s) {
  if (!object.errors.empty()) {  // its input went away
    object.status = BatchStatus::failed;
    object.failed_s = now_s;
  } else if (object.status == BatchStatus::cancelling) {
    object.status = BatchStatus::cancelled;
    object.cancelled_s = now_s;
  } else if (object.expired_s) {
    object.status = BatchStatus::expired;
  } else {
    object.status = BatchStatus::completed;
    object.completed_s = now_s;
  }
}

}  // namespace

// Moves what was written to its place among the files. False: nothing was written.
Result<bool> BatchRun::publish(const StoredBatch& batch, const std::string& what,
                               const std::string& id) {
  const std::string from = path(what.c_str());
  MILLRACE_ASSIGN(const bool there, parts_.env.exists(from));
  auto file = there ? parts_.env.open(from, OpenMode::read) : parts_.files.open_data(id);
  if (!file && file.error().code == Code::not_found) return false;
  if (!file) return fail(std::move(file).error());
  MILLRACE_ASSIGN(const std::uint64_t bytes, (*file)->size());
  if (bytes == 0) {
    MILLRACE_TRY(parts_.env.remove(from));
    return false;
  }
  StoredFile made{.tenant = batch.tenant, .created_us = parts_.clock.wall_us(), .object = {}};
  made.object = {.id = id,
                 .bytes = bytes,
                 .created_s = made.created_us / us_per_s,
                 .filename = id_ + "_" + (what == "errors" ? "error" : "output") + ".jsonl",
                 .purpose = std::string(openai::output_purpose)};
  if (batch.output_expires_s) {
    made.object.expires_s =
        made.object.created_s + static_cast<std::int64_t>(*batch.output_expires_s);
  }
  MILLRACE_TRY(parts_.files.add(std::move(made), from));
  return true;
}

Status BatchRun::finish() {
  if (!batch_.finishing) {
    MILLRACE_TRY(settle());
    const std::uint64_t failed = output_->failed_lines(), lines = output_->lines();
    output_.reset();
    MILLRACE_ASSIGN(batch_, parts_.batches.change(id_, [&](StoredBatch& batch) -> Status {
      batch.finishing = true;
      batch.object.completed = lines - failed;
      batch.object.failed = failed;
      batch.object.finalizing_s = parts_.clock.wall_us() / us_per_s;
      if (batch.object.status == BatchStatus::in_progress) {
        batch.object.status = BatchStatus::finalizing;
      }
      return {};
    }));
  }
  MILLRACE_ASSIGN(const bool has_output, publish(batch_, "output", batch_.output));
  MILLRACE_ASSIGN(const bool has_errors, publish(batch_, "errors", batch_.errors));
  MILLRACE_ASSIGN(batch_, parts_.batches.change(id_, [&](StoredBatch& batch) -> Status {
    if (has_output) batch.object.output_file = batch.output;
    if (has_errors) batch.object.error_file = batch.errors;
    end(batch.object, parts_.clock.wall_us() / us_per_s);
    return {};
  }));
  over_ = true;
  if (parts_.env.exists(path("checkpoint")).value_or(false)) {
    MILLRACE_TRY(parts_.env.remove(path("checkpoint")));
  }
  session_.ask(ChangeBatch{.batch = id_, .close = true, .metadata = {}});
  if (may_remove_) session_.ask(Remove{.stream = id_, .cursor = {}});
  return {};
}

}  // namespace millrace::http
