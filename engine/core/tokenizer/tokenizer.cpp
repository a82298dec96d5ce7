#include "engine/core/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <set>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/tokenizer/bpe.hpp"
#include "engine/core/tokenizer/character_set.hpp"
#include "engine/core/tokenizer/literals.hpp"
#include "engine/core/tokenizer/pre_tokenizer.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

// Names under which published models write the end of a text, a turn or a message, or the point at
// which a tool's answer must follow.
constexpr std::array<std::string_view, 17> kEndNames{
    "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>",
    "<|eom_id|>",    "<|end|>",         "<|eot|>",    "</s>",
    "<end_of_turn>", "<|return|>",      "<|call|>",   "<EOT>",
    "[EOT]",         "[EOS]",           "<eos>",      "<turn|>",
    "[e~["};
// Gemma 4's files mark this one as user-defined.
constexpr std::string_view kToolResponse = "<|tool_response>";

struct Chosen {
  VocabularyForm form;
  PreTokenizerRow row;
};

Result<Chosen> choose(const Metadata& metadata) {
  MILLRACE_ASSIGN(const auto model, metadata.get<std::string_view>("tokenizer.ggml.model"));
  if (model == "llama") return Chosen{VocabularyForm::scored, {.name = "llama", .adds_bos = true}};
  if (model == "gemma4") return Chosen{VocabularyForm::text, {.name = "gemma4", .adds_bos = true}};
  if (model != "gpt2")
    return fail(
        Code::unsupported_tokenizer,
        "tokenizer model '" + printable(model) + "' (tokenizer.ggml.model) is not supported",
        "use a model with one of the tokenizer models gpt2 (byte-level BPE), llama "
        "(SentencePiece) and gemma4");
  MILLRACE_ASSIGN(const auto name, metadata.find<std::string_view>("tokenizer.ggml.pre"));
  if (!name)
    return fail(Code::unsupported_tokenizer,
                "the file does not name its pre-tokenizer (tokenizer.ggml.pre)",
                "convert the model again with a current converter");
  if (const auto* found = find_pre_tokenizer(*name))
    return Chosen{VocabularyForm::byte_level, *found};
  return fail(Code::unsupported_tokenizer,
              "pre-tokenizer '" + printable(*name) + "' (tokenizer.ggml.pre) is not supported",
              "use a model with one of the pre-tokenizers " + supported_pre_tokenizers());
}

// Reads whether tokenizing puts a space before text.
Result<bool> space_prefix(const Metadata& metadata, VocabularyForm form) {
  if (form == VocabularyForm::byte_level) return false;
  constexpr std::string_view trims = "tokenizer.ggml.remove_extra_whitespaces";
  MILLRACE_ASSIGN(const bool trimmed, metadata.get_or<bool>(trims, false));
  if (trimmed)
    return fail(Code::unsupported_tokenizer,
                "the tokenizer removes repeated spaces (" + std::string(trims) +
                    "), which is not supported",
                "use another model");
  return metadata.get_or<bool>("tokenizer.ggml.add_space_prefix", form == VocabularyForm::scored);
}

// Phi-3's own tokenizer drops the whitespace after its control tokens, except after these. No key
// of the file says so, but every file of the architecture phi3 with SentencePiece is such a model.
constexpr std::array<std::string_view, 3> kKeepSpaceAfter{"<unk>", "<s>", "<|endoftext|>"};

// Returns the end of the whitespace that begins at `position`.
std::size_t skip_spaces(std::string_view text, std::size_t position) {
  const auto spaces = CharacterSet::spaces();
  while (position < text.size()) {
    const auto step = utf8_step(text.substr(position, 4));
    const bool space = step.kind == Utf8Step::Kind::character &&
                       spaces.contains(step.code_point, category_of(step.code_point));
    if (!space) break;
    position += step.bytes;
  }
  return position;
}

// Whether the merges turn a normal token's bytes into that token. Its first use as a word decides.
enum class WholeWord : std::uint8_t { not_tried, itself, several };

// Working memory of one call.
struct Scratch {
  BpeScratch bpe;
  std::vector<std::size_t> ends;
};

}  // namespace

