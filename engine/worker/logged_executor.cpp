#include "engine/worker/logged_executor.hpp"

#include <utility>

#include "schemas/base/log.hpp"

namespace millrace::worker {
namespace {

constexpr std::uint64_t us_per_ms = 1'000;

}  // namespace

void LoggedExecutor::add(Task task) {
  Names names{task.job, task.custom_id, task.traceparent};
  LogFieldList fields;
  fields.add({"job", names.job}).add({"custom_id", names.custom_id}).add({"lease", task.lease});
  if (!names.traceparent.empty()) fields.add({"traceparent", names.traceparent});
  log(LogLevel::debug, "a job is taken up", fields.list());
  held_.insert_or_assign(task.lease, std::move(names));
  ExecutorAround::add(std::move(task));
}

std::vector<Ended> LoggedExecutor::take_ends() {
  std::vector<Ended> ends = ExecutorAround::take_ends();
  for (const Ended& ended : ends) {
    const auto found = held_.extract(ended.lease);
    const Names names = found.empty() ? Names() : found.mapped();
    const Usage& usage = ended.result.usage;
    const EngineTimes& times = ended.result.times;
    LogFieldList fields;
    fields.add({"job", names.job}).add({"custom_id", names.custom_id}).add({"lease", ended.lease});
    if (!names.traceparent.empty()) fields.add({"traceparent", names.traceparent});
    if (ended.error) {
      fields.add({"error", code_name(ended.error->code)}).add({"said", ended.error->message});
    } else {
      fields.add({"cancelled", ended.cancelled}).add({"prompt_tokens", usage.prompt_tokens});
      fields.add({"cached_tokens", usage.cached_tokens});
      fields.add({"completion_tokens", usage.completion_tokens});
      fields.add({"queue_ms", times.queue_us / us_per_ms});
      fields.add({"first_token_ms", times.first_token_us / us_per_ms});
      fields.add({"total_ms", times.total_us / us_per_ms});
    }
    log(LogLevel::debug, "a job has ended", fields.list());
  }
  return ends;
}

}  // namespace millrace::worker
