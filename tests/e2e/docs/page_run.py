"""Runs the blocks of a page in order, in one shell and a fresh folder, as a reader would."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from pages import ROOT, blocks_of, text_of
from patience import PATIENCE_S

BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")).resolve() / "bin"
PYTHON_IS_TESTED_ELSEWHERE = {"client/python/README.md"}  # tests/e2e/python_client/test_docs.py
LISTENS = re.compile(r"(?<=127\.0\.0\.1:)\d{4,5}\b")

# What precedes the blocks. A block runs in the page's shell, so that its variables and its programs
# in the background live on; its output goes to a file, and the number of the block to `reached`.
PRELUDE = """
set -eu
waits_for() {  # PATTERN NUMBER PROCESS
  until grep -q "$1" out$2; do
    kill -0 $3 2>/dev/null || exit 1
    sleep 0.05
  done
}
"""


def model_path():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, text=True,
                              capture_output=True).stdout.strip().splitlines()[-1]
    assert pathlib.Path(path).exists(), f"MILLRACE_MODEL names {path}, which does not exist"
    return path


def free_ports(wanted):
    """A free port for each of these; all are held until all are found."""
    held = {port: socket.create_server(("127.0.0.1", 0)) for port in wanted}
    found = {port: one.getsockname()[1] for port, one in held.items()}
    for one in held.values():
        one.close()
    return found


class PageRun:
    """A folder like a clone with a build in it, and what the blocks of a page did there."""

    def __init__(self, folder, page):
        self.folder = pathlib.Path(folder)
        self.sockets = tempfile.mkdtemp(prefix="mr-")  # pytest's folders are too long for sockets
        self.page = page
        self.blocks = [block for block in blocks_of(text_of(page)) if block.runs
                       and (block.language == "sh" or page not in PYTHON_IS_TESTED_ELSEWHERE)]
        self.ports = self.free_ports_of_the_page()
        self.kept = self.folder / "kept"
        self.kept.mkdir()
        self.place = self.folder / "clone"
        self.place.mkdir()
        tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, text=True,
                                 capture_output=True).stdout.split()
        for name in sorted({name.split("/")[0] for name in tracked}):
            (self.place / name).symlink_to(ROOT / name)
        (self.place / "build").symlink_to(BIN.parent)
        (self.place / "M.gguf").symlink_to(model_path())

    def free_ports_of_the_page(self):
        named = {int(port) for block in self.blocks for port in LISTENS.findall(block.text)}
        return free_ports(sorted(named | {8080}))

    def moved(self, text):
        """A text with ports that are free here in place of the page's; 8080 is `serve`'s own."""
        text = LISTENS.sub(lambda match: str(self.ports[int(match[0])]), text)
        return re.sub(r"(millrace serve(?!.*--http)[^&\n#]*)",
                      rf"\1 --http 127.0.0.1:{self.ports[8080]} ", text)

    def environment(self):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("MILLRACE_") and not name.startswith("XDG_")}
        for name in ("config", "data", "state"):
            env[f"XDG_{name.upper()}_HOME"] = str(self.folder / name)
        if "XDG_CACHE_HOME" in os.environ:  # programs that are compiled already
            env["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
        env["XDG_RUNTIME_DIR"] = self.sockets
        env["PATH"] = f"{BIN}:{pathlib.Path(sys.executable).parent}:{env['PATH']}"
        env["PYTHONPATH"] = str(ROOT / "client" / "python" / "src")
        env["MILLRACE_PROGRAMS"] = str(BIN)
        return env

    def script(self):
        lines = [PRELUDE, f"kept={self.kept}", "cd clone"]
        for number, block in enumerate(self.blocks):
            text = self.moved(block.text)
            if block.language == "python":
                (self.kept / f"{number}.py").write_text(text)
                text = f"python3 {self.kept}/{number}.py\n"
            if block.mark in ("server", "endless"):
                text = "exec " + text
            (self.kept / f"block{number}").write_text(text)
            lines.append(f"echo {number} >$kept/reached")
            lines += self.steps(number, block)
        return "\n".join([*lines, "echo end >$kept/reached", ""])

    def steps(self, number, block):
        if block.mark == "server":
            return [f"(. $kept/block{number}) >$kept/out{number} 2>&1 &",
                    f"(cd $kept; waits_for ready {number} $!)"]
        if block.mark == "endless":
            return [f"(. $kept/block{number}) >$kept/out{number} 2>&1 &", "endless=$!",
                    f"(cd $kept; waits_for . {number} $endless)",
                    "kill $endless; wait $endless || [ $? = 130 ] || [ $? = 143 ]"]
        if block.status:
            run = f"bash -eu $kept/block{number} >$kept/out{number} 2>&1"
            return ["set +e", run, "status=$?", "set -e",
                    f'[ $status = {block.status} ] || {{ echo "ended with $status" '
                    f">>$kept/out{number}; exit 1; }}"]
        return [f". $kept/block{number} >$kept/out{number} 2>&1"]

    def run(self):
        """Runs all blocks; raises what went wrong in which block."""
        (self.kept / "script").write_text(self.script())
        shell = subprocess.Popen(["bash", str(self.kept / "script")], cwd=self.folder,
                                 env=self.environment(), stdin=subprocess.DEVNULL,
                                 start_new_session=True)
        try:
            status = shell.wait(timeout=PATIENCE_S)
        finally:
            self.end(shell.pid)
        reached = (self.kept / "reached").read_text().strip()
        if reached != "end" or status != 0:
            block = self.blocks[int(reached)]
            raise AssertionError(f"{self.page}:{block.line} ended with {status}:\n{block.text}\n"
                                 f"{self.printed(int(reached))}")

    def printed(self, number):
        return (self.kept / f"out{number}").read_text(errors="replace")

    def end(self, group):
        """Ends what the page has started and left running."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            give_up = time.monotonic() + 60
            try:
                os.killpg(group, number)
                while time.monotonic() < give_up:
                    os.killpg(group, 0)
                    time.sleep(0.05)
            except ProcessLookupError:
                break
        shutil.rmtree(self.sockets, ignore_errors=True)