struct Tokenizer::State {
  State(Vocabulary words, const PreTokenizerRow& chosen, PreTokenizer compiled)
      : vocabulary(std::move(words)),
        bpe(vocabulary),
        row(chosen),
        pre_tokenizer(std::move(compiled)),
        whole_words(vocabulary.size()) {}

  Status load_ids(const Metadata& metadata);
  Status load_listed_ends(const Metadata& metadata);
  Status load_id(const Metadata& metadata, std::string_view key, std::optional<TokenId>& id);
  void collect_literals();
  void collect_end_tokens();
  bool byte_level() const { return vocabulary.form() == VocabularyForm::byte_level; }
  bool drops_space_after(TokenId id) const {
    return phi3 && vocabulary.is_special(id) &&
           std::ranges::find(kKeepSpaceAfter, vocabulary.bytes(id)) == kKeepSpaceAfter.end();
  }
  Literals::Match next_literal(std::string_view text, std::size_t from, bool user_defined,
                               bool special, std::span<const TextSpan>& plain) const;
  void add_text(std::string_view text, Scratch& scratch, Tokens& out) const;
  void add_words(std::string_view text, Scratch& scratch, Tokens& out) const;
  void add_word(std::string_view word, BpeScratch& scratch, Tokens& out) const;

  Vocabulary vocabulary;
  Bpe bpe;
  PreTokenizerRow row;
  PreTokenizer pre_tokenizer;  // of byte-level vocabularies
  Literals user_defined, special;
  bool add_bos = false, add_eos = false, space_prefix = false, phi3 = false;
  std::optional<TokenId> bos, eos, end_of_turn, end_of_message;
  Tokens end_tokens, message_ends;
  std::optional<TokenReach> reach;
  // Most words are one token, and merging each of them every time would be most of the work. So the
  // tokenizer remembers for which words the merges give that token. Threads that race store the
  // same answer.
  mutable std::vector<std::atomic<WholeWord>> whole_words;
};

Status Tokenizer::State::load_id(const Metadata& metadata, std::string_view key,
                                 std::optional<TokenId>& id) {
  MILLRACE_ASSIGN(const auto found, metadata.find<std::uint32_t>(key));
  if (found && *found >= vocabulary.size())
    return fail(Code::gguf_malformed,
                "metadata key '" + std::string(key) + "' is " + std::to_string(*found) +
                    "; the vocabulary has " + std::to_string(vocabulary.size()) + " tokens",
                "convert the model again");
  id = found;
  return {};
}

Status Tokenizer::State::load_ids(const Metadata& metadata) {
  MILLRACE_TRY(load_id(metadata, "tokenizer.ggml.bos_token_id", bos));
  MILLRACE_TRY(load_id(metadata, "tokenizer.ggml.eos_token_id", eos));
  MILLRACE_TRY(load_id(metadata, "tokenizer.ggml.eot_token_id", end_of_turn));
  MILLRACE_TRY(load_id(metadata, "tokenizer.ggml.eom_token_id", end_of_message));
  MILLRACE_ASSIGN(const auto wants_bos, metadata.find<bool>("tokenizer.ggml.add_bos_token"));
  MILLRACE_ASSIGN(add_eos, metadata.get_or<bool>("tokenizer.ggml.add_eos_token", false));
  add_bos = wants_bos.value_or(row.adds_bos && bos.has_value());
  if ((add_bos && !bos) || (add_eos && !eos))
    return fail(Code::gguf_malformed,
                std::string("the file asks to add ") + (add_bos && !bos ? "BOS" : "EOS") +
                    " but does not name that token (tokenizer.ggml.bos_token_id, eos_token_id)",
                "convert the model again");
  return {};
}

// Ends beyond those that the format has keys for, which models of a hub may list.
Status Tokenizer::State::load_listed_ends(const Metadata& metadata) {
  constexpr std::string_view key = "millrace.end_token_ids";
  if (!metadata.contains(key)) return {};
  MILLRACE_ASSIGN(const auto ids, metadata.get<std::vector<std::uint32_t>>(key));
  for (const std::uint32_t id : ids) {
    if (id >= vocabulary.size())
      return fail(Code::gguf_malformed,
                  "metadata key '" + std::string(key) + "' names the token " + std::to_string(id) +
                      "; the vocabulary has " + std::to_string(vocabulary.size()) + " tokens",
                  "convert the model again");
    end_tokens.push_back(id);
  }
  return {};
}

