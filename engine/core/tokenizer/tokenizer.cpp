#include "engine/core/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/tokenizer/bpe.hpp"
#include "engine/core/tokenizer/literals.hpp"
#include "engine/core/tokenizer/pre_tokenizer.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

// Names under which published models write the end of a text, a turn or a message.
constexpr std::array<std::string_view, 9> kEndNames{
    "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>",   "<|eom_id|>",
    "<|end|>",       "<|eot|>",         "</s>",       "<end_of_turn>"};

Result<const PreTokenizerRow*> choose_pre_tokenizer(const Metadata& metadata) {
  MILLRACE_ASSIGN(const auto model, metadata.get<std::string_view>("tokenizer.ggml.model"));
  if (model != "gpt2")
    return fail(
        Code::unsupported_tokenizer,
        "tokenizer model '" + printable(model) + "' (tokenizer.ggml.model) is not supported",
        "use a model with a byte-level BPE tokenizer (gpt2), such as SmolLM2, Llama 3 or Qwen 2.5; "
        "Llama 2 and Mistral 7B have another kind (llama), which this version does not load");
  MILLRACE_ASSIGN(const auto name, metadata.find<std::string_view>("tokenizer.ggml.pre"));
  if (!name)
    return fail(Code::unsupported_tokenizer,
                "the file does not name its pre-tokenizer (tokenizer.ggml.pre)",
                "convert the model again with a current converter");
  if (const auto* found = find_pre_tokenizer(*name)) return found;
  return fail(Code::unsupported_tokenizer,
              "pre-tokenizer '" + printable(*name) + "' (tokenizer.ggml.pre) is not supported",
              "use a model with one of the pre-tokenizers " + supported_pre_tokenizers());
}

// Whether the merges turn a normal token's bytes into that token. Its first use as a word decides.
enum class WholeWord : std::uint8_t { not_tried, itself, several };

}  // namespace

struct Tokenizer::State {
  State(Vocabulary words, const PreTokenizerRow& chosen, PreTokenizer compiled)
      : vocabulary(std::move(words)),
        bpe(vocabulary),
        row(chosen),
        pre_tokenizer(std::move(compiled)),
        whole_words(vocabulary.size()) {}

  Status load_ids(const Metadata& metadata);
  Status load_id(const Metadata& metadata, std::string_view key, std::optional<TokenId>& id);
  void collect_literals();
  void collect_end_tokens();
  Literals::Match next_literal(std::string_view text, std::size_t from, bool special,
                               std::span<const TextSpan>& plain) const;
  void add_text(std::string_view text, BpeScratch& scratch, std::vector<std::size_t>& ends,
                Tokens& out) const;
  void add_word(std::string_view word, BpeScratch& scratch, Tokens& out) const;

  Vocabulary vocabulary;
  Bpe bpe;
  const PreTokenizerRow& row;
  PreTokenizer pre_tokenizer;
  Literals always, with_special;  // user-defined tokens; the same and the special ones
  bool add_bos = false, add_eos = false;
  std::optional<TokenId> bos, eos, end_of_turn, end_of_message;
  Tokens end_tokens;
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

void Tokenizer::State::collect_literals() {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const bool user_defined = vocabulary.kind(id) == TokenKind::user_defined;
    if (user_defined) always.add(vocabulary.bytes(id), id);
    if (user_defined || vocabulary.is_special(id)) with_special.add(vocabulary.bytes(id), id);
  }
}

void Tokenizer::State::collect_end_tokens() {
  for (const auto& id : {eos, end_of_turn, end_of_message})
    if (id) end_tokens.push_back(*id);
  for (TokenId id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.kind(id) == TokenKind::control &&
        std::ranges::find(kEndNames, vocabulary.bytes(id)) != kEndNames.end())
      end_tokens.push_back(id);
  std::ranges::sort(end_tokens);
  const auto repeats = std::ranges::unique(end_tokens);
  end_tokens.erase(repeats.begin(), repeats.end());
}

// Returns the leftmost literal that counts at or after `from`, and the longest if several begin
// there. Drops the spans of `plain` that lie before it.
Literals::Match Tokenizer::State::next_literal(std::string_view text, std::size_t from,
                                               bool special,
                                               std::span<const TextSpan>& plain) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!with_special.begins(text[at])) continue;
    while (!plain.empty() && plain.front().end <= at) plain = plain.subspan(1);
    Literals::Match match = always.match_at(text, at);
    const std::size_t end = plain.empty() ? text.size() : plain.front().begin;
    if (special && at < end) {
      const Literals::Match longer = with_special.match_at(text.substr(0, end), at);
      if (longer.size > match.size) match = longer;
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

void Tokenizer::State::add_text(std::string_view text, BpeScratch& scratch,
                                std::vector<std::size_t>& ends, Tokens& out) const {
  pre_tokenizer.split(text, ends);
  std::size_t begin = 0;
  for (const auto end : ends) {
    add_word(text.substr(begin, end - begin), scratch, out);
    begin = end;
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::load(const Metadata& metadata) {
  MILLRACE_ASSIGN(const auto* row, choose_pre_tokenizer(metadata));
  MILLRACE_ASSIGN(auto vocabulary, Vocabulary::load(metadata));
  MILLRACE_ASSIGN(auto pre_tokenizer, PreTokenizer::compile(row->rules));
  auto state = std::make_unique<State>(std::move(vocabulary), *row, std::move(pre_tokenizer));
  MILLRACE_TRY(state->load_ids(metadata));
  state->collect_literals();
  state->collect_end_tokens();
  return Tokenizer(std::move(state));
}

Tokens Tokenizer::tokenize(std::string_view text, const TokenizeOptions& options) const {
  const State& state = *state_;
  BpeScratch scratch;
  std::vector<std::size_t> ends;
  auto plain = options.plain;
  Tokens tokens;
  if (options.add_special_tokens && state.add_bos) tokens.push_back(*state.bos);
  for (std::size_t position = 0; position < text.size();) {
    const auto match = state.next_literal(text, position, options.parse_special, plain);
    const auto end = match.size == 0 ? text.size() : match.position;
    state.add_text(text.substr(position, end - position), scratch, ends, tokens);
    if (match.size != 0) tokens.push_back(match.token);
    position = end + match.size;
  }
  if (options.add_special_tokens && state.add_eos) tokens.push_back(*state.eos);
  return tokens;
}

Result<std::string> Tokenizer::detokenize(std::span<const TokenId> tokens,
                                          const DetokenizeOptions& options) const {
  std::string bytes;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= vocabulary_size())
      return fail(Code::invalid_token,
                  "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
                      "; the vocabulary ends at " + std::to_string(vocabulary_size() - 1),
                  "use ids of this model's tokenizer (millrace tokenize)");
    if (options.render_special || !is_special(tokens[i])) bytes += token_bytes(tokens[i]);
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

}  // namespace millrace::engine
