#include "engine/worker/traced_executor.hpp"

#include <utility>

#include "schemas/codec.hpp"
#include "schemas/trace/context.hpp"

namespace millrace::worker {
namespace {

double seconds(std::uint64_t us) {
  return static_cast<double>(us) * 1e-6;
}

const char* operation_of(const GenerationRequest& request) {
  if (request.task == millrace::Task::score) return "score";
  return std::holds_alternative<Chat>(request.prompt) ? "chat" : "text_completion";
}

void add_request(const GenerationRequest& request, trace::Attributes& to) {
  if (request.task == millrace::Task::score) return;
  to.add("gen_ai.request.temperature", request.sampling.temperature);
  to.add("gen_ai.request.top_p", request.sampling.top_p);
  if (request.sampling.top_k > 0) {
    to.add("gen_ai.request.top_k", static_cast<double>(request.sampling.top_k));
  }
  if (request.sampling.seed) {
    to.add("gen_ai.request.seed", *request.sampling.seed);
  }
  if (request.max_tokens) to.add("gen_ai.request.max_tokens", *request.max_tokens);
  if (request.n > 1) to.add("gen_ai.request.choice.count", request.n);
  if (!request.stops.strings.empty()) {
    to.add("gen_ai.request.stop_sequences", request.stops.strings);
  }
}

void add_result(const GenerationResult& result, trace::Attributes& to) {
  to.add("gen_ai.usage.input_tokens", result.usage.prompt_tokens);
  to.add("gen_ai.usage.cache_read.input_tokens", result.usage.cached_tokens);
  to.add("gen_ai.usage.output_tokens", result.usage.completion_tokens);
  if (result.usage.reasoning_tokens > 0) {
    to.add("gen_ai.usage.reasoning.output_tokens", result.usage.reasoning_tokens);
  }
  std::vector<std::string> reasons;
  for (const Choice& choice : result.choices) {
    reasons.emplace_back(wire_name(choice.finish_reason));
  }
  if (!reasons.empty()) to.add("gen_ai.response.finish_reasons", std::move(reasons));
  to.add("gen_ai.latency.time_in_queue", seconds(result.times.queue_us));
  if (result.times.first_token_us > 0) {
    to.add("gen_ai.latency.time_to_first_token", seconds(result.times.first_token_us));
  }
}

}  // namespace

TracedExecutor::~TracedExecutor() {
  for (auto& [lease, span] : open_) {
    span.end_us = clock_.wall_us();
    span.attributes.add("error.type", "given_back");
    exporter_.add(std::move(span));
  }
}

void TracedExecutor::add(Task task) {
  const auto parent = trace::context_of(
      {{trace::parent_field, task.traceparent}, {trace::state_field, task.tracestate}});
  const trace::JobPlace job = trace::place_of_job(parent, task.job, task.submitted_us);
  if (exporter_.sampler().takes(parent, job.trace)) {
    const std::string& model = info().engine.facts.model;
    const std::string operation = operation_of(task.request);
    trace::Span span{job.trace, trace::new_span_id(), job.span, job.state, operation + " " + model};
    span.start_us = clock_.wall_us();
    span.attributes.add("gen_ai.operation.name", operation).add("gen_ai.provider.name", "millrace");
    span.attributes.add("gen_ai.request.model", model).add("gen_ai.response.model", model);
    span.attributes.add("gen_ai.response.id", task.job).add("messaging.message.id", task.job);
    span.attributes.add("millrace.engine", name_);
    if (!task.custom_id.empty()) span.attributes.add("millrace.custom_id", task.custom_id);
    add_request(task.request, span.attributes);
    open_.insert_or_assign(task.lease, std::move(span));
  }
  ExecutorAround::add(std::move(task));
}

std::vector<Ended> TracedExecutor::take_ends() {
  std::vector<Ended> ends = ExecutorAround::take_ends();
  for (const Ended& ended : ends) {
    if (auto found = open_.extract(ended.lease)) end(std::move(found.mapped()), ended);
  }
  return ends;
}

ExecutorCounts TracedExecutor::counts() const {
  ExecutorCounts counts = ExecutorAround::counts();
  const trace::ExportCounts spans = exporter_.counts();
  counts.spans_sent = spans.sent;
  counts.spans_dropped = spans.dropped;
  return counts;
}

void TracedExecutor::end(trace::Span span, const Ended& ended) {
  span.end_us = clock_.wall_us();
  if (ended.error) {
    span.attributes.add("error.type", std::string(code_name(ended.error->code)));
    span.error = ended.error->message;
  } else {
    add_result(ended.result, span.attributes);
    const auto first_us = static_cast<std::int64_t>(ended.result.times.first_token_us);
    if (first_us > 0) span.events.push_back({span.start_us + first_us, "first_token"});
  }
  exporter_.add(std::move(span));
}

}  // namespace millrace::worker
