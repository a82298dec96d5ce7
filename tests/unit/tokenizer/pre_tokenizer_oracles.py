"""The pre-tokenizers of PyPI `tokenizers`, set up as the models' own tokenizer.json set them up.
The expressions stand here once more, as the oracle of those in the engine."""
import functools
import unicodedata

from tokenizers import Regex
from tokenizers import pre_tokenizers as hf

from random_text import assigned_code_points

SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+SUFFIX"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*SUFFIX"
         r"|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES)
LATIN_AND_GREEK = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ"
    "ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭ"
    "ℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
ASCII_WORD = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
              r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+")


def split(expression, **values):
    for name, value in values.items():
        expression = expression.replace(name.upper(), value)
    return hf.Split(Regex(expression), "isolated")


def byte_level(use_regex=False):
    return hf.ByteLevel(add_prefix_space=False, use_regex=use_regex)


GPT2 = [byte_level(True)]
DIGIT_GPT2 = [hf.Digits(individual_digits=True), byte_level(True)]
LLAMA3 = [split(CL100K, digits=r"\p{N}{1,3}")]
QWEN2 = [split(CL100K, digits=r"\p{N}")]
GPT4O = [split(CASED, suffix=f"{SHORT}?", digits=r"\p{N}{1,3}")]
CJK_AND_KANA = split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+")
CJK_AND_HANGUL = split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+")
DEEPSEEK_V3 = [split(r"\p{N}{1,3}"), CJK_AND_KANA,
               split(ASCII_WORD + r"| ?[\p{P}\p{S}]+[\r\n]*" + SPACES)]
BLOOM = [split(r" ?[^(\s|[.,!?…。，、।۔،])]+")]
NOT_HAN = "&&[^\\p{Han}]]"

# Name of the oracle -> its stages, whether a word in the vocabulary is one token, and the values
# of tokenizer.ggml.pre that ask for it.
ROWS = {
    "gpt2": (GPT2, False, "gpt-2 phi-2 mpt olmo jais trillion granite-docling gigachat a.x-4.0 "
             "mellum exaone4 modern-bert jina-es jina-de"),
    "digit, gpt2": (DIGIT_GPT2, False, "smollm starcoder refact command-r codeshell exaone "
                    "minerva-7b mellum2"),
    "llama3": (LLAMA3, True, "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
               "jina-v5-nano glm4 glm5"),
    "cl100k": (LLAMA3, False, "chatglm-bpe dbrx smaug-bpe"),
    "qwen2": (QWEN2, False, "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan "
              "solar-open grok-2"),
    "bailing": ([split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
                       r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")], False,
                "bailingmoe bailingmoe2 llada-moe"),
    "qwen35": ([split(SHORT + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
                      r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACES)], False, "qwen35"),
    "o200k": (GPT4O, False, "gpt-4o llama4 kanana2 talkie minimax-m2"),
    "o200k, whole": (GPT4O, True, "granite-embed-multi-97m"),
    "tekken": ([split(CASED, suffix="", digits=r"\p{N}")], True, "tekken"),
    "falcon": ([hf.Punctuation("contiguous"), byte_level(True), hf.Digits(individual_digits=False),
                split("[0-9][0-9][0-9]")], False, "falcon"),
    "deepseek-llm": ([split("[\r\n]"), split(rf"\s?[{LATIN_AND_GREEK}]+"),
                      split("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"),
                      split(r"\s+$"), CJK_AND_HANGUL, hf.Digits(individual_digits=True)],
                     False, "deepseek-llm"),
    "deepseek-coder": ([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), CJK_AND_HANGUL,
                        hf.Digits(individual_digits=True)], False, "deepseek-coder"),
    "deepseek-v3": (DEEPSEEK_V3, False, "deepseek-v3 hunyuan-dense joyai-llm hy_v4"),
    "spark": ([*DEEPSEEK_V3[:2],
               split(ASCII_WORD + r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"), split(r"\p{N}")],
              False, "spark2_5"),
    "kimi": ([split(r"[\p{Han}]+|" + CASED.replace(UPPER, UPPER[:-1] + NOT_HAN).replace(
        LOWER, LOWER[:-1] + NOT_HAN).replace("[\\r\\n/]*", "[\\r\\n]*"),
        suffix=f"{SHORT}?", digits=r"\p{N}{1,3}")], False, "kimi-k2"),
    "youtu": ([split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"),
               split(CASED, suffix=f"{SHORT}?", digits=r"\p{N}")], True, "youtu"),
    "bloom": (BLOOM, False, "bloom poro-chat gpt3-finnish"),
    "viking": ([*BLOOM, hf.Digits(individual_digits=True)], False, "viking"),
    "seed-coder": ([split(SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
                          r"| ?[^\s\p{L}\p{N}\r\n]+" + SPACES)], False, "seed-coder"),
    "exaone-moe": ([split(SHORT + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
                          r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+")], False,
                   "exaone-moe"),
    "jais-2": ([split(CL100K[:CL100K.index(r"|\s+(?!")] + "".join(
        rf"|\s{{{n}}}(?!\S)" for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2"))
        + r"|\s{1}", digits=r"\p{N}{1,3}")], False, "jais-2"),
    "minicpm5": ([split(r"\p{N}{1,3}"), split(CL100K, digits=r"\p{N}+")], True, "minicpm5"),
    "ufakzeka": ([split(CL100K[len(SHORT) + 1:], digits=r"\p{N}")], False, "ufakzeka"),
    "laguna": ([split(r"[^\n]+|[\n]+"), *QWEN2], False, "laguna"),
    "chameleon": ([split("<sentinel:[0-9]+>"), split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
                   split("([\t\n]|    |  )"), hf.Digits(individual_digits=True),
                   hf.Punctuation("isolated"), byte_level(True)], False, "chameleon"),
}


def pre_tokenizer(name):
    """Returns the pre-tokenizer of a row, with ByteLevel in it."""
    stages = ROWS[name][0]
    if not any(isinstance(stage, hf.ByteLevel) for stage in stages):
        stages = [*stages, byte_level()]
    return hf.Sequence(stages)


def row_of(pre):
    """Returns the name of the row for a value of tokenizer.ggml.pre."""
    return next(name for name, (_, _, values) in ROWS.items() if pre in values.split())


@functools.cache
def unsure_punctuation():
    """Returns the characters that Unicode's present categories and the class Punctuation of
    `tokenizers`, which knows Unicode 8, take for different things."""
    punctuation = hf.Punctuation("isolated")
    unsure = {chr(c) for c in assigned_code_points() if c >= 0x80 and
              (unicodedata.category(chr(c))[0] == "P") !=
              (len(punctuation.pre_tokenize_str(f"a{chr(c)}a")) == 3)}
    assert 80 < len(unsure) < 120
    return unsure
