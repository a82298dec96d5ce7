#pragma once
// A span: one piece of work of a trace, as OpenTelemetry describes it. Thread safety: plain values.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace millrace::trace {

struct Attribute {
  using Value = std::variant<std::string, std::int64_t, double, bool, std::vector<std::string>>;
  std::string name;
  Value value;
};

class Attributes {
 public:
  // The value is a text, a number, a truth or a list of texts.
  template <class T>
  Attributes& add(std::string name, T value) {
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      return put(std::move(name), static_cast<std::int64_t>(value));
    } else if constexpr (std::floating_point<T>) {
      return put(std::move(name), static_cast<double>(value));
    } else if constexpr (std::convertible_to<T, std::string>) {
      return put(std::move(name), std::string(std::move(value)));
    } else {
      return put(std::move(name), std::move(value));
    }
  }
  const std::vector<Attribute>& list() const { return list_; }

 private:
  Attributes& put(std::string name, Attribute::Value value) {
    list_.push_back({std::move(name), std::move(value)});
    return *this;
  }
  std::vector<Attribute> list_;
};

struct SpanEvent {
  std::int64_t at_us = 0;  // Unix time
  std::string name;
  Attributes attributes{};
};

enum class SpanKind : std::uint8_t { internal = 1, server, client, producer, consumer };

struct Span {
  std::string trace, id;
  std::string parent;   // empty: the span is the root of its trace
  std::string state{};  // tracestate
  std::string name;
  SpanKind kind = SpanKind::internal;
  std::int64_t start_us = 0, end_us = 0;  // Unix times
  Attributes attributes{};
  std::vector<SpanEvent> events{};
  std::uint32_t events_left_out = 0;
  std::optional<std::string> error{};  // what went wrong; absent: nothing
};

}  // namespace millrace::trace
