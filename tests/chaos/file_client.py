"""A client that submits file after file with the `millrace` command and waits for the results."""
import collections
import json
import subprocess

from programs import program

LINES = 300
TEXT = "a stub's answer"


class FileClient:
    """Submits file after file. `seen` counts its results by custom id."""

    def __init__(self, name, folder, broker, lines=LINES):
        self.name, self.folder, self.broker = name, folder, broker
        self.files = self.restarts = 0
        self.lines = lines
        self.process = None
        self.seen = collections.Counter()
        self.wrong = []
        self.log = open(folder / f"{name}.log", "ab")

    def path(self, kind):
        return self.folder / f"{self.name}-{self.files}.{kind}"

    def begin_file(self):
        self.files += 1
        self.path("jobs").write_text("".join(json.dumps({
            "custom_id": f"{self.name}-{self.files}-{i}", "prompt": f"Story {i}",
            "max_attempts": 50}) + "\n" for i in range(self.lines)))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [program("millrace"), "submit", self.path("jobs"), "--wait", "--output",
             self.path("results"), "--broker", self.broker],
            stdout=subprocess.DEVNULL, stderr=self.log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def go_on(self, more):
        """Starts the client again, or the next file. Returns False once there is nothing to do."""
        if self.process is None:
            if more:
                self.begin_file()
            return more
        ended = self.process.poll()
        if ended is None:
            return True
        if ended != 0:  # the broker was away for too long, or refused: try again
            self.restarts += 1
            self.start()
            return True
        self.read_results()
        self.process = None
        return self.go_on(more)

    def read_results(self):
        for line in self.path("results").read_text().splitlines():
            result = json.loads(line)
            self.seen[result["custom_id"]] += 1
            if result["error"] is not None or TEXT not in line:
                self.wrong.append(line)
