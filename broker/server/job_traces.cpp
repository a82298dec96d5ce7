#include "broker/server/job_traces.hpp"

#include "schemas/codec.hpp"
#include "schemas/trace/context.hpp"

namespace millrace::broker {
namespace {

const char* event_name(JobStep step) {
  switch (step) {
    case JobStep::leased:
      return "leased";
    case JobStep::given_back:
      return "given_back";
    case JobStep::partial:
      return "partial";
    case JobStep::ended:
      break;
  }
  return "ended";
}

}  // namespace

void JobTraces::take(const JobNews& news, std::int64_t now_us) {
  if (news.end) {
    end(*news.end, now_us);
  } else {
    note(news, now_us);
  }
}

void JobTraces::note(const JobNews& news, std::int64_t now_us) {
  const Key key(news.tenant, news.job);
  auto found = open_.find(key);
  if (found == open_.end()) {
    if (open_.size() >= jobs_kept) {
      open_.erase(order_.front());
      order_.pop_front();
    }
    found = open_.emplace(key, Open{{}, 0, order_.insert(order_.end(), key)}).first;
  }
  Open& open = found->second;
  if (open.events.size() >= events_of_a_job) {
    ++open.left_out;
    return;
  }
  trace::SpanEvent event{now_us, event_name(news.step)};
  if (news.step == JobStep::leased) {
    event.attributes.add("millrace.engine", news.engine).add("millrace.attempt", news.attempt);
  }
  open.events.push_back(std::move(event));
}

void JobTraces::end(const FinishReply& end, std::int64_t now_us) {
  Open open;
  if (const auto found = open_.find({end.tenant, end.job}); found != open_.end()) {
    open = std::move(found->second);
    order_.erase(open.place);
    open_.erase(found);
  }
  const auto labels = decode_labels(end.labels);
  const auto parent = labels ? trace::context_of(labels->metadata) : std::nullopt;
  trace::JobPlace place = trace::place_of_job(parent, end.job, end.submitted_us);
  if (end.submitted_us == 0 || !exporter_->sampler().takes(parent, place.trace)) return;
  trace::Span span{place.trace, place.span, place.parent, place.state, "job"};
  span.kind = trace::SpanKind::consumer;
  span.start_us = end.submitted_us;
  span.end_us = now_us;
  span.attributes.add("messaging.system", "millrace");
  span.attributes.add("messaging.operation.type", "process");
  span.attributes.add("messaging.operation.name", "job");
  span.attributes.add("messaging.message.id", end.job);
  span.attributes.add("messaging.destination.name", end.stream);
  span.attributes.add("millrace.tenant", end.tenant);
  if (!end.batch.empty()) span.attributes.add("millrace.batch", end.batch);
  span.attributes.add("millrace.state", std::string(wire_name(end.state)));
  span.attributes.add("millrace.attempts", end.attempts);
  span.attributes.add("millrace.number", end.number);
  if (end.state != JobState::completed) {
    const std::string reason(end.reason ? code_name(*end.reason) : wire_name(end.state));
    span.attributes.add("error.type", reason);
    if (end.state != JobState::cancelled) span.error = reason;
  }
  span.events = std::move(open.events);
  span.events.insert(span.events.begin(), {end.submitted_us, "queued"});
  span.events_left_out = open.left_out;
  exporter_->add(std::move(span));
}

}  // namespace millrace::broker
