#include "http/request_trace.hpp"

#include <utility>

#include "schemas/trace/context.hpp"

namespace millrace::http {
namespace {

constexpr int server_error = 500;

}  // namespace

RequestTrace::RequestTrace(const Request& request, std::shared_ptr<trace::Exporter> exporter)
    : exporter_(std::move(exporter)) {
  const auto caller =
      trace::context_of({{trace::parent_field, std::string(request.header(trace::parent_field))},
                         {trace::state_field, std::string(request.header(trace::state_field))}});
  if (caller) {
    parent_ = trace::parent_text(*caller);
    state_ = caller->state;
  }
  if (!exporter_) return;
  const std::string id = caller ? caller->trace : trace::new_trace_id();
  if (!exporter_->sampler().takes(caller, id)) {
    // Broker and engine would draw again for a job that names no trace.
    if (!caller && exporter_->sampler().takes_roots()) {
      parent_ = trace::parent_text({id, trace::new_span_id(), false});
    }
    return;
  }
  trace::Span span{id, trace::new_span_id(), caller ? caller->span : "", state_,
                   request.method + " " + request.path};
  span.kind = trace::SpanKind::server;
  span.start_us = clock_.wall_us();
  span.attributes.add("http.request.method", request.method);
  span.attributes.add("http.route", request.path).add("url.path", request.path);
  span.attributes.add("client.address", request.peer);
  parent_ = trace::parent_text({span.trace, span.id, true});
  span_ = std::move(span);
}

void RequestTrace::add(std::string name, trace::Attribute::Value value) {
  if (span_) span_->attributes.add(std::move(name), std::move(value));
}

void RequestTrace::end(int status, const std::string& error) {
  if (!span_) return;
  span_->end_us = clock_.wall_us();
  span_->attributes.add("http.response.status_code", status);
  if (!error.empty()) span_->attributes.add("error.type", error);
  // What a client did wrong is no error of the server's span.
  if (status >= server_error) span_->error = error;
  exporter_->add(*std::exchange(span_, std::nullopt));
}

}  // namespace millrace::http
