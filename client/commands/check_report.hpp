#pragma once
// What `millrace check` found, and how it is printed. Thread safety: the main thread.
#include <cstdint>
#include <optional>

#include "client/lines/input_check.hpp"
#include "client/run/observer.hpp"

namespace millrace::client {

struct CheckReport {
  InputReport input;
  std::uint64_t repeated_ids = 0;  // lines whose custom_id an earlier one has
  // With a model:
  std::uint32_t context_tokens = 0;  // 0: without one
  std::uint64_t prompt_tokens = 0;
  std::uint64_t longest_prompt = 0;          // tokens
  std::uint64_t most_completion_tokens = 0;  // if no text ends before its max_tokens
  std::optional<RunProgress> trial{};        // of some of the lines
};

// How long all lines take, by the tokens and the time of the trial. Nothing without one.
std::optional<double> estimated_seconds(const CheckReport& report);

void print_check_report(const CheckReport& report, bool json);

}  // namespace millrace::client
