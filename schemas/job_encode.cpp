// A job to msgpack: fixed key order, defaults left out, so that equal jobs have equal bytes.
#include "schemas/base/hash.hpp"
#include "schemas/codec.hpp"
#include "schemas/names.hpp"
#include "schemas/pack.hpp"

namespace millrace {
namespace {

using wire::Packer;

class JobWriter {
 public:
  std::string finish() && {
    Packer out;
    out.map(pairs_);
    out.raw(std::move(pairs_bytes_).take());
    return std::move(out).take();
  }

  void queue_head(const Job& job, const Job& defaults) {
    put("id", job.id, defaults.id);
    put("custom_id", job.custom_id, defaults.custom_id);
    put("model", job.model, defaults.model);
  }

  void request(const GenerationRequest& r) {
    const GenerationRequest defaults;
    if (r.task != defaults.task) key("task").value(wire::to_name(r.task));
    prompt(r.prompt);
    put("add_special_tokens", r.add_special_tokens, defaults.add_special_tokens);
    put("n", r.n, defaults.n);
    if (r.max_tokens) key("max_tokens").value(*r.max_tokens);
    put("min_tokens", r.min_tokens, defaults.min_tokens);
    put("temperature", r.sampling.temperature, defaults.sampling.temperature);
    put("top_k", r.sampling.top_k, defaults.sampling.top_k);
    put("top_p", r.sampling.top_p, defaults.sampling.top_p);
    put("min_p", r.sampling.min_p, defaults.sampling.min_p);
    put("typical_p", r.sampling.typical_p, defaults.sampling.typical_p);
    put("xtc_probability", r.sampling.xtc_probability, defaults.sampling.xtc_probability);
    put("xtc_threshold", r.sampling.xtc_threshold, defaults.sampling.xtc_threshold);
    edits(r.edits, defaults.edits);
    if (r.sampling.seed) key("seed").value(*r.sampling.seed);
    if (!r.stops.strings.empty()) key("stop").strings(r.stops.strings);
    if (!r.stops.token_ids.empty()) key("stop_token_ids").words(r.stops.token_ids);
    put("ignore_eos", r.stops.ignore_eos, defaults.stops.ignore_eos);
    stop_fields(r);
    put("logprobs", r.logprobs.sampled, defaults.logprobs.sampled);
    put("top_logprobs", r.logprobs.top, defaults.logprobs.top);
    // A score job gives the prompt's logprobs without being asked.
    put("prompt_logprobs", r.logprobs.prompt && r.task != Task::score, false);
    if (r.logprobs.mode != defaults.logprobs.mode) {
      key("logprob_mode").value(wire::to_name(r.logprobs.mode));
    }
    if (!r.logprobs.listed.empty()) key("logprob_token_ids").words(r.logprobs.listed);
    put("partials", r.partials, false);
    if (r.kv) key("kv").value(*r.kv);
    if (r.require_fingerprint) key("require_fingerprint").value(*r.require_fingerprint);
  }

  void queue_tail(const Job& job, const Job& defaults) {
    put("priority", job.priority, defaults.priority);
    if (job.deadline_us) key("deadline_us").value(*job.deadline_us);
    put("max_attempts", job.max_attempts, defaults.max_attempts);
    put("stream", job.stream, defaults.stream);
    put("batch", job.batch, defaults.batch);
    if (!job.metadata.empty()) key("metadata").dictionary(job.metadata);
    put("strict", job.strict, defaults.strict);
  }

