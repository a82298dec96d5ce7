#include "client/commands/load_text.hpp"

#include <array>
#include <cstdio>

#include "client/run/progress_text.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 96> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

std::string jobs_text(std::uint64_t jobs, const char* what, std::uint64_t tokens) {
  return grouped(jobs) + (jobs == 1 ? " job " : " jobs ") + what +
         (tokens == 0 ? "" : ", about " + grouped(tokens) + " tokens");
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string short_number(std::uint64_t number) {
  const auto value = static_cast<double>(number);
  for (const auto& [name, unit] :
       {std::pair("T", 1e12), std::pair("G", 1e9), std::pair("M", 1e6), std::pair("k", 1e3)}) {
    if (value >= unit) {
      return text(value >= 100 * unit ? "%.0f%s" : "%.1f%s", value / unit, name);
    }
  }
  return std::to_string(number);
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? ""
                    : text("%.0f %%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string rows_text(const EngineInfo& engine) {
  const EngineLoad& load = engine.load;
  return "rows " + std::to_string(engine.rows) +
         (load.max_rows == 0 ? "" : " of " + std::to_string(load.max_rows)) +
         (load.waiting_jobs == 0 ? ""
                                 : ", " + count_text(load.waiting_jobs, "job") +
                                       (load.waiting_jobs == 1 ? " waits" : " wait"));
}

std::string speed_text(const EngineInfo& engine) {
  std::string out = text("%.1f tokens/s", engine.tokens_per_second);
  if (engine.prompt_tokens_per_second > 0 || engine.completion_tokens_per_second > 0) {
    out += text(" (prompts %.1f, answers %.1f)", engine.prompt_tokens_per_second,
                engine.completion_tokens_per_second);
  }
  return out;
}

std::string kv_use_text(const EngineLoad& load) {
  if (load.kv_pool_tokens == 0) {
    return "";
  }
  return "kv " + grouped(load.kv_used_tokens) + " of " + grouped(load.kv_pool_tokens) +
         " tokens (" + share_text(load.kv_used_tokens, load.kv_pool_tokens) + ")" +
         (load.kv_pool_bytes == 0
              ? ""
              : ", " + size_text(load.kv_used_bytes) + " of " + size_text(load.kv_pool_bytes));
}

std::string prefix_text(const EngineLoad& load) {
  if (load.prefix_tokens == 0 && load.cached_tokens == 0) {
    return "";
  }
  return "prefix cache " + grouped(load.prefix_tokens) + " tokens" +
         (load.prompt_tokens == 0 ? ""
                                  : "; " + share_text(load.cached_tokens, load.prompt_tokens) +
                                        " of the tokens of prompts came from it");
}

std::string queue_text(const TenantQueue& queue) {
  std::string out = jobs_text(queue.queued, "queued", queue.queued_tokens) + "; " +
                    jobs_text(queue.leased, "leased", queue.leased_tokens);
  if (queue.oldest_ms) {
    out += "; the oldest waits for " + duration_text(static_cast<double>(*queue.oldest_ms) / 1e3);
  }
  return out + (queue.paused ? "; paused" : "");
}

}  // namespace millrace::client
