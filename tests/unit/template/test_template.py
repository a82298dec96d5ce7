"""Compares the chat template engine with jinja2, set up as transformers does for chat templates."""

import functools
import itertools
import json
import os
import pathlib
import random
import subprocess
import unicodedata

import jinja2
import pytest

import real_templates

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TEMPLATES = {p.stem: p.read_text() for p in sorted((HERE / "templates").glob("*.jinja"))}


def lines(name):
    return [t for t in (HERE / name).read_text().split("\n") if t and t[0] != "#"]


NOW_S = 1_722_000_000


class Probe:
    NAME = "template_probe"

    def __init__(self):
        build = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
        if not build.is_absolute():
            build = ROOT / build
        program = build / "tests" / self.NAME
        assert program.exists(), f"{program} is missing: build the target {self.NAME}"
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, template, messages=(), **options):
        request = {"template": template, "messages": list(messages), "now_s": NOW_S, **options}
        return self.ask(request)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the probe died on {request}"
        return json.loads(answer)


@pytest.fixture(scope="module")
def probe():
    p = Probe()
    yield p
    p.process.stdin.close()
    assert p.process.wait() == 0


def reference(template, messages=(), add_generation_prompt=True, bos_token="<s>", eos_token="</s>"):
    return real_templates.environment(NOW_S).from_string(template).render(
        messages=list(messages), add_generation_prompt=add_generation_prompt, bos_token=bos_token,
        eos_token=eos_token, tools=None, documents=None)


def check(probe, template, messages=(), **options):
    answer = probe(template, messages, **options)
    try:
        expected = reference(template, messages, **options)
    except jinja2.exceptions.TemplateError as error:
        assert answer.get("code") == "template_error", answer
        assert str(error) in answer["message"], (answer, str(error))
        return False
    assert answer == {"text": expected}, f"{template!r} with {messages!r}"
    return True


PIECES = ["hello", " ", "\n", "  two  ", "{{ not a tag }}", "é", "日本", "🙂", "'", '"', "\\n",
          "<|end|>", "\u00a0", "\t", "a b", "{% if %}", "\u200b", "\r\n", "x" * 50, "ß", "[ASK]"]


def random_text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(0, 6)))


def random_chat(rng):
    """Returns a chat: mostly well-formed turns, sometimes any roles."""
    if rng.random() < 0.25:
        known = ["system", "user", "assistant", "tool"]
        roles = [rng.choice(known) for _ in range(rng.randrange(1, 5))]
    else:
        roles = ["system"] * rng.randrange(2) + ["user", "assistant"] * rng.randrange(4) + ["user"]
    return [{"role": role, "content": random_text(rng)} for role in roles]


@pytest.mark.parametrize("name", TEMPLATES)
def test_random_chats(probe, name):
    rng = random.Random(f"chats of {name}")
    rendered = sum(check(probe, TEMPLATES[name], random_chat(rng),
                         add_generation_prompt=rng.random() < 0.7) for _ in range(200))
    assert rendered > 50


@functools.cache
def model_template():
    from gguf import GGUFReader
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, capture_output=True,
                              text=True).stdout.splitlines()[-1]
    field = GGUFReader(path).fields["tokenizer.chat_template"]
    return bytes(field.parts[field.data[0]]).decode()


def test_the_models_own_template(probe):
    template = model_template()
    rng = random.Random("the model's template")
    for _ in range(300):
        check(probe, template, random_chat(rng), add_generation_prompt=rng.random() < 0.7)


def test_golden_chats(probe):
    files = sorted((ROOT / "tests/reference/golden").glob("chat-*.json"))
    assert len(files) >= 4
    template = model_template()
    for file in files:
        golden = json.loads(file.read_text())
        assert probe(template, golden["messages"]) == {"text": golden["rendered"]}, file.name


