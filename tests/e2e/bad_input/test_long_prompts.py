"""Prompts far longer than the context are refused without work that grows with them, and what runs
beside them goes on. A job has at most 8 MiB on its way to an engine, so a prompt of 120 MB is
refused where its line is read (tests/unit/worker/long_prompt_test.cpp gives one to the engine)."""
import json
import subprocess
import threading

from patience import PATIENCE_S
from tiny_gguf import tiny_gguf

LIMIT_BYTES = 8 * 1024 * 1024  # of a line, and of a job in a message
LONGEST = LIMIT_BYTES - 1024
LONGEST_TOKEN_BYTES = len("<|turn|>")


def job(name, prompt_bytes):
    return json.dumps({"custom_id": name, "prompt": "x" * prompt_bytes, "max_tokens": 2}).encode()


def test_a_line_of_120_mb_is_refused_where_it_is_read(real_run):
    short = [job(f"short {i}", 5) for i in range(6)]
    real_run.write([*short[:3], job("huge", 120_000_000), job("longest", LONGEST), *short[3:]])
    done = real_run.go(expect=1)
    results = real_run.results()
    assert sorted(results) == list(range(1, 9))
    errors = {number: r["error"] for number, r in results.items() if r["error"]}
    assert {n: e["code"] for n, e in errors.items()} == {4: "too_large", 5: "context_exceeded"}
    assert errors[4]["message"].endswith(f" bytes; the limit is {LIMIT_BYTES}")
    assert "bytes fits the model's context of 256 tokens" in errors[5]["message"]
    assert "2 failed" in done.stdout


class Watcher:
    """`millrace results --follow --partial`: counts what it prints."""

    def __init__(self, broker):
        self.process = subprocess.Popen(broker.command("results", "--follow", "--partial"),
                                        stdout=subprocess.PIPE, text=True)
        self.changed = threading.Condition()
        self.partials, self.results = 0, []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            record = json.loads(line)
            with self.changed:
                if record.get("object") == "millrace.partial":
                    self.partials += 1
                else:
                    self.results.append(record)
                self.changed.notify_all()

    def wait_for(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S)

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.thread.join(30)
        self.process.stdout.close()


def test_steps_go_on_while_the_longest_prompts_are_refused(real_broker):
    # The running job cannot end by itself before the test does: its context is long.
    context = 100_000
    content = tiny_gguf(metadata={"llama.context_length": context})
    engine = real_broker.real_engine("--kv-memory", "16MiB", content=content)
    path = real_broker.folder / "jobs.jsonl"
    watcher = Watcher(real_broker)
    try:
        path.write_bytes(job("first", 5))
        real_broker.millrace("submit", str(path), expect=0)
        watcher.wait_for(lambda: len(watcher.results) == 1)  # now the reader is subscribed
        path.write_text(json.dumps({"custom_id": "running", "prompt": "p", "ignore_eos": True,
                                    "max_tokens": context - 10, "partials": True}))
        real_broker.millrace("submit", str(path), expect=0)
        watcher.wait_for(lambda: watcher.partials > 0)
        path.write_bytes(b"\n".join(job(f"long {i}", LONGEST) for i in range(5)))
        real_broker.millrace("submit", str(path), expect=0)
        watcher.wait_for(lambda: len(watcher.results) == 6)
        seen = watcher.partials
        watcher.wait_for(lambda: watcher.partials > seen)
        assert len(watcher.results) == 6, "the running job has ended"
    finally:
        watcher.close()
        engine.kill()  # it would finish its job first
    refused = {r["custom_id"]: r["error"] for r in watcher.results[1:]}
    assert set(refused) == {f"long {i}" for i in range(5)}
    most = context * LONGEST_TOKEN_BYTES
    for error in refused.values():
        # The error tells bytes: nothing was tokenized.
        assert error["code"] == "context_exceeded"
        assert f"no text of more than {most} bytes fits" in error["message"]