void Tokenizer::State::collect_literals() {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.kind(id) == TokenKind::user_defined) user_defined.add(vocabulary.bytes(id), id);
    if (vocabulary.is_special(id)) special.add(vocabulary.bytes(id), id);
  }
}

void Tokenizer::State::collect_end_tokens() {
  for (const auto& id : {eos, end_of_turn, end_of_message})
    if (id) end_tokens.push_back(*id);
  std::set<std::string_view> names;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const auto kind = vocabulary.kind(id);
    const auto name = vocabulary.bytes(id);
    const bool known =
        kind == TokenKind::control && std::ranges::find(kEndNames, name) != kEndNames.end();
    const bool tool =
        (kind == TokenKind::control || kind == TokenKind::user_defined) && name == kToolResponse;
    if (!known && !tool) continue;
    end_tokens.push_back(id);
    names.insert(name);
  }
  const auto is_named = [&](std::string_view name) {
    return [this, name](TokenId id) { return vocabulary.bytes(id) == name; };
  };
  // In Gemma 4's vocabulary </s> is the tag of HTML.
  if (names.contains(kToolResponse)) std::erase_if(end_tokens, is_named("</s>"));
  std::ranges::sort(end_tokens);
  const auto repeats = std::ranges::unique(end_tokens);
  end_tokens.erase(repeats.begin(), repeats.end());
  message_ends = end_tokens;
  // In gpt-oss's format <|end|> ends a message, and others follow.
  if (names.contains("<|return|>") && names.contains("<|call|>"))
    std::erase_if(end_tokens, is_named("<|end|>"));
}

// Returns the leftmost literal that counts at or after `from`, and the longest if several begin
// there. Drops the spans of `plain` that lie before it.
Literals::Match Tokenizer::State::next_literal(std::string_view text, std::size_t from,
                                               bool with_user_defined, bool with_special,
                                               std::span<const TextSpan>& plain) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!user_defined.begins(text[at]) && !special.begins(text[at])) continue;
    while (!plain.empty() && plain.front().end <= at) plain = plain.subspan(1);
    Literals::Match match;
    if (with_user_defined) match = user_defined.match_at(text, at);
    const std::size_t end = plain.empty() ? text.size() : plain.front().begin;
    if (with_special && at < end) {
      const Literals::Match other = special.match_at(text.substr(0, end), at);
      if (other.size > match.size) match = other;
    }
    if (match.size != 0) return match;
  }
  return {};
}

void Tokenizer::State::add_word(std::string_view word, BpeScratch& scratch, Tokens& out) const {
  const auto token = vocabulary.find(word);
  if (!token) return bpe.encode(word, scratch, out);
  auto& known = whole_words[*token];
  if (row.whole_words || known.load(std::memory_order_relaxed) == WholeWord::itself) {
    out.push_back(*token);
    return;
  }
  const auto before = out.size();
  bpe.encode(word, scratch, out);
  const bool itself = out.size() == before + 1 && out.back() == *token;
  known.store(itself ? WholeWord::itself : WholeWord::several, std::memory_order_relaxed);
}

void Tokenizer::State::add_words(std::string_view text, Scratch& scratch, Tokens& out) const {
  if (byte_level())
    pre_tokenizer.split(text, scratch.ends);
  else
    bpe.cut(text, scratch.ends);
  std::size_t begin = 0;
  for (const auto end : scratch.ends) {
    add_word(text.substr(begin, end - begin), scratch.bpe, out);
    begin = end;
  }
}

