"""The script of the chart that brings a model's file: what it takes, keeps and refuses."""
import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import threading

import pytest
from rendered import CHART

from patience import PATIENCE_S

MODEL = b"GGUF and what follows" * 1000
SUM = hashlib.sha256(MODEL).hexdigest()


class Place(http.server.BaseHTTPRequestHandler):
    def __init__(self, asked, *rest):
        self.asked = asked
        super().__init__(*rest)

    def do_GET(self):
        self.asked.append(self.headers.get("Authorization"))
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/model")
            self.end_headers()
            return
        self.send_response(200 if self.path == "/model" else 404)
        self.end_headers()
        self.wfile.write(MODEL if self.path == "/model" else b"nothing")

    def log_message(self, *words):
        pass


@pytest.fixture
def bring(tmp_path):
    """Runs the script; gives how it ended."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl, with which the script downloads")
    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Place, asked))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def run(path="/model", wanted=SUM, **more):
        script = (CHART / "files" / "download.sh").read_text(encoding="utf-8")
        done = subprocess.run(
            ["sh", "-ceu", script], text=True, capture_output=True, timeout=PATIENCE_S,
            check=False, env={"PATH": os.environ["PATH"], "FILE": f"{tmp_path}/models/m/a.gguf",
                              "URL": f"http://127.0.0.1:{server.server_port}{path}",
                              "SHA256": wanted, **more})
        return done, asked

    yield run
    server.shutdown()
    server.server_close()


def test_a_model_comes_once(bring, tmp_path):
    done, asked = bring("/moved")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "models" / "m"
    assert (folder / "a.gguf").read_bytes() == MODEL
    assert sorted(x.name for x in folder.iterdir()) == ["a.gguf", "a.gguf.sha256"]
    done, _ = bring()
    assert "is there" in done.stdout and len(asked) == 2


def test_another_content_is_refused_and_not_kept(bring, tmp_path):
    done, _ = bring(wanted="0" * 64)
    assert done.returncode == 1 and f"another checksum than {'0' * 64}: {SUM}" in done.stderr
    assert not list((tmp_path / "models" / "m").iterdir())
    done, _ = bring("/absent")
    assert done.returncode != 0 and not list((tmp_path / "models" / "m").iterdir())


def test_a_newer_model_replaces_the_old_one(bring, tmp_path):
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    (folder / "a.gguf").write_text("half of a model")
    (folder / "a.gguf.sha256").write_text("1" * 64)
    assert bring()[0].returncode == 0
    assert (folder / "a.gguf").read_bytes() == MODEL


def test_the_token_goes_along_and_is_not_told(bring):
    done, asked = bring(TOKEN="sesame")
    assert asked == ["Bearer sesame"] and "sesame" not in done.stdout + done.stderr
