#pragma once
// Which spans are recorded. Programs of one trace decide alike, because all look at the trace's id
// or at what its first program has decided. Thread safety: plain values.
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"
#include "schemas/trace/context.hpp"

namespace millrace::trace {

class Sampler {
 public:
  Sampler() = default;  // a job with a traceparent as that says, and no other

  // The names and arguments of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG: always_on,
  // always_off, traceidratio, and parentbased_ before each of them. Errors: usage.
  static Result<Sampler> named(std::string_view name, std::string_view argument);

  // Whether a span of this trace is recorded; `parent` is what the job or request names, if it
  // does.
  bool takes(const std::optional<Context>& parent, std::string_view trace) const;
  // Whether work without a parent can be taken at all.
  bool takes_roots() const { return ratio_ > 0; }

 private:
  bool by_parent_ = true;
  double ratio_ = 0;  // of the traces that no parent decides on
};

}  // namespace millrace::trace
