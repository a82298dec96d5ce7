#include "engine/core/hub/tokenizer_keys.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "engine/core/hub/tokenizer_file.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;
using Number = std::uint32_t;
using Id = std::optional<Number>;

// One id, the first of a list, or nothing. A negative one means that there is none.
Result<std::vector<Number>> read_ids(const Settings& settings, std::string_view key) {
  std::vector<Number> out;
  if (!settings.has(key)) return out;
  if (const auto one = settings.find<double>(key)) {
    if (**one >= 0) out.push_back(static_cast<Number>(**one));
    return out;
  }
  return settings.get<std::vector<Number>>(key);
}

class TokenizerKeys {
 public:
  TokenizerKeys(const TokenizerFile& file, const Settings& config, const Settings& tokenizer,
                const Settings& generation, MetadataWriter& out)
      : file_(file), config_(config), tokenizer_(tokenizer), generation_(generation), out_(out) {}

  Status write() {
    out_.put("tokenizer.ggml.model", file_.model);
    out_.put("tokenizer.ggml.pre", file_.pre_tokenizer.empty() ? "default" : file_.pre_tokenizer);
    out_.put("tokenizer.ggml.tokens", std::span<const std::string>(file_.tokens));
    MILLRACE_ASSIGN(const auto kinds, token_kinds());
    out_.put("tokenizer.ggml.token_type", std::span<const std::int32_t>(kinds));
    if (!file_.merges.empty()) {
      out_.put("tokenizer.ggml.merges", std::span<const std::string>(file_.merges));
    }
    if (!file_.scores.empty()) {
      out_.put("tokenizer.ggml.scores", std::span<const float>(file_.scores));
    }
    if (file_.model != "gpt2") out_.put("tokenizer.ggml.add_space_prefix", file_.adds_space);
    MILLRACE_ASSIGN(const Id bos, special("bos_token"));
    MILLRACE_ASSIGN(const Id eos, special("eos_token"));
    MILLRACE_TRY(write_around("bos", bos, file_.first));
    MILLRACE_TRY(write_around("eos", eos, file_.last));
    MILLRACE_ASSIGN(Id unknown, id_of_text("unk_token"));
    if (!unknown) unknown = id_of(file_.unknown);
    put_id("tokenizer.ggml.unknown_token_id", unknown);
    return write_other_ends(eos);
  }

 private:
  // Gemma 4's answers hold channels and calls, whose marks are text for who reads them.
  Result<std::vector<std::int32_t>> token_kinds() const {
    constexpr std::int32_t user_defined = 4;
    std::vector<std::int32_t> out = file_.kinds;
    MILLRACE_ASSIGN(const auto type, config_.get_or<std::string>("model_type", ""));
    if (!type.starts_with("gemma4")) return out;
    for (const char* const mark : {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
                                   "<|tool_response>", "<tool_response|>", "<|\"|>"}) {
      if (const Id id = id_of(mark)) out[*id] = user_defined;
    }
    return out;
  }

  void put_id(std::string_view key, Id id) {
    if (id) out_.put(key, *id);
  }
  Id id_of(const std::string& text) const {
    const auto found = file_.ids.find(text);
    return found == file_.ids.end() ? Id() : Id(found->second);
  }

  // The id of a token that tokenizer_config.json names, as text or as an object with content.
  Result<Id> id_of_text(const std::string& key) const {
    std::string text;
    if (tokenizer_.is_object(key)) {
      MILLRACE_ASSIGN(const Settings token, tokenizer_.object(key));
      MILLRACE_ASSIGN(text, token.get_or<std::string>("content", ""));
    } else {
      MILLRACE_ASSIGN(text, tokenizer_.get_or<std::string>(key, ""));
    }
    return id_of(text);
  }

  Result<Id> special(const std::string& key) const {
    MILLRACE_ASSIGN(const Id named, id_of_text(key));
    if (named) return named;
    for (const Settings* settings : {&config_, &generation_}) {
      MILLRACE_ASSIGN(const auto ids, read_ids(*settings, key + "_id"));
      if (!ids.empty()) return Id(ids.front());
    }
    return Id();
  }

  // A token before or after every text: as tokenizer_config.json says, or else as the tokenizer's
  // own template does.
  Status write_around(const std::string& name, Id id, const std::string& in_template) {
    if (!id) id = id_of(in_template);
    put_id("tokenizer.ggml." + name + "_token_id", id);
    const bool by_template = !in_template.empty() && id_of(in_template) == id;
    MILLRACE_ASSIGN(const bool adds,
                    tokenizer_.get_or<bool>("add_" + name + "_token", by_template));
    out_.put("tokenizer.ggml.add_" + name + "_token", adds && id.has_value());
    return {};
  }

