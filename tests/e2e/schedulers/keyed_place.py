"""A broker with keys on TCP for engines that come from elsewhere, and jobs for them."""
import json
import os
import pathlib
import subprocess

from keyed import KeyedBroker, Keys
from programs import BIN, PATIENCE_S, completion, program, wait_until


class KeyedPlace:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.keys = Keys(self.folder)
        self.engine_key = self.keys.new("engines", "*", "work").path
        self.client_key = self.keys.new("me", "default", "submit,read,admin,operate").path
        # The engine is the one without a model, by the name of the real one.
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "millrace-engine").symlink_to(program("stub_engine"))
        self.environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def start(self):
        self.broker = KeyedBroker(self.folder, self.keys, log_level="info")

    def stop(self):
        self.broker.process.terminate()
        self.broker.process.wait(PATIENCE_S)

    def engine_options(self, *more):
        return ["--model", "stub", "--broker", self.broker.endpoint("engines"), "--key",
                str(self.engine_key), *more]

    def millrace(self, *words):
        done = subprocess.run([BIN / "millrace", *words, "--broker",
                               self.broker.endpoint("clients"), "--key", self.client_key],
                              text=True, capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def engines(self):
        """The names of the connected engines."""
        return [x["name"] for x in json.loads(self.millrace("status", "--json"))["engines"]
                if x.get("connected", True)]

    def until_engines(self, count):
        wait_until(lambda: len(self.engines()) == count, f"{count} engines")
        return self.engines()

    def submit(self, count, *options):
        path = self.folder / "jobs.jsonl"
        path.write_text("".join(completion(str(i), f"prompt {i}") + "\n" for i in range(count)))
        self.millrace("submit", str(path), *options)

    def results(self):
        return [json.loads(x) for x in self.millrace("results").splitlines()]