CONSTRUCTS = lines("constructs.txt")
WHITESPACE = [
    'a\n  {% if 1 %}\n  b\n  {% endif %}\nc\n',
    'a \n {%- if 1 -%} \n b \n {%- endif -%} \n c',
    'a {{- 1 -}} b {{ 2 }} \n c',
    '  {%+ if 1 %}x{% endif %}\n\n\ny',
    'x\n{# note #}\ny {#- note -#} z\n  {# lead #}w',
    '{% if 1 +%}\nkept{% endif %}',
    '{% raw %}{{ not }} {% parsed %}{% endraw %} x {%- raw -%} y {%- endraw %}\nz',
    'a\r\nb\rc\n\n',
    '\n',
    '',
    '  {{ 1 }}\n  {% set x = 1 %}  \n',
    "{{ {'a': {'b': 1}} }} {{ {'a': {}}}}",
    '{%if 1%}{{1}}{%endif%}',
    '{{ \'}}\' }}{{ \'%}\' }}{{ "{#" }}',
    "{ {% if 1 %}{{ '{' }}{% endif %} } {",
    'a\v {% if 1 %}b{% endif %}\xa0{%- if 1 %}c{% endif %}',
    '{{ 1 }}\n{{ 2 }}\n',
    'line\n\t {% set y = 2 %}\nnext',
]
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hé? 日"},
        {"role": "assistant", "content": "Ho"}, {"role": "user", "content": "Bye"}]


@pytest.mark.parametrize("template", CONSTRUCTS + [t for t in WHITESPACE if t])
def test_construct(probe, template):
    assert check(probe, template, CHAT), "jinja2 itself refuses this construct"


