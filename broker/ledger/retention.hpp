#pragma once
// How long a ledger keeps what has ended: the limits of streams, cursors and jobs. Everywhere 0
// means without limit. Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::broker {

// What a stream keeps. An entry goes when it is older than `age_us`, or when the entries from it on
// have more than `bytes`. A named cursor that has not passed the entry holds it, up to
// `cursor_hold` times either limit. A cursor that was not moved for `cursor_age_us` is deleted.
struct Retention {
  std::int64_t age_us = 0;
  std::uint64_t bytes = 0;  // of bodies
  std::int64_t cursor_age_us = 0;
  friend bool operator==(const Retention&, const Retention&) = default;
};
inline constexpr std::int64_t cursor_hold = 2;

// The limits that were set for one stream. Those that are absent are the ledger's defaults.
struct StreamLimits {
  std::optional<std::int64_t> age_us;
  std::optional<std::uint64_t> bytes;
  std::optional<std::int64_t> cursor_age_us;
  friend bool operator==(const StreamLimits&, const StreamLimits&) = default;
};

struct RetentionPolicy {
  Retention streams;            // of streams without limits of their own
  std::int64_t job_age_us = 0;  // of a job, counted from its end
  friend bool operator==(const RetentionPolicy&, const RetentionPolicy&) = default;
};

constexpr Retention limits_of(const StreamLimits& set, const Retention& defaults) {
  return {set.age_us.value_or(defaults.age_us), set.bytes.value_or(defaults.bytes),
          set.cursor_age_us.value_or(defaults.cursor_age_us)};
}

// Names that begin with $ are the broker's own: their streams are kept whole and not shown.
constexpr bool is_reserved(std::string_view stream) {
  return stream.starts_with('$');
}

}  // namespace millrace::broker
