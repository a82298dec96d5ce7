"""Commands and errors of the command line that need neither broker nor engine."""
import json
import subprocess

import pytest
from patience import PATIENCE_S
from programs import millrace, program


def test_help_has_examples_and_version_is_told():
    for words in ((), ("run",), ("submit",), ("results",), ("status",), ("cancel",), ("retry",),
                  ("tokenize",), ("score",), ("fidelity",), ("calibrate",),
                  ("convert",), ("errors",)):
        done = millrace(*words, "--help")
        assert done.returncode == 0
        assert "Example" in done.stdout, words
        assert "--json" in done.stdout and "Exit codes" in done.stdout, words
    assert millrace("--version").stdout.startswith("millrace ")


def test_usage_errors_are_exit_code_2():
    for words in ((), ("nonsense",), ("run",), ("run", "--input", "x"), ("results", "--from", "0"),
                  ("errors", "nonsense"), ("errors", "--log-level", "loud")):
        assert millrace(*words).returncode == 2, words


@pytest.mark.parametrize("words, says", [
    ((), "no command is given"), (("nonsense",), "there is no command nonsense"),
    (("nonsense", "--broker", "b"), "there is no command nonsense"),
    (("--nonsense",), "there is no option --nonsense"), (("run",), "--input is required"),
    (("run", "--temperature", "1"), "there is no option --temperature"),
    (("run", "--max-tokens=5"), 'max_tokens is a field of a job: put "max_tokens" into the lines'),
    (("serve", "--port", "8000"), "did you mean --http? see millrace serve --help"),
    (("run", "--max-num-seqs", "8"), "did you mean --max-batch?"),
    (("serve", "M.gguf"), "did you mean --model M.gguf? see millrace serve --help"),
    (("ask", "hi", "there"), '"there" is one argument too many'),
    (("run", "--modle=m"), "did you mean --model? see millrace run --help"),
    (("run", "--modle", "m", "--log-levle", "info"), "did you mean --model?"),
    (("errors", "kv_exceded"), "did you mean kv_exceeded?"),
    (("staus",), "did you mean status or stats?"), (("streams", "kepe"), "did you mean keep?"),
    (("---",), "there is no option ---"), (("streams", "keep", "d", "--log-jsno"), "--log-json?"),
    (("run", "--model", "m", "-i", "i", "-o", "o", "stray"), '"stray" is one argument too many'),
    (("run", "--model", "m", "--model", "n"), "--model is given more than once"),
    (("status", "--timeout", "x"), "--timeout is x, not a number from "),
    (("results", "--from", "0"), "--from is 0, not a number from 1 to "),
    (("results", "--from", "-1"), "--from is -1, not a number from 1 to "),
    (("jobs", "ls", "--limit", "-1"), "--limit is -1, not a number from 1 to "),
    (("dlq", "ls", "--limit=0"), "--limit is 0, not a number from 1 to "),
    (("streams", "trim", "s", "--below=-1"), "--below is -1, not a number from 1 to "),
    (("bench", "--warmup=-1"), "--warmup is -1, not a number from 0 to "),
    (("bench", "--concurrency=-1"), "--concurrency is -1, not a number from 0 to "),
    (("bench", "--seed=-1"), "--seed is -1, not a number from 0 to "),
    (("ask", "p", "--temperature", "hot"), "--temperature is hot, not a number"),
    (("ask", "p", "--max-tokens", "many"), "--max-tokens is many, not a number"),
    (("ask", "p", "--max-tokens", "1.5"), "--max-tokens is 1.5, not a whole number from 1 to "),
    (("ask", "p", "--max-tokens", "9" * 24), f"is {'9' * 24}, not a number from 1 to 1048576"),
    (("ask", "p", "--max-tokens=-1"), "--max-tokens is -1, not a number from 1 to 1048576"),
    (("ask", "p", "--top-k=-1"), "--top-k is -1, not a number from 0 to 4294967295"),
    (("ask", "p", "--seed=-1"), "--seed is -1, not a number from 0 to 18446744073709551615"),
    (("ask", "p", "--seed", "9" * 24), f"--seed is {'9' * 24}, not a number from 0 to "),
    (("status", "--timeout", "1.5"), "--timeout is 1.5, not a whole number from 1 to 86400"),
    (("status", "--job", "a", "--batch", "b"), "--job"),
    (("score", "--math", "exact"), "--model"), (("score", "--engine", "e"), "--model"),
    (("streams", "keep", "d", "--age", "1x"), "see millrace streams keep --help"),
    (("streams", "keep", "d", "--aeg", "1d"), "see millrace streams keep --help"),
    (("streams",), "no command is given"), (("streams", "frob"), "there is no command frob"),
    (("submit", "/tmp"), "not a regular file"), (("submit", "/nowhere"), "does not exist"),
])
def test_a_usage_error_says_what_and_where_help_is_also_in_json(words, says):
    text = millrace(*words)
    assert (text.returncode, text.stdout) == (2, "")
    assert says in text.stderr and text.stderr.startswith("millrace: usage: ")
    as_json = millrace(*words, "--json")
    assert (as_json.returncode, as_json.stdout) == (2, "")
    event = json.loads(as_json.stderr)
    assert (event["event"], event["code"]) == ("error", "usage")
    assert says in event["message"] + event["hint"]


