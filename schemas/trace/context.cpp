#include "schemas/trace/context.hpp"

#include <algorithm>

#include "schemas/base/hash.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::trace {
namespace {

constexpr std::size_t trace_digits = 32, span_digits = 16;
constexpr std::size_t length = 55;        // of version 00
constexpr std::size_t state_bytes = 512;  // longer ones may be left out

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

// Only the characters that the header may have: a job's metadata is text, and takes no others.
bool is_state(std::string_view text) {
  return text.size() <= state_bytes &&
         std::ranges::all_of(text, [](char c) { return c >= 0x20 && c <= 0x7e; });
}

int digit(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

}  // namespace

std::optional<Context> parse_parent(std::string_view text) {
  if (text.size() < length || !is_hex(text.substr(0, 2)) || text.starts_with("ff")) return {};
  if (text.starts_with("00") ? text.size() != length
                             : text.size() > length && text[length] != '-') {
    return {};
  }
  const std::string_view trace = text.substr(3, trace_digits), span = text.substr(36, span_digits);
  const std::string_view flags = text.substr(53, 2);
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  if (!is_id(trace) || !is_id(span) || !is_hex(flags)) return {};
  return Context{std::string(trace), std::string(span), (digit(flags[1]) & 1) != 0};
}

std::string parent_text(const Context& context) {
  return "00-" + context.trace + "-" + context.span + (context.sampled ? "-01" : "-00");
}

std::optional<Context> context_of(const std::map<std::string, std::string>& metadata) {
  const auto parent = metadata.find(parent_field);
  if (parent == metadata.end()) return {};
  auto context = parse_parent(parent->second);
  const auto state = metadata.find(state_field);
  if (context && state != metadata.end() && is_state(state->second)) {
    context->state = state->second;
  }
  return context;
}

std::string new_trace_id() {
  return random_id();
}

std::string new_span_id() {
  return hex(random_bits() | 1);
}

JobPlace place_of_job(const std::optional<Context>& parent, std::string_view job,
                      std::int64_t submitted_us) {
  const std::string name = std::to_string(submitted_us) + "/" + std::string(job);
  JobPlace place;
  if (parent) {
    place = {parent->trace, {}, parent->span, parent->state};
  } else {
    place.trace = hash128(name).hex();
  }
  place.span = hex(hash64(place.trace + place.parent + name) | 1);  // 0 is no id
  return place;
}

}  // namespace millrace::trace
