#pragma once
// Random jobs of every kind, and the parts of their results that must always be the same.
#include <random>
#include <string>
#include <vector>

#include "tests/golden/engine_fixture.hpp"
#include "tests/unit/engine/tiny_engine.hpp"

namespace millrace::engine {

using Draw = std::mt19937;

inline std::uint32_t below(Draw& draw, std::uint32_t limit) {
  return static_cast<std::uint32_t>(draw()) % limit;
}
template <class T>
T one_of(Draw& draw, std::initializer_list<T> values) {
  return values.begin()[below(draw, static_cast<std::uint32_t>(values.size()))];
}

inline Penalty random_penalty(Draw& draw, float value) {
  return {value, one_of(draw, {PenaltyScope::all, PenaltyScope::output}),
          one_of(draw, {0u, 1u, 9u, 64u})};
}

inline LogitEdits random_edits(Draw& draw, std::uint32_t vocabulary) {
  LogitEdits e;
  if (below(draw, 3) == 0) e.repetition = random_penalty(draw, one_of(draw, {0.7f, 1.3f}));
  if (below(draw, 3) == 0) e.presence = random_penalty(draw, one_of(draw, {-0.5f, 0.6f}));
  if (below(draw, 3) == 0) e.frequency = random_penalty(draw, one_of(draw, {-0.1f, 0.3f}));
  if (below(draw, 3) == 0) {
    e.dry.multiplier = 0.8f;
    e.dry.allowed_length = 1;
    e.dry.window = one_of(draw, {1u, 30u, 1024u});
  }
  if (below(draw, 4) == 0) e.no_repeat_ngram = 2 + below(draw, 2);
  if (below(draw, 4) == 0) e.bias = {{below(draw, vocabulary), 3.0f}};
  if (below(draw, 4) == 0) e.bad_word_ids = {{below(draw, vocabulary)}};
  if (below(draw, 4) == 0) e.bad_words = {"a", "bc"};
  if (below(draw, 6) == 0 && e.no_repeat_ngram == 0) {
    for (TokenId id = 0; id < vocabulary; id += 2) e.allowed.push_back(id);
  }
  return e;
}

// Adds stop rules that fit the tokens `seen` of an earlier run: `kind` 0 none, 1 a sequence of two
// tokens, 2 a string, 3 parts between letters, mostly with a limit of reasoning, 4 loops.
inline GenerationRequest with_stop_machine(GenerationRequest r, const Choice& seen,
                                           std::uint32_t kind) {
  const std::size_t middle = seen.tokens.size() / 2;
  const auto begins_character = [&](std::size_t at) {
    return at < seen.text.size() && (seen.text[at] & 0xc0) != 0x80;
  };
  // The character of the text that a byte belongs to.
  const auto character = [&](std::size_t at) {
    while (at > 0 && !begins_character(at)) --at;
    std::size_t end = at + 1;
    while (end < seen.text.size() && !begins_character(end)) ++end;
    return seen.text.substr(at, end - at);
  };
  r.stops.include = r.sampling.seed.value_or(0) % 2 == 0;
  if (kind == 1 && seen.tokens.size() > 2) {
    r.stops.sequences = {{seen.tokens[middle - 1], seen.tokens[middle]}};
  } else if (kind == 2 && !seen.text.empty()) {
    r.stops.strings = {character(seen.text.size() / 2)};
  } else if (kind == 3 && seen.text.size() > 3) {
    r.markers.list = {{MarkedPart::reasoning, character(1), character(seen.text.size() / 2)}};
    const std::string open = character(seen.text.size() - 1);
    if (open != r.markers.list[0].open) {
      r.markers.list.push_back({MarkedPart::tool_call, open, ""});
    }
    const auto limit = static_cast<std::uint32_t>(r.sampling.seed.value_or(0) % 4);
    if (limit < 3) r.max_reasoning_tokens = limit;
  } else if (kind == 4) {
    r.repetition_detection = {4, 1, 2};
  }
  return r;
}

// A random job, with any lengths, samplers, edits, stops, logprobs, samples and seeds.
inline GenerationRequest random_job(std::uint32_t seed,
                                    std::uint32_t vocabulary = tiny_vocabulary) {
  Draw draw(seed);
  Tokens prompt(1 + below(draw, one_of(draw, {20u, 20u, 60u, 290u})));
  for (TokenId& id : prompt) id = below(draw, vocabulary);
  if (seed % 3 != 0) {  // has a common beginning with its family
    Draw family(seed % 3);
    const std::uint32_t shared = below(draw, static_cast<std::uint32_t>(prompt.size()) + 1);
    for (std::uint32_t i = 0; i < shared; ++i) prompt[i] = below(family, vocabulary);
  }
  GenerationRequest r;
  r.prompt = prompt;
  if (below(draw, 6) == 0) {
    r.task = Task::score;
    r.logprobs.top = below(draw, 5);
    return r;
  }
  r.n = one_of(draw, {1u, 1u, 1u, 3u});
  r.max_tokens = 1 + below(draw, one_of(draw, {24u, 110u}));
  r.min_tokens = below(draw, *r.max_tokens + 1);
  r.sampling.seed = draw();
  r.sampling.temperature = one_of(draw, {0.0f, 0.7f, 1.0f, 1e-3f, 5.0f});
  r.sampling.top_k = one_of(draw, {0u, 0u, 1u, 20u, 1000u});
  r.sampling.top_p = one_of(draw, {1.0f, 1.0f, 0.9f, 0.3f});
  r.sampling.min_p = one_of(draw, {0.0f, 0.0f, 0.1f});
  r.sampling.typical_p = one_of(draw, {1.0f, 1.0f, 0.8f});
  r.sampling.xtc_probability = one_of(draw, {0.0f, 0.0f, 0.5f});
  r.sampling.xtc_threshold = one_of(draw, {0.01f, 0.2f});
  if (below(draw, 2) == 0) r.edits = random_edits(draw, vocabulary);
  r.stops.ignore_eos = below(draw, 2) == 0;
  for (std::uint32_t stops = one_of(draw, {0u, 0u, 1u, 2u}); stops > 0; --stops) {
    r.stops.strings.push_back(std::string(1, static_cast<char>('a' + below(draw, 26))));
    r.stops.token_ids.push_back(below(draw, vocabulary));
  }
  if (seed % 4 == 0) {  // short prompts with long outputs, which make a small pool pause sequences
    r.prompt = Tokens(prompt.begin(), prompt.begin() + 1 + below(draw, 20) % prompt.size());
    r.max_tokens = 100;
    r.min_tokens = 0;
    r.n = 1;
    r.stops = {.strings = {}, .token_ids = {}, .ignore_eos = true};
  }
  r.logprobs.sampled = below(draw, 2) == 0;
  r.logprobs.prompt = below(draw, 3) == 0;
  if (r.logprobs.sampled || r.logprobs.prompt) {
    r.logprobs.top = below(draw, 6);
    if (below(draw, 2) == 0) r.logprobs.listed = {4 + below(draw, vocabulary - 4), 3};
  }
  r.logprobs.mode = one_of(draw, {LogprobMode::raw, LogprobMode::processed});
  return r;
}

}  // namespace millrace::engine
