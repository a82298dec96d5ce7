"""Rendered chats say which of their parts came from messages. The messages use letters that no
template uses, so the rendered text itself shows the right answer."""
import itertools
import random

import pytest

from test_template import CHAT, CONSTRUCTS, TEMPLATES, Probe, model_template, random_chat


@pytest.fixture(scope="module")
def probe():
    p = Probe()
    yield p
    p.process.stdin.close()
    assert p.process.wait() == 0


# Greek has upper and lower case. Filters strip these spaces as any other. All have several bytes.
LETTERS = "αβγδεζΑΒΓΔΕΖ한국어\u2003\u2028"


def in_letters(chat, rng):
    return [{"role": m["role"], "content": "".join(rng.choice(LETTERS) for _ in m["content"])}
            for m in chat]


def spans_of_letters(text):
    spans, at = [], 0
    for ours, group in itertools.groupby(text, lambda c: c in LETTERS):
        size = len("".join(group).encode())
        if ours:
            spans.append([at, at + size])
        at += size
    return spans


@pytest.mark.parametrize("name", [*TEMPLATES, "the model's own"])
def test_random_chats(probe, name):
    template = TEMPLATES.get(name) or model_template()
    rng = random.Random(f"letters of {name}")
    rendered = spans = 0
    for _ in range(200):
        chat = in_letters(random_chat(rng), rng)
        answer = probe(template, chat, spans=True, add_generation_prompt=rng.random() < 0.7)
        if "text" not in answer:
            continue  # the template's own refusals, which test_template.py compares
        assert answer["from_messages"] == spans_of_letters(answer["text"]), (template, chat)
        rendered += 1
        spans += len(answer["from_messages"])
    assert rendered > 50 and spans > 50


@pytest.mark.parametrize("template", CONSTRUCTS)
def test_constructs(probe, template):
    """No byte of a message counts as the template's, whatever the template does with it. Some bytes
    of the template may count as a message's, where a filter or a list's text mixes them."""
    chat = in_letters(CHAT, random.Random("constructs"))
    answer = probe(template, chat, spans=True)
    missed = [span for span in spans_of_letters(answer["text"])
              if not any(b <= span[0] and span[1] <= e for b, e in answer["from_messages"])]
    assert not missed, (answer, missed)


def test_large_chats(probe):
    """A megabyte in one message, in ten thousand, and character by character."""
    template = model_template()
    one = [{"role": "user", "content": "α국<|im_end|>" * 60_000}]
    many = [{"role": "user" if i % 2 == 0 else "assistant", "content": "β" * 50}
            for i in range(10_000)]
    for chat in (one, many):
        answer = probe(template, chat, spans=True)
        assert len(answer["from_messages"]) == len(chat)
        content = chat[0]["content"].encode()
        begin, end = answer["from_messages"][0]
        assert answer["text"].encode()[begin:end] == content
    letters = "{% for c in messages[0].content %}{{ c }}-{% endfor %}"
    answer = probe(letters, [{"role": "user", "content": "γ" * 500_000}], spans=True)
    assert len(answer["from_messages"]) == 500_000
    upper = "{% set t %}" + letters + "{% endset %}{{ t.upper().strip('-')[1:] | trim }}"
    answer = probe(upper, [{"role": "user", "content": "γ" * 500_000}], spans=True)
    assert len(answer["from_messages"]) == 499_999