def test_case_is_mapped_one_character_to_one(probe):
    """Tries every character of Python's Unicode, which must not be newer than utf8proc's (15)."""
    assert unicodedata.unidata_version.split(".")[0] <= "15"
    assigned = [chr(c) for c in range(0x21, 0x110000)
                if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    python = {"upper": str.upper, "lower": str.lower, "title": str.title,
              "capitalize": str.capitalize}
    template = ("{% for m in messages %}"
                + "".join("{{ m.content." + name + "() }}\n" for name in python) + "{% endfor %}")
    several = dict.fromkeys(python, 0)
    for i in range(0, len(assigned), 2000):
        part = assigned[i:i + 2000]
        ours = probe(template, [{"role": "user", "content": c} for c in part])["text"].split("\n")
        assert len(ours) == len(part) * len(python) + 1
        for mine, (character, name) in zip(ours, itertools.product(part, python)):
            theirs = python[name](character)
            if len(theirs) > 1:
                several[name] += 1
                assert len(mine) == 1 and mine != theirs, (name, ascii(character))
            else:
                assert mine == theirs, (name, ascii(character))
    assert all(several.values())


@pytest.mark.parametrize("template, ours, theirs", [
    ("{{ 'straße' | upper }}", "STRAẞE", "STRASSE"),
    ("{{ '\u0149' | upper }}", "\u0149", "\u02bcN"),
    ("{{ 'ΟΔΟΣ' | lower }}", "οδοσ", "οδος"),
])
def test_where_case_differs_from_python(probe, template, ours, theirs):
    assert probe(template, CHAT) == {"text": ours}
    assert reference(template, CHAT) == theirs


RAISING = [
    "{{ raise_exception('the own message, é') }}",
    "{{ missing.x }}",
    "{{ messages[0].x.y }}",
    "{{ missing + 1 }}",
    "{{ missing() }}",
    "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{{ -missing }}",
    "{{ missing < 1 }}",
]


@pytest.mark.parametrize("template", RAISING)
def test_errors_that_jinja_raises(probe, template):
    answer = probe(template, CHAT)
    assert answer["code"] == "template_error"
    with pytest.raises(Exception):
        reference(template, CHAT)


def test_raised_message_is_the_templates_own(probe):
    bad = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    answer = probe(TEMPLATES["dialogue"], bad)
    assert answer["code"] == "template_error"
    assert "Turn 2: user has just spoken." in answer["message"]
    assert answer["hint"]


WRONG = [  # template, part of the message
    ("{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"),
    ("{{ 1 / 0 }}", "division by zero"),
    ("{{ 1 // 0 }}", "division by zero"),
    ("{{ 1 % 0 }}", "division by zero"),
    ("{{ 1 < 'a' }}", "'<' not supported between instances of 'int' and 'str'"),
    ("{{ 'a' in 1 }}", "argument of type 'int' is not iterable"),
    ("{% for i in 1 %}{% endfor %}", "'int' object is not iterable"),
    ("{{ 1 in 'a' }}", "requires string as left operand"),
    ("{{ 3 | length }}", "has no len()"),
    ("{{ 'a'() }}", "not callable"),
    ("{{ range(1000000) }}", "the range has more than"),
    ("{{ range(1, 2, 0) }}", "step of zero"),
    ("{{ [1][::0] }}", "slice step"),
    ("{{ 'a' | replace('b') }}", "'replace' needs"),
    ("{{ 'a'.strip(1, 2) }}", "takes at most 1"),
    ("{{ 'a' | trim(q=1) }}", "takes no argument 'q'"),
    ("{{ namespace | tojson }}", "not JSON serializable"),
    ("{% set x.y = 1 %}", "'x' is undefined"),
    ("{% set x = 1 %}{% set x.y = 1 %}", "non-namespace"),
    ("{{ 9223372036854775807 + 1 }}", "beyond 64 bits"),
    ("{{ 10 ** 30 }}", "beyond 64 bits"),
    ("{{ 'abc'.split('') }}", "empty separator"),
    ("{{ {[1]: 2} }}", "cannot be a dict's key"),
    ("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "takes at most 1"),
    ("{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "twice"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "the rendering nests deeper than"),
    ("{{ 1", "the tag lacks its end"),
    ("{% if 1 %}x", "lacks its 'endif'"),
    ("{% for %}", "a variable's name"),
    ("{# x", "the comment lacks"),
    ("{{ 'abc }}", "closing quote"),
    ("{% endif %}", "unexpected statement 'endif'"),
    ("{% nonsense %}", "unexpected statement 'nonsense'"),
    ("{{ ) }}", "unexpected ')'"),
    ("{{ }}", "expected an expression"),
    ("{{ 1 2 }}", "expected '}}'"),
    ("{% raw %}x", "'raw' lacks"),
    ("{% for x of y %}{% endfor %}", "expected 'in'"),
    ("{% break %}", "outside of a loop"),
    ("{{ $ }}", "unexpected character '$'"),
    ("{% set none = 1 %}", "cannot assign to"),
    ("{{ f(a=1, 2) }}", "positional argument follows"),
    (r"{{ '\ud800' }}", "no Unicode character"),
    ("{{ " + "(" * 1000 + "1" + ")" * 1000 + " }}", "the template nests deeper"),
    ("{{ 1" + " + 1" * 5000 + " }}", "parts"),
    ("{% if 1 %}" * 1000 + "{% endif %}" * 1000, "the template nests deeper"),
    ("x" * (1 << 20) + "yy", "bytes; the limit is"),
]


@pytest.mark.parametrize("template, message", WRONG, ids=[t[:40] for t, _ in WRONG])
def test_wrong_templates(probe, template, message):
    answer = probe(template, CHAT)
    assert answer.get("code") == "template_error", answer
    assert message in answer["message"], answer


UNSUPPORTED = [  # template, name in the message, line, column
    ("a\n{% include 'x' %}", "'include'", 2, 1),
    ("{% extends 'x' %}", "'extends'", 1, 1),
    ("{% block x %}{% endblock %}", "'block'", 1, 1),
    ("{% import 'x' as y %}", "'import'", 1, 1),
    ("{% call m() %}{% endcall %}", "'call'", 1, 1),
    ("é {{ 'x' | urlize }}", "filter 'urlize'", 1, 10),
    ("{{ 'x' | nonsense }}", "filter 'nonsense'", 1, 8),
    ("{{ 1 is escaped }}", "test 'escaped'", 1, 6),
    ("{{ 1 is nonsense }}", "test 'nonsense'", 1, 6),
    ("{{ 'a'.zfill(1) }}", "method 'zfill'", 1, 13),
    ("{{ '{:x}'.format(1) }}", "the format 'x'", 1, 17),
    ("{{ '%s' % 1 }}", "formatting a string", 1, 9),
    ("{% for i in x recursive %}{% endfor %}", "recursive", 1, 15),
    ("{% for i in x %}{% macro m() %}{% endmacro %}{% endfor %}", "macro inside", 1, 17),
    ("{{ 0x10 }}", "base other than ten", 1, 4),
    ("{{ 99999999999999999999 }}", "beyond 64 bits", 1, 4),
    ("{{ cycler(1) }}", "'cycler'", 1, 4),
    ("{{ [1].append(2) }}", "method 'append'", 1, 14),
    ("{{ strftime_now('%Q') }}", "'%Q'", 1, 16),
    ("{{ {1: 2} | tojson }}", "keys are not strings", 1, 11),
    ("{% do x %}", "'do'", 1, 1),
    ("{{ range }}", "printing a function", 1, 1),
    ("{{ ['x'] | map('nonsense') }}", "filter 'nonsense'", 1, 10),
    (r"{{ '\N{DASH}' }}", "\\N", 1, 5),
]


@pytest.mark.parametrize("template, construct, line, column", UNSUPPORTED,
                         ids=[t[0][:40] for t in UNSUPPORTED])
def test_unsupported_constructs_are_named(probe, template, construct, line, column):
    answer = probe(template, CHAT)
    assert answer.get("code") == "template_unsupported", answer
    assert construct in answer["message"], answer
    assert f"line {line}, column {column}:" in answer["message"], answer
    assert answer["hint"]


BOMBS = lines("bombs.txt")


@pytest.mark.parametrize("template", BOMBS)
def test_templates_that_explode_are_stopped(probe, template):
    answer = probe(template, CHAT)
    assert answer.get("code") == "template_error", str(answer)[:300]


def test_each_limit_names_itself(probe):
    loop = "{% for a in range(1000) %}{{ a }}{% endfor %}"
    assert "more than 100 steps" in probe(loop, CHAT, steps=100)["message"]
    assert "a text has more than 50 bytes" in probe(loop, CHAT, output_bytes=50)["message"]
    assert "bytes of memory" in probe(loop, CHAT, memory_bytes=1000)["message"]
    assert probe(loop, CHAT)["text"].startswith("0123")


def test_no_template(probe):
    assert probe("", CHAT)["code"] == "no_chat_template"


def test_unknown_roles(probe):
    stranger = [{"role": "wizard", "content": "x"}]
    # These templates would write any role into the prompt.
    for name in ("marked_turns", "sections", "letters"):
        answer = probe(TEMPLATES[name], stranger)
        assert answer["code"] == "template_error" and '"wizard"' in answer["message"], answer
    answer = probe(TEMPLATES["dialogue"], stranger)
    assert answer["code"] == "template_error" and "two sides" in answer["message"]
    named = "{% for m in messages %}{% if m.role == 'wizard' %}W{% endif %}{% endfor %}"
    assert probe(named, stranger) == {"text": "W"}


def test_rendering_is_a_function_of_its_input(probe):
    template = "{{ strftime_now('%d %b %Y') }}"
    assert probe(template, CHAT, now_s=0) == {"text": "01 Jan 1970"}
    assert probe(template, CHAT, now_s=951_782_400) == {"text": "29 Feb 2000"}
    assert probe(template, CHAT, now_s=-1) == {"text": "31 Dec 1969"}
