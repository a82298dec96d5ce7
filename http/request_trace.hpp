#pragma once
// The trace of one request: what its jobs say of it, and its span, where it is recorded. A request
// names its caller's span in the header `traceparent`; without one the sampler may begin a trace.
// Thread safety: one thread at a time.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "http/request.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/trace/exporter.hpp"

namespace millrace::http {

class RequestTrace {
 public:
  // `exporter` may be null: there is no span then, but the caller's is passed on.
  RequestTrace(const Request& request, std::shared_ptr<trace::Exporter> exporter);

  // For the metadata of its jobs; empty: nothing.
  const std::string& parent() const { return parent_; }
  const std::string& state() const { return state_; }
  void add(std::string name, trace::Attribute::Value value);
  // Ends the span; only the first call counts. `error` is a code, or says that the client has gone.
  void end(int status, const std::string& error = {});

 private:
  const std::shared_ptr<trace::Exporter> exporter_;
  const SystemClock clock_;
  std::string parent_, state_;
  std::optional<trace::Span> span_;  // none: it is not recorded, or it has ended
};

}  // namespace millrace::http
