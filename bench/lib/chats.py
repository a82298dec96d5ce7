"""Makes the chats of `--only job` from texts that Debian installs everywhere (base-files), and
counts the tokens of the answers."""
import json
import pathlib
import subprocess

from .run import BIN, Failed

TEXTS = pathlib.Path("/usr/share/common-licenses")
SYSTEM_TEXT, USER_TEXTS = "GPL-3", ["Apache-2.0", "GPL-2", "LGPL-2.1", "MPL-2.0", "GFDL-1.3"]
SYSTEM_TOKENS = 400


def words_of(*names):
    return [word for name in names for word in (TEXTS / name).read_text().split()]


def system_prompt(count_tokens, words):
    """The first words that make SYSTEM_TOKENS tokens. count_tokens: texts -> their token counts."""
    counts = range(SYSTEM_TOKENS // 2, SYSTEM_TOKENS + 1)
    texts = [" ".join(words[:count]) for count in counts]
    for text, tokens in zip(texts, count_tokens(texts)):
        if tokens >= SYSTEM_TOKENS:
            return text
    raise Failed(f"{SYSTEM_TOKENS} words make fewer than {SYSTEM_TOKENS} tokens")


def user_prompts(number, words):
    """Passages of 10 to 209 words, each from another place."""
    out = []
    for i in range(number):
        size, at = 10 + i * 37 % 200, i * 613 % (len(words) - 210)
        out.append("Say in one paragraph what this passage means: "
                   + " ".join(words[at:at + size]))
    return out


def token_counts(model, lines):
    """The number of tokens of each line, by our tokenizer."""
    done = subprocess.run([BIN / "millrace", "tokenize", "--model", model], text=True,
                          input="".join(line + "\n" for line in lines), capture_output=True)
    if done.returncode != 0:
        raise Failed(f"millrace tokenize: {done.stderr[-500:]}")
    return [len(json.loads(line)) for line in done.stdout.splitlines()]


def output_tokens(model, texts):
    """The tokens of all texts. A line break counts as one, because the tokenizer reads lines."""
    lines = [line.replace("\r", " ") for text in texts for line in text.split("\n")]
    return sum(token_counts(model, lines)) + len(lines) - len(texts)


def chats(model, number):
    system = system_prompt(lambda texts: token_counts(model, texts), words_of(SYSTEM_TEXT))
    return [[{"role": "system", "content": system}, {"role": "user", "content": user}]
            for user in user_prompts(number, words_of(*USER_TEXTS))]
