#include "engine/core/request/suggested_sampling.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "engine/core/gguf/cursor.hpp"
#include "schemas/base/check_request.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view prefix = "general.sampling.";
// The keys that are read. mirostat_tau and mirostat_eta count only with mirostat.
constexpr auto keys_read = std::to_array<std::string_view>(
    {"temp", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold", "penalty_repeat",
     "penalty_last_n", "mirostat", "mirostat_tau", "mirostat_eta"});

std::string key(std::string_view name) {
  return std::string(prefix) + std::string(name);
}

std::unexpected<Error> wrong(std::string_view name, std::int64_t value, const char* allowed) {
  return fail(Code::invalid_value, key(name) + " is " + std::to_string(value) + "; " + allowed,
              "give sampling fields in the job instead");
}

std::unexpected<Error> no_setting(std::string_view name) {
  return fail(Code::unsupported_field, key(printable(name)) + " has no setting in Millrace",
              "give sampling fields in the job instead");
}

Status check_keys(const Metadata& metadata) {
  for (const std::string_view full : metadata.keys()) {
    if (!full.starts_with(prefix)) continue;
    const std::string_view name = full.substr(prefix.size());
    if (std::ranges::find(keys_read, name) == keys_read.end()) return no_setting(name);
  }
  MILLRACE_ASSIGN(const auto mirostat, metadata.find<std::int64_t>(key("mirostat")));
  if (mirostat.value_or(0) != 0) return no_setting("mirostat");
  return {};
}

// Reads a count of which llama.cpp, whose keys these are, takes any number up to zero as off.
Result<std::optional<std::uint32_t>> top_k(const Metadata& metadata) {
  MILLRACE_ASSIGN(const auto count, metadata.find<std::int64_t>(key("top_k")));
  if (!count) return std::nullopt;
  if (*count > std::numeric_limits<std::uint32_t>::max()) {
    return wrong("top_k", *count, "it must fit 32 bits");
  }
  return static_cast<std::uint32_t>(std::max<std::int64_t>(*count, 0));
}

// Reads the number of tokens that the penalty looks back at: -1 means all of them, 0 turns the
// penalty off. A job says 0 for all, and a penalty of 1 for off.
Status read_penalty(const Metadata& metadata, SuggestedSampling& out) {
  MILLRACE_ASSIGN(out.repetition_penalty, metadata.find<float>(key("penalty_repeat")));
  MILLRACE_ASSIGN(const auto last, metadata.find<std::int64_t>(key("penalty_last_n")));
  if (!last || !out.repetition_penalty) return {};
  if (*last < -1 || *last > std::numeric_limits<std::uint32_t>::max()) {
    return wrong("penalty_last_n", *last, "it must be -1, 0 or a number of tokens");
  }
  if (*last == 0) {
    out.repetition_penalty = 1.0f;
  } else {
    out.repetition_penalty_window = static_cast<std::uint32_t>(std::max<std::int64_t>(*last, 0));
  }
  return {};
}

void fill(const SuggestedSampling& suggested, GenerationRequest& request) {
  const auto take = [&](const char* name, const auto& from, auto& to) {
    const auto& given = request.given_sampling;
    if (from && std::ranges::find(given, name) == given.end()) to = *from;
  };
  Sampling& sampling = request.sampling;
  take("temperature", suggested.temperature, sampling.temperature);
  take("top_k", suggested.top_k, sampling.top_k);
  take("top_p", suggested.top_p, sampling.top_p);
  take("min_p", suggested.min_p, sampling.min_p);
  take("xtc_probability", suggested.xtc_probability, sampling.xtc_probability);
  take("xtc_threshold", suggested.xtc_threshold, sampling.xtc_threshold);
  Penalty& repetition = request.edits.repetition;
  take("repetition_penalty", suggested.repetition_penalty, repetition.value);
  take("repetition_penalty_window", suggested.repetition_penalty_window, repetition.window);
}

// Checks the values as those of a job.
Status check_values(const SuggestedSampling& suggested) {
  GenerationRequest request;
  request.prompt = "x";
  fill(suggested, request);
  const Status checked = check_request(request);
  if (checked) return {};
  return fail(Code::invalid_value,
              "the suggestion of " + key("*") + " is out of range: " + checked.error().message,
              "give sampling fields in the job instead");
}

}  // namespace

Result<SuggestedSampling> suggested_sampling(const Metadata& metadata) {
  SuggestedSampling out;
  MILLRACE_TRY(check_keys(metadata));
  MILLRACE_ASSIGN(out.temperature, metadata.find<float>(key("temp")));
  MILLRACE_ASSIGN(out.top_k, top_k(metadata));
  MILLRACE_ASSIGN(out.top_p, metadata.find<float>(key("top_p")));
  MILLRACE_ASSIGN(out.min_p, metadata.find<float>(key("min_p")));
  MILLRACE_ASSIGN(out.xtc_probability, metadata.find<float>(key("xtc_probability")));
  MILLRACE_ASSIGN(out.xtc_threshold, metadata.find<float>(key("xtc_threshold")));
  MILLRACE_TRY(read_penalty(metadata, out));
  MILLRACE_TRY(check_values(out));
  return out;
}

Status apply_suggestion(const SuggestedSampling& suggested, const std::string& problem,
                        GenerationRequest& request) {
  if (!suggested.any()) {
    return fail(Code::unsupported_field,
                "sampling: the job asks for the model's sampling, but " +
                    (problem.empty() ? "the model's file suggests none"
                                     : "that of the model's file cannot be used: " + problem),
                "leave sampling out, or give the sampling fields in the job");
  }
  fill(suggested, request);
  return {};
}

}  // namespace millrace::engine
