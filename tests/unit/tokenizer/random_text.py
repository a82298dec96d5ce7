"""Random Unicode for comparisons of tokenizers: rich in what their rules tell apart."""
import functools
import random
import unicodedata

SEED = 20260
PIECES = ["'s", "'S", "'t", "'re", "'RE", "'ve", "'m", "'ll", "'lL", "'d", "'\u017f", "I'm",
          "don't", "''", " ", "  ", "\n", "\r\n", "\n\n", "\t", "\x0b", "\x0c", "\u0085", "\u00a0",
          "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff", "\u180e", "\x00", "\x04", "\x1c",
          "\x7f", "e\u0301", "\u0301", "\u093f", "한국어", "中文", "日本語の", "ไทย", "नमस्ते",
          "العربية", "½", "٣", "Ⅻ", "²", "7", "123", "1234567", "...", "!!", "->", "a", "The",
          " the", "İ", "\u212a", "👩‍👩‍👧", "🇩🇪", "😶‍🌫️", "\U000e0041", "\U0010fffd"]
# What the rules of single models tell apart: case, marks, scripts, digits and punctuation.
RULE_PIECES = [
    "HTTPServer", "camelCase", "ABC", "Ab", "aB", "ÀÉ", "éÀ", "ǅ", "ʰ", "ª", "ﬁ", "ß", "Ω",
    "я", "ЖЖж", "x\u0301Y", "A\u0301b", " \u0301", "-\u0301", "क\u093f", "漢", "漢字A", "A漢",
    "a漢b", "々", "〇", "ひらカタ", "ｱ", "ㄅㄆ", "ㄱㄴ", "가나", "ࠀ", "一", "龥", "鿿", "𠀀", "𐐀", "𞤀", "！",
    "？、。", "：", "～", "‘’“”", "—", "…", "〈", "０１２", "Ａｂ", "a.b", "x/y", "//\n", "!\n\n",
    ")\r\n", "?/", "$^~`+|<=>", "%&*", "#tag", ".com", "@me", "_x_", " (a", "\t(",
    " \u00a0", "a b c", "x y", "on the way", "\n a", " \n \n ", "\n   b", "1 2", " 12",
    "  345", "12a", "1,234.5", "٣٤٥٦", "①②", "x²", "½¼", "ↀ", "<sentinel:12>",
    "<sentinel:x", "IMGIMGABCZ", "IMGIMGABCDEZ", "    ", "      ", "\t\t", "、x", "،", "۔",
    "।", "|", "((", "?'s", "A's", "É'LL", "中's", "1's", "'re's"]


def assigned_code_points():
    """Returns the code points that Python's Unicode tables assign. These must not be newer than
    ours (15): a newer code point is a letter to one tokenizer and unassigned to another."""
    assert unicodedata.unidata_version.split(".")[0] <= "15"
    return [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


@functools.cache
def random_strings(count, rules=False):
    """Returns strings of up to 40 pieces; with `rules`, from RULE_PIECES, too."""
    rng = random.Random(SEED)
    assigned = assigned_code_points()
    planes = [[c for c in assigned if c >> 16 == plane] for plane in (0, 1, 2, 14, 15, 16)]
    east_asian = [c for c in assigned if 0x2e80 <= c <= 0x33ff]
    makers = [
        lambda: rng.choice(PIECES),
        lambda: rng.choice(PIECES),
        lambda: chr(rng.choice(assigned)),
        lambda: chr(rng.choice(rng.choice(planes))),
        lambda: chr(rng.randint(0x20, 0x7e)),
        lambda: "".join(chr(rng.randint(97, 122)) for _ in range(rng.randint(1, 14))),
        lambda: str(rng.randint(0, 10 ** rng.randint(1, 12))),
        lambda: chr(rng.randint(0, 0x1f)),
        lambda: chr(rng.randint(0x300, 0x36f)),
        lambda: rng.choice(" \t\n\r\u2009") * rng.randint(1, 9),
    ]
    if rules:
        makers += [lambda: rng.choice(RULE_PIECES)] * 5 + [
            lambda: "".join(rng.choice("aAéÉ漢") for _ in range(rng.randint(1, 6))),
            lambda: "".join(rng.choice("!?.,-/'\"") for _ in range(rng.randint(1, 6))),
            lambda: " " * rng.choice([1, 2, 3, 4, 5, 8, 17, 64, 70, 300, 600]),
            lambda: chr(rng.choice(east_asian))]
    return ["".join(rng.choice(makers)() for _ in range(rng.randint(1, 40))) for _ in range(count)]
