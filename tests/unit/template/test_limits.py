"""No template costs unbounded time or memory: each operation spends steps for the bytes and the
values that it touches, and the memory of a rendering is counted. The tests count steps and bytes;
none asserts a time."""
import pathlib
import re

import pytest

from test_template import Probe, lines


@pytest.fixture(scope="module")
def probe():
    p = Probe()
    yield p
    p.process.stdin.close()
    assert p.process.wait() == 0


SIZE = 1 << 20
STEPS = SIZE // 64  # that an operation spends at least when it reads a text of this size
FEW = 400           # that it spends on a short text

# Each reads the text `s` whole, or has to expect to. `t` is another text of the same size that
# begins alike, `k` is short. None prints the text.
OPERATIONS = """
k in s
s in k
s in s
s == t
s != t
s in [t, t]
{s: 1}[t]
{s: 1}.get(t)
s < t
s >= t
[s] < [t]
s + k
k ~ s
s * 2
s[1:]
s[::-1]
s[::2]
s[-1]
s[5]
s.find(k)
s.rfind(k)
s.index('a')
s.count(k)
s.replace(k, '')
s.replace(s, k)
s.split(k)
s.rsplit(k)
s.split()
s.rsplit(none, 1)
s.splitlines()
s.partition(k)
s.rpartition(k)
s.strip()
s.strip(k)
k.strip(s)
s.lstrip('ab')
s.rstrip('ab')
s.startswith(k)
s.startswith(t)
s.startswith((k, t))
s.endswith(k)
s.removeprefix(t)
s.removesuffix(k)
s.upper()
s.lower()
s.title()
s.capitalize()
s.isdigit()
s.islower()
s.isupper()
s.isspace()
s.isalpha()
s.isalnum()
k.join([s, s])
s.join([k, k])
'{}'.format(s)
s.format()
s | length
s | trim
s | trim(k)
k | trim(s)
s | upper
s | lower
s | title
s | capitalize
s | replace(k, '')
s | indent
k | indent(s)
s | tojson
[s] | tojson
{s: 1} | tojson
{s: 1, t: 2} | tojson(sort_keys=true)
s | int
s | float
s | string
s | safe
s | escape
s | reverse
s | first
s | last
[s, t] | sort
[s, t] | sort(case_sensitive=true)
[s, t] | min
[s, t] | unique
{s: 1, t: 2} | dictsort
[s, t] | join
[s] | join(k)
[{'a': s}] | map(attribute='a') | map('length')
[s, k] | map('upper')
[s, k] | select('in', [t])
[s] | select('eq', t)
[{'a': s}] | selectattr('a', 'eq', t)
[s] | string
s is upper
s is lower
s is eq t
s is in [t]
[t].index(s)
[t].count(s)
namespace({s: 1})
strftime_now(s)
raise_exception(s)
""".strip().split("\n")


def outcome(probe, operation, size, steps):
    # Both texts begin with many letters and end apart, so that no comparison ends early.
    s, t = "a" * (size - 2) + ",b", "a" * (size - 2) + ",c"
    template = ("{% set s = messages[0].content %}{% set t = messages[1].content %}"
                "{% set k = ',' %}{% if " + operation + " %}{% endif %}")
    chat = [{"role": "user", "content": s}, {"role": "user", "content": t}]
    return probe(template, chat, steps=steps)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_is_charged_for_its_bytes(probe, operation):
    long, short = (outcome(probe, operation, size, steps)
                   for size, steps in ((SIZE, STEPS), (8, FEW)))
    assert f"more than {STEPS} steps" in long.get("message", ""), long
    assert "steps" not in short.get("message", ""), short


def test_a_search_takes_steps_for_the_sizes_alone(probe):
    """A naive search for aa...ab in aa...a takes the product of the sizes."""
    s = "a" * (4 << 20)
    template = ("{% set s = messages[0].content %}{% set part = s[:2000000] ~ 'b' %}"
                "{{ part in s }} {{ s.find(part) }} {{ s.rfind('b' ~ s[1:]) }} {{ s.count(part) }} "
                "{{ s.split(part) | length }} {{ s.replace(part, '') | length }} "
                "{{ s.partition(part)[1] }}.")
    answer = probe(template, [{"role": "user", "content": s}])
    assert answer == {"text": "False -1 -1 0 1 4194304 ."}


