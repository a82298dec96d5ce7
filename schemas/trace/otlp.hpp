#pragma once
// Spans as OpenTelemetry's protocol (OTLP) writes them in JSON, and the answer to them.
// Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "schemas/trace/span.hpp"

namespace millrace::trace {

// The body of an ExportTraceServiceRequest. `resource` says which program the spans are of.
std::string otlp_json(const Attributes& resource, std::span<const Span> spans);

// What a receiver did not take although it answered 200, and why.
struct Partly {
  std::uint64_t rejected = 0;
  std::string message;
};
// A body that is no JSON, or says nothing of it, rejects nothing.
Partly read_answer(std::string_view body);

}  // namespace millrace::trace
