#include "engine/core/hub/tokenizer_file.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/hub/settings.hpp"
#include "engine/core/tokenizer/pre_tokenizer.hpp"

namespace millrace::engine {
namespace {

using nlohmann::json;

constexpr std::uint32_t most_tokens = 1u << 23;
constexpr std::string_view space = "\u2581";
enum Kind : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// Added tokens that models use as control tokens without saying so.
bool looks_special(std::string_view text) {
  constexpr auto known = std::to_array<std::string_view>({"<pad>", "<mask>", "<2mass>", "[@BOS@]"});
  return std::ranges::find(known, text) != known.end() ||
         (text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with("<｜") && text.ends_with("｜>"));
}

std::string text_or(const json& object, const char* key, const std::string& fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : fallback;
}

bool flag_or(const json& object, const char* key, bool fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

// The steps of a pre-tokenizer, normalizer or post-processor: one, or those of a sequence.
std::vector<json> steps_of(const json& file, const char* key, const char* list) {
  const auto found = file.find(key);
  if (found == file.end() || !found->is_object()) return {};
  const auto steps = found->find(list);
  if (steps == found->end() || !steps->is_array()) return {*found};
  std::vector<json> out;
  for (const json& each : *steps) {
    if (each.is_object()) out.push_back(each);
  }
  return out;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

class Reader {
 public:
  Reader(const std::string& path, const json& file, std::uint32_t size)
      : path_(path), file_(file), size_(size) {}

  Result<TokenizerFile> run() {
    if (size_ > most_tokens) {
      return damaged("is for a model of " + std::to_string(size_) + " tokens (vocab_size)");
    }
    const auto model = file_.find("model");
    if (model == file_.end() || !model->is_object()) return damaged("has no model");
    model_ = *model;
    const std::string type = text_or(model_, "type", "BPE");
    if (type != "BPE") return refuse("the tokenizer's model is " + printable(type) + ", not BPE");
    byte_level_ = is_byte_level();
    MILLRACE_TRY(read_tokens());
    MILLRACE_TRY(read_merges());
    if (byte_level_) {
      out_.model = "gpt2";
      MILLRACE_TRY(check_normalizers());
      MILLRACE_TRY(name_pre_tokenizer());
    } else {
      MILLRACE_TRY(read_spaces());
      score_merges();
    }
    read_ends();
    return std::move(out_);
  }

 private:
  std::unexpected<Error> damaged(const std::string& what) const {
    return fail(Code::folder_malformed, path_ + ": " + what, "download the file again");
  }
  std::unexpected<Error> refuse(const std::string& what) const {
    return fail(Code::unsupported_tokenizer, path_ + ": " + what,
                "use a GGUF file of the model, whose converter knows its tokenizer by name");
  }

  bool is_byte_level() const {
    for (const json& step : steps_of(file_, "pre_tokenizer", "pretokenizers")) {
      if (text_or(step, "type", "") == "ByteLevel") return true;
    }
    return false;
  }

  Status read_tokens() {
    const auto vocabulary = model_.find("vocab");
    if (vocabulary == model_.end() || !vocabulary->is_object()) return damaged("has no vocabulary");
    for (const auto& item : vocabulary->items()) {
      MILLRACE_TRY(add_token(item.key(), item.value(), normal));
    }
    const auto added = file_.find("added_tokens");
    if (added != file_.end() && added->is_array()) {
      for (const json& token : *added) MILLRACE_TRY(add_added(token));
    }
    for (std::size_t i = 0; i < out_.tokens.size() || i < size_; ++i) {
      if (i == out_.tokens.size()) grow(i + 1);
      if (out_.kinds[i] == unused) out_.tokens[i] = "[PAD" + std::to_string(i) + "]";
    }
    return mark_bytes();
  }

  void grow(std::size_t size) {
    out_.tokens.resize(size);
    out_.kinds.resize(size, unused);
  }

  Status add_token(const std::string& text, const json& id, Kind kind) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= most_tokens) {
      return damaged("the token '" + printable(text) + "' has no possible id");
    }
    const auto number = id.get<std::uint32_t>();
    if (number >= out_.tokens.size()) grow(number + 1);
    std::string& place = out_.tokens[number];
    if (out_.kinds[number] != unused && kind == normal) {
      return damaged("the tokens '" + printable(place) + "' and '" + printable(text) +
                     "' have one id");
    }
    place = text;
    out_.kinds[number] = kind;
    out_.ids[text] = number;
    return {};
  }

  Status add_added(const json& token) {
    if (!token.is_object() || !token.contains("id"))
      return damaged("has an added token without id");
    const std::string text = text_or(token, "content", "");
    const bool special = flag_or(token, "special", false) || looks_special(text);
    MILLRACE_TRY(add_token(text, token["id"], special ? control : user_defined));
    // User-defined tokens hold text as it is, not as the vocabulary writes it.
    const auto id = token["id"].get<std::uint32_t>();
    if (!special) out_.tokens[id] = replaced(text, space, " ");
    return {};
  }

  // The tokens <0x00> to <0xFF> stand for bytes in SentencePiece's vocabularies.
  Status mark_bytes() {
    out_.unknown = text_or(model_, "unk_token", "");
    if (const auto found = out_.ids.find(out_.unknown); found != out_.ids.end() && !byte_level_) {
      out_.kinds[found->second] = unknown;
    }
    if (byte_level_) return {};
    if (!flag_or(model_, "byte_fallback", false)) {
      return refuse(
          "the tokenizer is neither byte-level (pre_tokenizer ByteLevel) nor falls back "
          "to bytes (byte_fallback)");
    }
    for (int value = 0; value < 256; ++value) {
      std::array<char, 8> text{};
      std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(value));
      const auto found = out_.ids.find(std::string_view(text.data()));
      if (found != out_.ids.end() && out_.kinds[found->second] == normal) {
        out_.kinds[found->second] = byte;
      }
    }
    return {};
  }

