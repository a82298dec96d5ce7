"""`millrace ask`: one prompt, with a model of its own or by a broker, and a chat in a terminal."""
import json
import os
import signal
import subprocess

from patience import PATIENCE_S
from programs import millrace, program, wait_until
from terminals import read_until, start_on_terminal


def test_an_answer_of_a_model_comes_alone_on_standard_output(model):
    words = ["ask", "--model", model, "--max-tokens", "8", "--temperature", "0"]
    done = millrace(*words, "Say hello.")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and done.stdout.endswith("\n")
    piped = millrace(*words, text="Say hello.")
    assert piped.stdout == done.stdout, "a prompt on standard input is the same prompt"
    other = millrace(*words, "--system", "You are a pirate.", "Say hello.")
    assert other.returncode == 0
    record = json.loads(millrace(*words, "--json", "Say hello.").stdout)
    assert record["choices"][0]["text"].strip() == done.stdout.strip()
    assert record["usage"]["completion_tokens"] <= 8


def test_a_broker_answers_and_what_partials_leave_out_comes_with_the_result(broker):
    broker.engine()
    done = broker.millrace("ask", "--raw", "The sea", expect=0)
    assert done.stdout == "answer to The sea\n"
    again = broker.millrace("ask", "--raw", "The sea", expect=0)
    assert again.stdout == done.stdout, "each question is a job of its own"
    record = json.loads(broker.millrace("ask", "Hi", "--seed", "3", "--stop", "x", "--json",
                                        expect=0).stdout)
    assert record["choices"][0]["text"].startswith("answer to ")


def test_what_fails_is_told(broker):
    broker.engine(STUB_FAIL_ON="fails")
    failed = broker.millrace("ask", "--raw", "this fails")
    assert failed.returncode == 3 and "context_exceeded: the stub fails it" in failed.stderr
    bad = broker.millrace("ask", "Hi", "--temperature", "-1")
    assert bad.returncode == 3 and "temperature" in bad.stderr
    both = millrace("ask", "--raw", "--system", "x", "p")
    assert both.returncode == 2 and "leave one of them out" in both.stderr
    engine = millrace("ask", "--kv", "q8", "p")
    assert engine.returncode == 2 and "add --model" in engine.stderr


def test_an_empty_prompt_is_refused_before_anything_starts(tmp_path):
    nowhere = ("--broker", f"ipc://{tmp_path}/none")
    for words in (("ask",), ("ask", ""), ("ask", " \n"), ("ask", "-"), ("ask", "--raw")):
        done = millrace(*words, *nowhere, text="")
        assert done.returncode == 3, words
        assert "empty_prompt: the prompt is empty (give a text on" in done.stderr, words
    done = millrace("ask", *nowhere, text="\n")
    assert done.returncode == 3 and "empty_prompt" in done.stderr


def test_an_interrupted_question_is_cancelled(broker):
    broker.engine(STUB_DELAY_MS="60000")
    process = subprocess.Popen(broker.command("ask", "--raw", "slow"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    wait_until(lambda: '"leased":1' in broker.millrace("status", "--json").stdout, "a lease")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    wait_until(lambda: '"cancelled":1' in broker.millrace("status", "--json").stdout, "its end")


def test_a_chat_in_a_terminal_keeps_what_was_said(broker):
    broker.engine()
    process, master = start_on_terminal(broker.command("ask", "--system", "Be brief."), whole=True)
    read_until(master, b"> ")
    os.write(master, b"first\n")
    read_until(master, b"answer to ")
    read_until(master, b"> ")
    os.write(master, b"second\n")
    read_until(master, b"answer to ")
    read_until(master, b"> ")
    os.write(master, b"\n")
    assert process.wait(PATIENCE_S) == 0
    os.close(master)
    jobs = [json.loads(x)["job"] for x in
            broker.millrace("jobs", "ls", "--stream", "ask", "--json").stdout.splitlines()]
    assert len(jobs) == 2


def test_without_a_broker_it_ends_as_other_commands(tmp_path):
    done = subprocess.run(
        [program("millrace"), "ask", "Hi", "--broker", f"ipc://{tmp_path}/none", "--timeout", "1"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 4
