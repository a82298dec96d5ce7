"""What the programs said to people who were new to them, and no longer say in any form.

Each case is a command that once gave such a text: what it says now, and what must not come back.
`MUST_NOT` holds for all of them. What takes more than a command stands elsewhere: silence and
engines that die in test_newcomers.py, progress in test_submit_inputs.py and tests/unit/client,
narrow terminals in test_top.py, lists and dead letters in test_jobs.py.
"""
import json
import re
import subprocess

import pytest
from patience import PATIENCE_S
from programs import completion, millrace, program

MUST_NOT = [
    r"were not expected",                        # wrong options, told in reversed order
    r"INI was not able",                         # the parser's words for a settings file
    r"accepted is only", r"only: \[\]",          # a list in the language of the program
    r"no result is in a stream", r"is no endpoint",
    r"did not answer for \d+ ms",                # a refused connection told as silence
    r"\b1 (jobs|lines|results|files)\b",         # numbers that do not fit their nouns
    r"\b0 (were )?known", r"\b0 lines refused",  # what is zero is not worth a word
    r"lines? (has|have) (a warning|warnings)$",  # which?
]


def check(done, says):
    told = done.stdout + done.stderr
    for text in MUST_NOT:
        assert not re.search(text, told, re.MULTILINE), (text, told)
    for text in says:
        assert re.search(text, told), (text, told)
    return told


def run(name, *words, **settings):
    return subprocess.run([program(name), *words], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, **settings)


@pytest.mark.parametrize("words, says", [
    (("millrace", "run", "--modle", "m.gguf"), [r"no option --modle \(did you mean --model\?"]),
    (("millrace", "status", "0", "--temperature"), [r"no option --temperature"]),
    (("millrace", "status", "0", "1"), [r'"0" is one argument too many']),
    (("millrace", "stauts"), [r"did you mean status or stats\?"]),
    (("millrace", "status", "--broker", "foo"), [r"tcp://HOST:PORT or ipc://PATH"]),
    (("millrace", "submit", "/nowhere.jsonl"), [r"does not exist"]),
    (("millrace", "errors", "trimmed"), [r"no longer kept\n +go on from"]),
    (("millrace-broker", "--ledgr", "x"), [r"no option --ledgr"]),
    (("millrace-engine", "--model", "m.gguf", "--broker", "a:1"),
     [r'"a:1" is not an endpoint\n +write tcp://HOST:PORT']),
], ids=lambda x: " ".join(x)[:40] if isinstance(x, tuple) else "")
def test_a_wrong_command_is_told_in_plain_words(words, says):
    check(run(*words), says)


@pytest.mark.parametrize("text, says", [
    ("ledgr = 'x'\n", [r"b\.toml line 1: ledgr stands outside of a section"]),
    ("ledgr\n", [r"b\.toml line 1: .*texts stand in quotes"]),
    ("[ledger]\npth = 'x'\n", [r"b\.toml line 2: \[ledger\] has no key pth", r"its keys are "]),
])
def test_a_wrong_line_of_a_settings_file_is_named(tmp_path, text, says):
    path = tmp_path / "b.toml"
    path.write_text(text)
    done = run("millrace-broker", "--config", str(path))
    assert done.returncode == 2
    check(done, says)


def test_nobody_is_told_from_somebody_who_is_silent(tmp_path):
    done = millrace("status", "--broker", f"ipc://{tmp_path}/none", "--timeout", "1")
    check(done, [r"nobody listens at ipc://", r"start the broker"])


def test_every_code_has_a_meaning_and_advice():
    codes = [json.loads(x) for x in millrace("errors", "--json").stdout.splitlines()]
    assert len(codes) > 40
    for code in codes:
        assert code["meaning"] and code["advice"], code


def test_the_help_of_an_option_is_no_paragraph():
    options = re.split(r"\n  (?=-)", millrace("run", "--help").stdout)[1:]
    assert len(options) > 20
    for option in options:
        assert len(" ".join(option.split("\n\n")[0].split())) < 170, option


def submit(broker, *lines, words=(), expect=0):
    path = broker.folder / "jobs.jsonl"
    path.write_text("".join(x + "\n" for x in lines))
    return broker.millrace("submit", str(path), *words, expect=expect)


def test_a_summary_tells_what_is_not_zero(broker):
    broker.engine()
    check(submit(broker, completion("a", "p")), [r"^1 job submitted; batch jobs-"])
    check(submit(broker, completion("a", "p")), [r"^1 job submitted, which was known already; b"])
    more = [completion(x, "p") for x in "abc"]
    check(submit(broker, *more, words=("--batch", "b")), [r"^3 jobs submitted; batch b"])
    told = check(submit(broker, *more, completion("d", "p"), words=("--batch", "b")),
                 [r"^4 jobs submitted, 3 of them known already; batch b"])
    assert "refused" not in told


def test_a_summary_names_the_line_with_the_warning_and_the_one_refused(broker):
    broker.engine()
    done = submit(broker, completion("a", "p"), completion("b", "p", frob=1),
                  completion("c", "p", functions=[1]), expect=1)
    check(done, [r"jobs\.jsonl line 2: unknown field 'frob'",
                 r"jobs\.jsonl line 3: functions is not supported \(leave it out",
                 r"2 jobs submitted, 1 line refused; ",
                 r"1 line with warnings, the first at \S+jobs\.jsonl line 2"])


def test_what_is_absent_is_null_in_every_listing(broker):
    broker.engine()
    submit(broker, json.dumps({"prompt": "p"}), words=("--wait", "--stream", "s"))
    job = json.loads(broker.millrace("jobs", "ls", "--stream", "s", "--json", expect=0).stdout)
    result = json.loads(broker.millrace("results", "s", expect=0).stdout.splitlines()[0])
    assert job["custom_id"] is None and result["custom_id"] is None
    assert job["engine"] is None, "it has ended"
    view = broker.millrace("top", "--json", expect=0).stdout
    assert "null" not in view, "what is not known is left out"


def test_a_stream_that_does_not_exist_is_told_in_plain_words(broker):
    check(broker.millrace("results", "nosuch"), [r"stream nosuch holds no result"])