  void edits(const LogitEdits& e, const LogitEdits& defaults) {
    if (!e.bias.empty()) {
      Packer& out = key("logit_bias");
      out.array(e.bias.size());
      for (const LogitBias& b : e.bias) {
        out.array(2);
        out.value(b.token);
        out.value(b.bias);
      }
    }
    penalty("repetition_penalty", e.repetition, defaults.repetition);
    penalty("presence_penalty", e.presence, defaults.presence);
    penalty("frequency_penalty", e.frequency, defaults.frequency);
    put("dry_multiplier", e.dry.multiplier, defaults.dry.multiplier);
    put("dry_base", e.dry.base, defaults.dry.base);
    put("dry_allowed_length", e.dry.allowed_length, defaults.dry.allowed_length);
    put("dry_penalty_last_n", e.dry.window, defaults.dry.window);
    if (e.dry.breakers != defaults.dry.breakers) {
      key("dry_sequence_breakers").strings(e.dry.breakers);
    }
    put("no_repeat_ngram_size", e.no_repeat_ngram, defaults.no_repeat_ngram);
    if (!e.allowed.empty()) key("allowed_token_ids").words(e.allowed);
    if (!e.bad_words.empty()) key("bad_words").strings(e.bad_words);
    if (!e.bad_word_ids.empty()) id_lists("bad_word_ids", e.bad_word_ids);
  }

  void stop_fields(const GenerationRequest& r) {
    if (!r.stops.sequences.empty()) id_lists("stop_token_sequences", r.stops.sequences);
    put("include_stop_str_in_output", r.stops.include, false);
    if (r.markers.known) {
      key("markers").value("auto");
    } else if (!r.markers.list.empty()) {
      Packer& out = key("markers");
      out.array(r.markers.list.size());
      for (const Marker& marker : r.markers.list) {
        out.map(3);
        out.value("part");
        out.value(wire::to_name(marker.part));
        out.value("open");
        out.value(marker.open);
        out.value("close");
        out.value(marker.close);
      }
    }
    const RepetitionDetection& detection = r.repetition_detection;
    if (detection == RepetitionDetection{}) return;
    Packer& out = key("repetition_detection");
    out.map(3);
    out.value("max_pattern_size");
    out.value(detection.max_pattern_size);
    out.value("min_pattern_size");
    out.value(detection.min_pattern_size);
    out.value("min_count");
    out.value(detection.min_count);
  }

  void penalty(const std::string& name, const Penalty& p, const Penalty& defaults) {
    put(name.c_str(), p.value, defaults.value);
    if (p.scope != defaults.scope) key((name + "_scope").c_str()).value(wire::to_name(p.scope));
    put((name + "_window").c_str(), p.window, defaults.window);
  }

 private:
  Packer& key(const char* name) {
    ++pairs_;
    pairs_bytes_.value(name);
    return pairs_bytes_;
  }
  void id_lists(const char* name, const std::vector<Tokens>& lists) {
    Packer& out = key(name);
    out.array(lists.size());
    for (const Tokens& ids : lists) out.words(ids);
  }
  template <class T>
  void put(const char* name, const T& value, const T& standard) {
    if (value != standard) key(name).value(value);
  }
  void prompt(const Prompt& prompt) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      key("prompt").value(*text);
    } else if (const auto* tokens = std::get_if<Tokens>(&prompt)) {
      key("tokens").words(*tokens);
    } else {
      const Chat& chat = std::get<Chat>(prompt);
      Packer& out = key("messages");
      out.array(chat.size());
      for (const ChatMessage& message : chat) {
        out.map(2);
        out.value("role");
        out.value(message.role);
        out.value("content");
        out.value(message.content);
      }
    }
  }

  Packer pairs_bytes_;
  std::size_t pairs_ = 0;
};

}  // namespace

std::string encode_job(const Job& job) {
  const Job defaults;
  JobWriter writer;
  writer.queue_head(job, defaults);
  writer.request(job.request);
  writer.queue_tail(job, defaults);
  return std::move(writer).finish();
}

std::uint64_t derived_seed(const Job& job) {
  Job asked;  // without what only the queue cares about
  asked.custom_id = job.custom_id;
  asked.model = job.model;
  asked.request = job.request;
  asked.request.sampling.seed.reset();
  asked.request.partials = false;
  constexpr unsigned bits_kept = 53;
  return hash64(encode_job(asked)) >> (64 - bits_kept);
}

}  // namespace millrace