@pytest.mark.parametrize("words, says", [
    (("millrace-engine",), "--model is required"),
    (("millrace-engine", "--model"), "--model has no value"),
    (("millrace-engine", "M.gguf"), '"M.gguf" is one argument too many\n  did you mean --model M'),
    (("millrace-engine", "--modle", "m"), "there is no option --modle"),
    (("millrace-engine", "--model", "m", "--drain-timeout", "soon"), "--drain-timeout is soon"),
    (("millrace-engine", "--model", "m", "--kv-size", "1GiB"), "there is no option --kv-size"),
    (("millrace-broker", "--ledgers", "l"), "there is no option --ledgers"),
    (("millrace-broker", "--lease-ms", "1"), "--lease-ms is 1, not a number from 1000 to 3600000"),
], ids=" ".join)
def test_usage_errors_of_the_other_programs(words, says):
    done = subprocess.run([program(words[0]), *words[1:]], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{words[0]}: usage: {says}")
    assert f"see {words[0]} --help" in done.stderr


def test_submit_never_overwrites_its_own_input(tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text('{"prompt": "p"}\n')
    for words, says in (((), "--wait"), (("--wait",), "would overwrite")):
        done = millrace("submit", str(jobs), "--output", f"{tmp_path}/./jobs.jsonl", *words)
        assert done.returncode == 2 and says in done.stderr
        assert jobs.read_text() == '{"prompt": "p"}\n'


def test_a_folder_in_place_of_text_is_an_error(model, tmp_path):
    for command in ("tokenize", "score"):
        done = millrace(command, "--model", model, str(tmp_path))
        assert done.returncode == 3 and done.stdout == ""
        assert str(tmp_path) in done.stderr and "directory" in done.stderr


def test_text_that_is_no_utf_8_is_named_and_not_mended(model):
    done = millrace("tokenize", "--model", model, text=b"ok\na\xff\nok\n")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert b"line 2: invalid UTF-8 at byte 2" in done.stderr
    scored = millrace("score", "--model", model, text=b"a\xff\nok\n")
    assert scored.returncode == 1
    first, second = map(json.loads, scored.stdout.splitlines())
    assert first["error"]["code"] == "invalid_utf8" and len(second["token_ids"]) == 1


def test_a_model_that_cannot_be_read_is_no_reason_to_print_ids_instead():
    for words in (("results",), ("submit", __file__, "--wait")):
        done = millrace(*words, "--model", "/nowhere.gguf")
        assert done.returncode == 3 and "/nowhere.gguf" in done.stderr


def test_errors_table():
    table = millrace("errors").stdout.splitlines()
    assert len(table) > 40
    one = json.loads(millrace("errors", "kv_exceeded", "--json").stdout)
    assert one["code"] == "kv_exceeded" and one["status"] == 400
    text = millrace("errors", "kv_exceeded").stdout.splitlines()
    assert len(text) == 2 and text[0] in table
    assert text[1].strip() == one["advice"] and "shorten the prompt" in one["advice"]


def test_tokenize_and_back(model):
    text = "Hello world, héllo \U0001f600!"
    ids = json.loads(millrace("tokenize", "--model", model, text=text + "\n").stdout)
    assert all(isinstance(x, int) for x in ids) and len(ids) > 5
    back = millrace("tokenize", "--model", model, "--decode", "--json", text=json.dumps(ids) + "\n")
    assert json.loads(back.stdout) == text
    bad = millrace("tokenize", "--model", model, "--decode", text="[999999999]\nnope\n")
    assert bad.returncode == 1
    assert "line 1" in bad.stderr and "line 2" in bad.stderr


def test_tokenize_refuses_what_is_no_model(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"not a model")
    done = millrace("tokenize", "--model", str(path), text="x\n")
    assert done.returncode == 3 and "gguf" in done.stderr
