// The values of `tokenizer.ggml.pre` and the regular expressions that they stand for, as the
// models' own tokenizer.json or tokenizer code writes them. Which name stands for which model is
// the choice of llama.cpp's converter (https://github.com/ggml-org/llama.cpp).
#include <algorithm>

#include "engine/core/tokenizer/pre_tokenizer.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kNewLine = R"([\r\n])";
constexpr std::string_view kCjkAndKana = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kCjkAndHangul = "[一-龥ࠀ-一가-퟿]+";

constexpr SplitRule kGpt2[] = {{kGpt2Pattern}};
constexpr SplitRule kDigitGpt2[] = {{kDigit}, {kGpt2Pattern}};
constexpr SplitRule kLlama3[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The expression of the bailing models looks different ('(?i:[sdmt]|ll|ve|re), possessive ?+ and
// ++, \s*[\r\n]) but finds the same words.
constexpr SplitRule kQwen2[] = {{kQwen2Pattern}};
constexpr SplitRule kQwen35[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
     R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kGpt4o[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kTekken[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
     R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
// In Hugging Face's terms: Punctuation (contiguous), ByteLevel, Digits, Split. The last two read
// what ByteLevel wrote, so the bytes that its alphabet writes as ² or ½ count as digits.
constexpr SplitRule kFalcon[] = {{R"([\p{P}!-/:-@\[-`{-~]+)"},
                                 {kGpt2Pattern},
                                 {R"(\p{N}+)", Reading::bytes},
                                 {"[0-9][0-9][0-9]", Reading::bytes}};
// clang-format off
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[)"
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷ"
    "ᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿ"
    "ⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
    "]+";
// clang-format on
constexpr SplitRule kDeepSeekLlm[] = {{kNewLine},
                                      {kDeepSeekLetters},
                                      {R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)"},
                                      {R"(\s+$)", Reading::characters, R"(\s+)"},
                                      {kCjkAndHangul},
                                      {kDigit}};
constexpr SplitRule kDeepSeekCoder[] = {
    {kNewLine}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {kCjkAndHangul}, {kDigit}};
constexpr SplitRule kDeepSeekV3[] = {
    {kThreeDigits},
    {kCjkAndKana},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kSpark[] = {
    {kThreeDigits},
    {kCjkAndKana},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
     R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"},
    {kDigit}};
constexpr SplitRule kKimi[] = {
    {R"([\p{Han}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
     R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
     R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kYoutu[] = {
    {R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr std::string_view kBloomPattern = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
constexpr SplitRule kBloom[] = {{kBloomPattern}};
constexpr SplitRule kViking[] = {{kBloomPattern}, {kDigit}};
constexpr SplitRule kSeedCoder[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kExaoneMoe[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
     R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}};
constexpr SplitRule kJais2[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S))"
     R"(|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};
constexpr SplitRule kMiniCpm5[] = {
    {kThreeDigits},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kUfakZeka[] = {
    {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
constexpr SplitRule kLaguna[] = {{R"([^\n]+|[\n]+)"}, {kQwen2Pattern}};
constexpr SplitRule kChameleon[] = {
    {"<sentinel:[0-9]+>"},       {"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"},
    {R"([\t\n]|    |  )"},       {kDigit},
    {R"([\p{P}!-/:-@\[-`{-~])"}, {kGpt2Pattern}};

constexpr PreTokenizerRow kRows[] = {
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"exaone4", kGpt2},
    {"modern-bert", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"smollm", kDigitGpt2},
    {"starcoder", kDigitGpt2},
    {"refact", kDigitGpt2},
    {"command-r", kDigitGpt2},
    {"codeshell", kDigitGpt2},
    {"exaone", kDigitGpt2},
    {"minerva-7b", kDigitGpt2},
    {"mellum2", kDigitGpt2},
    {"llama-bpe", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"falcon3", kLlama3, true, true},
    {"falcon-h1", kLlama3, true, true},
    {"pixtral", kLlama3, true, true},
    {"midm-2.0", kLlama3, true, true},
    {"lfm2", kLlama3, true, true},
    {"jina-v5-nano", kLlama3, true, true},
    {"glm4", kLlama3, true},
    {"glm5", kLlama3, true},
    {"chatglm-bpe", kLlama3},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"solar-open", kQwen2},
    {"grok-2", kQwen2},
    {"bailingmoe", kQwen2},
    {"bailingmoe2", kQwen2},
    {"llada-moe", kQwen2},
    {"qwen35", kQwen35},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, true},
    {"tekken", kTekken, true, true},
    {"falcon", kFalcon},
    {"deepseek-llm", kDeepSeekLlm},
    {"deepseek-coder", kDeepSeekCoder},
    {"deepseek-v3", kDeepSeekV3},
    {"hunyuan-dense", kDeepSeekV3},
    {"joyai-llm", kDeepSeekV3},
    {"hy_v4", kDeepSeekV3},
    {"spark2_5", kSpark},
    {"kimi-k2", kKimi},
    {"youtu", kYoutu, true},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"seed-coder", kSeedCoder},
    {"exaone-moe", kExaoneMoe},
    {"jais-2", kJais2},
    {"minicpm5", kMiniCpm5, true},
    {"ufakzeka", kUfakZeka},
    {"laguna", kLaguna},
    {"chameleon", kChameleon, false, true},
};

// Ways to write an expression that find the same words, each with the one that the rules take.
constexpr struct {
  std::string_view other, ours;
} kSpellings[] = {
    {"'(?i:[sdmt]|ll|ve|re)", "(?i:'s|'t|'re|'ve|'m|'ll|'d)"},
    {"?+", "?"},
    {"++", "+"},
    {R"(|\s*[\r\n]|)", R"(|\s*[\r\n]+|)"},
    {R"(\p{N}{1}|)", R"(\p{N}|)"},
    {R"(\")", R"(")"},
    {"\r", R"(\r)"},
    {"\n", R"(\n)"},
};

std::string spelled_alike(std::string_view pattern) {
  std::string out(pattern);
  for (const auto& [other, ours] : kSpellings) {
    for (auto at = out.find(other); at != std::string::npos; at = out.find(other, at)) {
      out.replace(at, other.size(), ours);
      at += ours.size();
    }
  }
  return out;
}

}  // namespace

const PreTokenizerRow* recognize_pre_tokenizer(std::span<const std::string> patterns,
                                               bool whole_words) {
  const auto alike = [](const SplitRule& rule, const std::string& pattern) {
    return spelled_alike(rule.pattern) == spelled_alike(pattern);
  };
  for (const auto& row : kRows) {
    if (row.whole_words == whole_words && std::ranges::equal(row.rules, patterns, alike))
      return &row;
  }
  return nullptr;
}

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  for (const auto& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

std::string supported_pre_tokenizers() {
  std::string names;
  for (const auto& row : kRows) {
    if (!names.empty()) names += ", ";
    names += row.name;
  }
  return names;
}

}  // namespace millrace::engine
