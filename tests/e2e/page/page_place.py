"""A broker whose page is looked at, jobs for it, and visits of a browser."""
import os
import pathlib
import subprocess
import sys

from http_place import Place, millrace
from patience import PATIENCE_S

# What a browser says where no broker answers.
AWAY = ("ERR_CONNECTION_REFUSED", "ERR_EMPTY_RESPONSE", "503", "ERR_CONNECTION_RESET")
FAILING = pathlib.Path(__file__).resolve().parents[1] / "client/stub_engine.py"


class PagePlace(Place):
    def start_failing_engine(self, text):
        """Ends jobs that hold this text with an error, and the others with an answer."""
        engine = subprocess.Popen(
            [sys.executable, str(FAILING), "--broker", f"ipc://{self.sockets}/engines"],
            env={**os.environ, "STUB_FAIL_ON": text},
            stderr=open(self.folder / "failing.log", "ab"))
        self.processes.append(engine)
        return engine

    def client(self):
        return millrace.Client(f"ipc://{self.sockets}/clients")

    def run_jobs(self, jobs, stream="results"):
        """Submits jobs and waits until all have ended."""
        with self.client() as client:
            client.submit_many(jobs, stream=stream)
            for _ in zip(jobs, client.results(stream)):
                pass
            return client.call("status_request")


def jobs(number, name, batch):
    return [{"id": f"{name}-{i:03}", "custom_id": f"{name} {i}", "prompt": f"prompt {i} of {name}",
             "batch": batch} for i in range(number)]


def open_browser(playwright):
    """Debian's Chromium. Root may not use its sandbox."""
    return playwright.chromium.launch(executable_path="/usr/bin/chromium",
                                      args=["--no-sandbox"] if os.getuid() == 0 else [])


class Visit:
    """One look at a page by somebody of whom nothing is known before."""

    def __init__(self, browser, place, allowed=(), **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.allowed, self.errors, self.foreign = allowed, [], []
        self.page.on("console", lambda message: self.errors.append(message.text)
                     if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: None if request.url.startswith(place.url + "/")
                     else self.foreign.append(request.url))
        self.page.goto(place.url + "/")

    def close(self):
        self.context.close()
        assert not self.foreign
        bad = [text for text in self.errors if not any(part in text for part in self.allowed)]
        assert not bad, bad
