"""`millrace results --follow --partial` with a real broker shows text as it is generated."""
import json
import subprocess
import threading

from patience import PATIENCE_S
from programs import wait_until


class Follower:
    """A `millrace results --follow` whose lines a thread collects in a list."""

    def __init__(self, broker, *words):
        self.process = subprocess.Popen(
            broker.command("results", *words, "--follow"), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def partials(self):
        return [x for x in self.lines if x.get("object") == "millrace.partial"]

    def results(self):
        return [x for x in self.lines if "response" in x]

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.thread.join(30)
        self.process.stdout.close()
        self.process.stderr.close()


def submit(broker, folder, name, **fields):
    path = folder / f"{name}.jsonl"
    path.write_text(json.dumps({"custom_id": name, "prompt": f"tell {name}", **fields}) + "\n")
    broker.millrace("submit", str(path), expect=0)


def test_partials_come_before_the_result_which_is_whole_by_itself(broker, tmp_path):
    broker.engine(STUB_DELAY_MS="300")
    watcher, reader = Follower(broker, "--partial"), Follower(broker)
    try:
        submit(broker, tmp_path, "warm", partials=True)  # until both listen
        wait_until(lambda: watcher.results() and reader.results(), "the first result")
        submit(broker, tmp_path, "asked", partials=True)
        submit(broker, tmp_path, "plain")
        wait_until(lambda: len(watcher.results()) == 3 and len(reader.results()) == 3, "results")
    finally:
        watcher.stop()
        reader.stop()
    assert not reader.partials()  # only subscribers of partials get them
    assert {x["custom_id"] for x in watcher.partials()} <= {"warm", "asked"}
    mine = [x for x in watcher.partials() if x["custom_id"] == "asked"]
    [result] = [x for x in watcher.results() if x["custom_id"] == "asked"]
    assert watcher.lines.index(mine[-1]) < watcher.lines.index(result)
    choice = result["response"]["body"]["choices"][0]
    assert "".join(x["text"] for x in mine) == choice["text"]
    assert sum((x["token_ids"] for x in mine), []) == choice["token_ids"]
    assert [x["first_token"] for x in mine] == [0, 1]
    assert all(x["job"] == result["id"] and x["attempt"] == 1 for x in mine)
    # Partials have no numbers: the stream has the three results and nothing else.
    stream = broker.millrace("results", expect=0).stdout.splitlines()
    assert len(stream) == 3 and all("response" in json.loads(x) for x in stream)


def test_partial_needs_follow(broker):
    done = broker.millrace("results", "--partial")
    assert done.returncode == 2 and "--follow" in done.stderr