  // Generation ends at each of a list of tokens. The format has places for two beside EOS; all of a
  // longer list stand in a key of our own.
  Status write_other_ends(Id eos) {
    constexpr std::size_t places = 2;
    MILLRACE_ASSIGN(std::vector<Number> ends, read_ids(generation_, "eos_token_id"));
    if (ends.empty()) {
      MILLRACE_ASSIGN(ends, read_ids(config_, "eos_token_id"));
    }
    if (eos) std::erase(ends, *eos);
    if (!ends.empty()) out_.put("tokenizer.ggml.eot_token_id", ends[0]);
    if (ends.size() > 1) out_.put("tokenizer.ggml.eom_token_id", ends[1]);
    if (ends.size() > places) {
      out_.put("millrace.end_token_ids", std::span<const Number>(ends));
    }
    return {};
  }

  const TokenizerFile& file_;
  const Settings& config_;
  const Settings& tokenizer_;
  const Settings& generation_;
  MetadataWriter& out_;
};

// The chat template of a file of its own, or else the one in tokenizer_config.json.
Status write_template(const fs::path& folder, const Settings& tokenizer, MetadataWriter& out) {
  std::error_code ignored;
  constexpr std::string_view key = "tokenizer.chat_template";
  if (const fs::path path = folder / "chat_template.jinja"; fs::exists(path, ignored)) {
    MILLRACE_ASSIGN(const std::string text, read_folder_file(path.string()));
    out.put(key, text);
    return {};
  }
  MILLRACE_ASSIGN(const Settings alone,
                  Settings::read_if_there((folder / "chat_template.json").string()));
  for (const Settings* settings : {&tokenizer, &alone}) {
    if (!settings->has("chat_template")) continue;
    MILLRACE_ASSIGN(const std::string text, settings->named_text("chat_template", "template"));
    out.put(key, text);
    break;
  }
  return {};
}

// The sampling that the model's makers suggest. Whether transformers would sample at all
// (do_sample) is its own default.
Status write_sampling(const Settings& generation, MetadataWriter& out) {
  constexpr struct {
    const char *from, *to;
  } numbers[] = {{"temperature", "general.sampling.temp"},
                 {"top_p", "general.sampling.top_p"},
                 {"min_p", "general.sampling.min_p"}};
  for (const auto& [from, to] : numbers) {
    MILLRACE_ASSIGN(const auto value, generation.find<double>(from));
    if (value) out.put(to, static_cast<float>(*value));
  }
  MILLRACE_ASSIGN(const auto top_k, generation.find<Number>("top_k"));
  if (top_k) out.put("general.sampling.top_k", *top_k);
  MILLRACE_ASSIGN(const double penalty, generation.get_or<double>("repetition_penalty", 1.0));
  if (penalty == 1.0) return {};
  out.put("general.sampling.penalty_repeat", static_cast<float>(penalty));
  out.put("general.sampling.penalty_last_n", std::int32_t{-1});  // it looks back at all tokens
  return {};
}

}  // namespace

Status write_tokenizer_keys(const std::string& folder, const Settings& config,
                            MetadataWriter& out) {
  const fs::path base(folder);
  std::error_code ignored;
  if (!fs::exists(base / "tokenizer.json", ignored)) {
    return fail(Code::folder_unreadable, folder + ": the folder has no tokenizer.json",
                "download it, or save the tokenizer with the library transformers, which writes "
                "it; tokenizer.model is not read");
  }
  MILLRACE_ASSIGN(const Settings tokenizer,
                  Settings::read_if_there((base / "tokenizer_config.json").string()));
  MILLRACE_ASSIGN(const Settings generation,
                  Settings::read_if_there((base / "generation_config.json").string()));
  MILLRACE_ASSIGN(const auto size, config.get_or<Number>("vocab_size", 0));
  MILLRACE_ASSIGN(const TokenizerFile file,
                  read_tokenizer_file((base / "tokenizer.json").string(), size));
  MILLRACE_TRY(TokenizerKeys(file, config, tokenizer, generation, out).write());
  MILLRACE_TRY(write_template(base, tokenizer, out));
  return write_sampling(generation, out);
}

}  // namespace millrace::engine
