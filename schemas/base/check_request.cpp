#include "schemas/base/check_request.hpp"

#include <algorithm>
#include <string>

#include "schemas/base/changed_fields.hpp"
#include "schemas/base/check_field.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/request_fields.hpp"

namespace millrace {
namespace {

std::unexpected<Error> wrong(std::string what, std::string hint) {
  return fail(Code::invalid_value, std::move(what), std::move(hint));
}

Status check_lengths(const GenerationRequest& request) {
  const std::string most = std::to_string(limits::job_tokens);
  if (request.max_tokens == 0u && request.task == Task::generate) {
    return wrong("max_tokens is 0",
                 "give a number from 1 to " + most +
                     "; to score a given text use task \"score\", or in the body of a completion "
                     "\"echo\": true");
  }
  const std::uint64_t length = request.max_tokens.value_or(default_max_tokens(request));
  if (request.n * length > limits::job_tokens) {
    return fail(
        Code::limit_exceeded,
        "n x max_tokens is " + std::to_string(request.n * length) + ", the limit is " + most,
        "ask for fewer answers, or shorter ones");
  }
  // The length of the rest of a context is not known here.
  if (length != 0 && request.min_tokens > length) {
    return wrong("min_tokens is " + std::to_string(request.min_tokens) +
                     ", more than max_tokens, which is " + std::to_string(length),
                 "lower min_tokens or raise max_tokens");
  }
  return {};
}

Status check_sampling(const Sampling& sampling) {
  // The sampler counts the weights that XTC leaves in units of 2^-40 of the likeliest token's.
  constexpr float least_threshold = 1e-6f;
  if (sampling.xtc_probability == 0 || sampling.xtc_threshold >= least_threshold) return {};
  return check_value("xtc_threshold", sampling.xtc_threshold, Range{least_threshold, 0.5});
}

// A header that never ended could say nothing about a text. If one marker contained another, the
// longer one could never be found.
Status check_markers(const std::vector<Marker>& list) {
  for (std::size_t a = 0; a < list.size(); ++a) {
    if (list[a].part == MarkedPart::channel && list[a].close.empty()) {
      return wrong(item_name("markers", a) + ".close is empty, but a channel's header must end",
                   "give the text that ends the header");
    }
    for (std::size_t b = 0; b < list.size(); ++b) {
      if (a == b || list[a].open.find(list[b].open) == std::string::npos) continue;
      return wrong(item_name("markers", a) + ".open holds " + item_name("markers", b) +
                       ".open, \"" + list[b].open + "\"",
                   "give markers of which none holds another");
    }
  }
  return {};
}

Status check_repetition(const RepetitionDetection& detection) {
  if (detection.min_pattern_size <= std::max(detection.max_pattern_size, 1u)) return {};
  return wrong("repetition_detection.min_pattern_size is " +
                   std::to_string(detection.min_pattern_size) + ", max_pattern_size " +
                   std::to_string(detection.max_pattern_size),
               "lower min_pattern_size or raise max_pattern_size");
}

Status check_logprobs(const LogprobRequest& logprobs, Task task) {
  if (logprobs.sampled || logprobs.prompt || task == Task::score) return {};
  const char* hint = "add \"logprobs\": true or \"prompt_logprobs\": true";
  if (logprobs.top > 0) {
    return wrong("top_logprobs is " + std::to_string(logprobs.top) +
                     ", but logprobs of no token are asked for",
                 hint);
  }
  if (!logprobs.listed.empty()) {
    return wrong("logprob_token_ids are given, but logprobs of no token are asked for", hint);
  }
  return {};
}

// A score job samples nothing, so a field that edits logits or ends a text is refused as a mistake.
// Temperature and its like are accepted, because many clients send them with every request.
Status check_score(const GenerationRequest& request) {
  if (request.task != Task::score) return {};
  const auto meaningless = [](std::string_view field) {
    return wrong(std::string(field) + " has no meaning for a score job",
                 "leave it out, or use task \"generate\"");
  };
  if (request.n != 1) return meaningless("n");
  if (request.max_tokens.value_or(0) != 0) return meaningless("max_tokens");
  if (request.min_tokens != 0) return meaningless("min_tokens");
  auto names = changed_names(request, [](auto& v, const GenerationRequest& of) {
    fields(v, of.edits);
    end_fields(v, of);
  });
  // A text that is not generated has no parts, as the job says.
  if (request.markers.known == KnownMarkers::none) std::erase(names, "markers");
  if (!names.empty()) return meaningless(names.front());
  if (request.logprobs.mode != LogprobMode::raw) return meaningless("logprob_mode");
  return {};
}

// Nothing but a chat template reads these.
Status check_chat(const GenerationRequest& request) {
  const bool tools = !request.chat.tools.empty();
  if (std::holds_alternative<Chat>(request.prompt) ||
      (!tools && request.chat.template_kwargs.empty()))
    return {};
  const char* field = tools ? "tools" : "chat_template_kwargs";
  return wrong(std::string(field) + " has no meaning without messages",
               "give the prompt as messages, or leave it out");
}

Status check_kv(const GenerationRequest& request) {
  if (!request.kv) return {};
  const auto known = canonical_kv(*request.kv);
  return known ? Status() : wrong("kv: " + known.error().message, known.error().hint);
}

}  // namespace

Status check_special_field(const GenerationRequest& request, std::string_view field) {
  const std::string without_meaning = std::string(field) + " has no meaning for ";
  const char* hint = "leave it out, or give the prompt as text";
  if (std::holds_alternative<Tokens>(request.prompt)) {
    return wrong(without_meaning + "token ids, which are taken as they are", hint);
  }
  if (field == "add_special_tokens" && std::holds_alternative<Chat>(request.prompt)) {
    return wrong(without_meaning + "messages, whose template writes BOS where the model needs it",
                 hint);
  }
  return {};
}

std::uint32_t default_max_tokens(const GenerationRequest& request) {
  return std::holds_alternative<Chat>(request.prompt) ? 0 : 16;
}

Status check_request(const GenerationRequest& request) {
  FieldChecker checker;
  fields(checker, request);
  MILLRACE_TRY(std::move(checker).take());
  MILLRACE_TRY(check_lengths(request));
  MILLRACE_TRY(check_sampling(request.sampling));
  MILLRACE_TRY(check_markers(request.markers.list));
  MILLRACE_TRY(check_repetition(request.repetition_detection));
  MILLRACE_TRY(check_logprobs(request.logprobs, request.task));
  MILLRACE_TRY(check_kv(request));
  MILLRACE_TRY(check_chat(request));
  if (request.parse_special) MILLRACE_TRY(check_special_field(request, "parse_special"));
  if (!request.add_special_tokens) {
    MILLRACE_TRY(check_special_field(request, "add_special_tokens"));
  }
  return check_score(request);
}

}  // namespace millrace
