#pragma once
// The words that messages use for enumerations. Thread safety: pure functions.
#include <array>
#include <optional>
#include <string_view>

#include "schemas/messages.hpp"

namespace millrace::wire {

template <class E>
struct Names;
template <>
struct Names<Role> {
  static constexpr std::array<std::string_view, 2> all = {"client", "engine"};
};
template <>
struct Names<Task> {
  static constexpr std::array<std::string_view, 2> all = {"generate", "score"};
};
template <>
struct Names<JobState> {
  static constexpr std::array<std::string_view, 6> all = {"queued", "leased",    "completed",
                                                          "failed", "cancelled", "expired"};
};
template <>
struct Names<FinishReason> {
  static constexpr std::array<std::string_view, 5> all = {"stop", "length", "cancelled", "error",
                                                          "repetition"};
};
template <>
struct Names<MarkedPart> {
  static constexpr std::array<std::string_view, 3> all = {"reasoning", "tool_call", "channel"};
};
template <>
struct Names<KnownMarkers> {
  static constexpr std::array<std::string_view, 3> all = {"none", "reasoning", "auto"};
};
template <>
struct Names<SamplingSource> {
  static constexpr std::array<std::string_view, 2> all = {"job", "model"};
};
template <>
struct Names<LogprobMode> {
  static constexpr std::array<std::string_view, 2> all = {"raw", "processed"};
};
template <>
struct Names<ToolChoice> {
  static constexpr std::array<std::string_view, 2> all = {"auto", "none"};
};
template <>
struct Names<PenaltyScope> {
  static constexpr std::array<std::string_view, 2> all = {"prompt+output", "output"};
};

template <class E>
constexpr std::string_view to_name(E value) {
  return Names<E>::all[static_cast<std::size_t>(value)];
}
template <class E>
constexpr std::optional<E> from_name(std::string_view name) {
  for (std::size_t i = 0; i < Names<E>::all.size(); ++i) {
    if (Names<E>::all[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace millrace::wire
