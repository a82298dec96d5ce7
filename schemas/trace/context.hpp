#pragma once
// The place of a span in a trace, as W3C Trace Context writes it: `traceparent` and `tracestate`.
// Thread safety: pure functions.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::trace {

// The names of both in a job's metadata and in the header of a request.
inline constexpr const char* parent_field = "traceparent";
inline constexpr const char* state_field = "tracestate";

struct Context {
  std::string trace;     // 32 hex digits
  std::string span;      // 16 hex digits
  bool sampled = false;  // who made it records its spans
  std::string state{};   // of vendors; spans pass it on as it is
  friend bool operator==(const Context&, const Context&) = default;
};

// None: the text is no traceparent. A later version than 00 is read as far as 00 goes.
std::optional<Context> parse_parent(std::string_view text);
std::string parent_text(const Context& context);  // "00-TRACE-SPAN-01"

// The context that a job's metadata names. None: it names none, or a damaged one.
std::optional<Context> context_of(const std::map<std::string, std::string>& metadata);

std::string new_trace_id();
std::string new_span_id();

// Where a job's span is. The broker and the engine each derive its ids: so the engine's span is a
// child of the broker's, and no message has to say so. A job whose metadata names no context begins
// a trace of its own; the time of its submission sets it apart from the same job in another ledger.
struct JobPlace {
  std::string trace, span;
  std::string parent;  // empty: none
  std::string state;
};
JobPlace place_of_job(const std::optional<Context>& parent, std::string_view job,
                      std::int64_t submitted_us);

}  // namespace millrace::trace