# Each makes more than a million values of a text with a million commas, or a few large texts.
GREEDY = """
s | list
s.split(',')
s.split(',', 500000)
s.rsplit(',')
s.replace(',', ', ')
s.replace('', ',')
s | map('upper')
s | sort
s | unique
s * 3
[1] * 1000000
range(100000) | list + range(100000) | list
[s ~ 'a', s ~ 'b']
s.upper().lower()
s.join(['a', 'b', 'c'])
s | indent(width=4) | replace(',', ',,')
'{0}{0}{0}'.format(s)
s | escape ~ s ~ s
s | tojson ~ s ~ s
[s, s, s] | string
[s, s, s] | join
s[::-1] ~ s[::2] ~ s
""".strip().split("\n")


@pytest.mark.parametrize("expression", GREEDY)
def test_each_operation_counts_its_memory(probe, expression):
    chat = [{"role": "user", "content": "," * (1 << 20)}]
    template = "{% set s = messages[0].content %}{% set x = " + expression + " %}"
    answer = probe(template, chat, memory_bytes=2 << 20)
    assert "more than 2097152 bytes of memory" in answer.get("message", ""), answer
    enough = probe(template, chat, memory_bytes=1 << 30, steps=10**9)
    assert enough == {"text": ""}, enough


def test_nested_blocks_count_their_texts(probe):
    """The texts of blocks that are still open count, as does what the template has written."""
    chat = [{"role": "user", "content": "x" * (1 << 20)}]
    template = "{{ messages[0].content }}{% set a %}" * 8 + "{% endset %}" * 8
    assert "bytes of memory" in probe(template, chat, memory_bytes=4 << 20).get("message", "")
    assert len(probe(template, chat, memory_bytes=64 << 20)["text"]) == 1 << 20


def test_variables_are_found_by_hash(probe):
    """40,000 variables cost steps for each use, not for each use and each variable."""
    names = "".join("{%set v" + str(i) + "=" + str(i) + "%}" for i in range(40_000))
    loop = "{% for i in range(40000) %}{% if v0 %}{% endif %}{% endfor %}{{ v39999 }}"
    assert probe(names + loop, [], steps=600_000) == {"text": "39999"}


WORST = [
    "{% set s = messages[0].content %}{% for i in range(100000) %}" + body + "{% endfor %}"
    for body in (
        "{% if s[:-1] ~ 'b' in s %}{% endif %}", "{{ s.count(s[1:]) }}", "{{ s == s ~ '' }}",
        "{% if s.strip(s) %}{% endif %}", "{{ [s, s[1:], s[2:]] | sort | length }}",
        "{{ (s | list) | unique | length }}", "{{ s.replace('a', s) | length }}",
        "{{ s.split('a') | length }}", "{{ s | tojson | tojson | tojson | length }}",
        "{% set x %}{{ s }}{% endset %}", "{% if s.title().upper() < s.lower() %}{% endif %}",
        "{{ s[::-1] }}", "{% for c in s %}{{ s }}{% endfor %}", "{{ ('%A' ~ s) | length }}",
        "{{ (s ~ i) in dict([[s ~ i, 1]]) }}", "{{ messages | tojson | length }}",
    )
] + [
    "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m(messages[0].content) }}",
    "{% set ns = namespace(d={}) %}{% for i in range(100000) %}"
    "{% set ns.d = dict(ns.d, **{'k' ~ i: i}) %}{% endfor %}",
    "{% for i in range(100000) %}{{ strftime_now('%A' * 10000) }}{% endfor %}",
]


def check_worst(**limits):
    """Returns the most memory that the probe has taken, in bytes."""
    own = Probe()
    chat = [{"role": "user", "content": "a" * 4_000_000}]
    for template in [*WORST, *lines("bombs.txt")]:
        answer = own(template, chat, **limits)
        assert answer.get("code") == "template_error", (template, str(answer)[:300])
        assert "more than" in answer["message"] or "nest" in answer["message"], answer
    status = pathlib.Path(f"/proc/{own.process.pid}/status").read_text()
    own.process.stdin.close()
    assert own.process.wait() == 0
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10


@pytest.mark.memory
def test_the_worst_templates_end_by_a_limit():
    peak = check_worst(steps=1_000_000, memory_bytes=64 << 20)
    assert peak < 128 << 20, peak  # with the probe's own 30 MiB for the chat and its JSON


@pytest.mark.long
@pytest.mark.memory
def test_the_worst_templates_end_by_a_default_limit():
    peak = check_worst()
    assert peak < 400 << 20, peak  # the limit is 256 MiB