  Status read_merges() {
    const auto merges = model_.find("merges");
    if (merges == model_.end() || !merges->is_array()) return damaged("has no merges");
    for (const json& merge : *merges) {
      if (merge.is_string()) {
        out_.merges.push_back(merge.get<std::string>());
        continue;
      }
      if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() ||
          !merge[1].is_string()) {
        return damaged("merge " + std::to_string(out_.merges.size()) + " is not two tokens");
      }
      // The one space of the entry separates the halves; a vocabulary writes spaces otherwise.
      const std::string left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
      if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos) {
        return refuse("merge " + std::to_string(out_.merges.size()) + " holds a space");
      }
      out_.merges.push_back(left + " " + right);
    }
    return {};
  }

  // Text is composed (NFC) by some tokenizers before it is cut, which the engine never does: it
  // matters only to decomposed letters. Other changes would give other tokens.
  Status check_normalizers() const {
    for (const json& step : steps_of(file_, "normalizer", "normalizers")) {
      const std::string type = text_or(step, "type", "");
      if (type != "NFC") return refuse("the normalizer " + printable(type) + " is not supported");
    }
    return {};
  }

  Status name_pre_tokenizer() {
    constexpr std::string_view gpt2 = "gpt-2", digit = R"(\p{N})";
    std::vector<std::string> patterns;
    for (const json& step : steps_of(file_, "pre_tokenizer", "pretokenizers")) {
      const std::string type = text_or(step, "type", "");
      if (type == "ByteLevel") {
        if (flag_or(step, "add_prefix_space", false)) {
          return refuse("a space before every text (add_prefix_space) is not supported");
        }
        if (flag_or(step, "use_regex", true)) {
          patterns.emplace_back(find_pre_tokenizer(gpt2)->rules[0].pattern);
        }
      } else if (type == "Digits" && flag_or(step, "individual_digits", false)) {
        patterns.emplace_back(digit);
      } else if (type == "Split" && step.contains("pattern") && step["pattern"].is_object()) {
        patterns.push_back(
            text_or(step["pattern"], "Regex", text_or(step["pattern"], "String", "")));
      } else {
        return refuse("the pre-tokenizer " + printable(type) + " is not known");
      }
    }
    const bool whole_words = flag_or(model_, "ignore_merges", false);
    if (const auto* const row = recognize_pre_tokenizer(patterns, whole_words)) {
      out_.pre_tokenizer = row->name;
      return {};
    }
    std::string all;
    for (const std::string& pattern : patterns) all += (all.empty() ? "" : "  then  ") + pattern;
    return refuse("the pre-tokenizer's expressions are not known: " + all +
                  (whole_words ? " with ignore_merges" : ""));
  }

  // Whether a space is put before text. Spaces become U+2581 in a normalizer or a pre-tokenizer.
  Status read_spaces() {
    for (const json& step : steps_of(file_, "normalizer", "normalizers")) {
      const std::string type = text_or(step, "type", "");
      if (type == "Prepend") {
        out_.adds_space = true;
      } else if (type != "Replace" || text_or(step, "content", "") != space) {
        return refuse("the normalizer " + printable(type) + " is not supported");
      }
    }
    for (const json& step : steps_of(file_, "pre_tokenizer", "pretokenizers")) {
      const std::string type = text_or(step, "type", "");
      if (type == "Metaspace") {
        const std::string scheme = flag_or(step, "add_prefix_space", true) ? "always" : "never";
        out_.adds_space = text_or(step, "prepend_scheme", scheme) != "never";
      } else if (type != "Split") {
        return refuse("the pre-tokenizer " + printable(type) + " is not known");
      }
    }
    return {};
  }

  // A token's score is its first merge's place, which gives the same tokens if every two tokens
  // that are a third one may merge. If only some may, the merges themselves are kept. Tokens that
  // are found before anything is merged take no part.
  void score_merges() {
    std::erase_if(out_.merges, [this](const std::string& merge) {
      const std::size_t at = merge.find(' ');
      return !is_normal(merge.substr(0, at)) || !is_normal(merge.substr(at + 1)) ||
             !is_normal(replaced(merge, " ", ""));
    });
    std::size_t possible = 0;
    for (const auto& [text, id] : out_.ids) {
      if (out_.kinds[id] != normal) continue;
      for (std::size_t at = 1; at < text.size(); ++at) {
        if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
        possible += is_normal(text.substr(0, at)) && is_normal(text.substr(at)) ? 1 : 0;
      }
    }
    if (possible != out_.merges.size()) {
      out_.model = "gemma4";
      return;
    }
    out_.model = "llama";
    out_.scores.assign(out_.tokens.size(), 0.0f);
    std::size_t rank = 0;
    for (const std::string& merge : out_.merges) {
      float& score = out_.scores[out_.ids.find(replaced(merge, " ", ""))->second];
      if (score == 0.0f) score = -static_cast<float>(++rank);
    }
    out_.merges.clear();
  }
  bool is_normal(const std::string& text) const {
    const auto found = out_.ids.find(text);
    return found != out_.ids.end() && out_.kinds[found->second] == normal;
  }

  void read_ends() {
    for (const json& step : steps_of(file_, "post_processor", "processors")) {
      const auto single = step.find("single");
      if (single == step.end() || !single->is_array() || single->size() < 2) continue;
      const auto special = [](const json& piece) {
        const auto found = piece.find("SpecialToken");
        return found == piece.end() ? std::string() : text_or(*found, "id", "");
      };
      out_.first = special(single->front());
      out_.last = special(single->back());
    }
  }

  const std::string& path_;
  const json& file_;
  const std::uint32_t size_;
  json model_;
  bool byte_level_ = false;
  TokenizerFile out_;
};

}  // namespace

Result<TokenizerFile> read_tokenizer_file(const std::string& path, std::uint32_t tokens) {
  MILLRACE_ASSIGN(const std::string text, read_folder_file(path));
  const json file = json::parse(text, nullptr, false);
  if (!file.is_object()) {
    return fail(Code::folder_malformed, path + ": is not a JSON object", "download the file again");
  }
  return Reader(path, file, tokens).run();
}

}  // namespace millrace::engine