// Adds the tokens of the text between two literals. As SentencePiece does, it first puts the space
// before the text and then looks for user-defined tokens, which may hold spaces.
void Tokenizer::State::add_text(std::string_view text, Scratch& scratch, Tokens& out) const {
  if (text.empty()) return;
  if (byte_level()) return add_words(text, scratch, out);
  const std::string spaced = (space_prefix ? " " : "") + with_spaces(text);
  const std::string_view rest = spaced;
  std::span<const TextSpan> no_spans;
  for (std::size_t position = 0; position < rest.size();) {
    const auto match = next_literal(rest, position, true, false, no_spans);
    const auto end = match.size == 0 ? rest.size() : match.position;
    add_words(rest.substr(position, end - position), scratch, out);
    if (match.size != 0) out.push_back(match.token);
    position = end + match.size;
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::load(const Metadata& metadata) {
  MILLRACE_ASSIGN(const auto chosen, choose(metadata));
  MILLRACE_ASSIGN(auto vocabulary, Vocabulary::load(metadata, chosen.form));
  MILLRACE_ASSIGN(auto pre_tokenizer, PreTokenizer::compile(chosen.row.rules));
  auto state = std::make_unique<State>(std::move(vocabulary), chosen.row, std::move(pre_tokenizer));
  MILLRACE_ASSIGN(state->space_prefix, engine::space_prefix(metadata, chosen.form));
  MILLRACE_ASSIGN(const auto architecture, metadata.find<std::string_view>("general.architecture"));
  state->phi3 = chosen.form == VocabularyForm::scored && architecture == "phi3";
  MILLRACE_TRY(state->load_ids(metadata));
  MILLRACE_TRY(state->load_listed_ends(metadata));
  state->collect_literals();
  state->collect_end_tokens();
  state->reach.emplace(state->vocabulary, state->phi3);
  return Tokenizer(std::move(state));
}

Tokens Tokenizer::tokenize(std::string_view text, const TokenizeOptions& options) const {
  const State& state = *state_;
  Scratch scratch;
  auto plain = options.plain;
  Tokens tokens;
  if (options.add_special_tokens && state.add_bos) tokens.push_back(*state.bos);
  for (std::size_t position = 0; position < text.size();) {
    const auto match =
        state.next_literal(text, position, state.byte_level(), options.parse_special, plain);
    const auto end = match.size == 0 ? text.size() : match.position;
    state.add_text(text.substr(position, end - position), scratch, tokens);
    position = end + match.size;
    if (match.size == 0) continue;
    tokens.push_back(match.token);
    if (state.drops_space_after(match.token)) position = skip_spaces(text, position);
  }
  if (options.add_special_tokens && state.add_eos) tokens.push_back(*state.eos);
  return tokens;
}

std::string_view Tokenizer::text_of(TokenId id, const DetokenizeOptions& options,
                                    bool& in_text) const {
  if (is_special(id)) {
    in_text = false;
    return options.render_special ? token_bytes(id) : std::string_view();
  }
  auto bytes = token_bytes(id);
  const bool drop = options.drop_space_prefix && state_->space_prefix && !in_text;
  if (drop && bytes.starts_with(' ')) bytes.remove_prefix(1);
  in_text = true;
  return bytes;
}

Result<std::string> Tokenizer::detokenize(std::span<const TokenId> tokens,
                                          const DetokenizeOptions& options) const {
  std::string bytes;
  bool in_text = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= vocabulary_size())
      return fail(Code::invalid_token,
                  "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
                      "; the vocabulary ends at " + std::to_string(vocabulary_size() - 1),
                  "use ids of this model's tokenizer (millrace tokenize)");
    bytes += text_of(tokens[i], options, in_text);
  }
  return utf8_valid(bytes) ? bytes : utf8_replace_invalid(bytes);
}

std::uint32_t Tokenizer::vocabulary_size() const {
  return state_->vocabulary.size();
}
std::string_view Tokenizer::token_bytes(TokenId id) const {
  return state_->vocabulary.bytes(id);
}
bool Tokenizer::is_special(TokenId id) const {
  return state_->vocabulary.is_special(id);
}
bool Tokenizer::holds_byte(std::uint8_t byte) const {
  return state_->vocabulary.byte_token(byte).has_value();
}
std::optional<TokenId> Tokenizer::bos() const {
  return state_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return state_->eos;
}
bool Tokenizer::adds_bos() const {
  return state_->add_bos;
}
bool Tokenizer::adds_eos() const {
  return state_->add_eos;
}
std::span<const TokenId> Tokenizer::end_tokens() const {
  return state_->end_tokens;
}
std::span<const TokenId> Tokenizer::message_ends() const {
  return state_->message_ends;
}
const TokenReach& Tokenizer::reach() const {
  return *state_->reach;
}

}  // namespace millrace::engine
