"""`millrace context`: brokers by name, and which broker a command takes."""
import json
import os
import stat
import subprocess

import pytest
from patience import PATIENCE_S
from programs import program


@pytest.fixture
def go(tmp_path):
    def run(*words, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MILLRACE_")}
        return subprocess.run(
            [program("millrace"), *words], capture_output=True, text=True, timeout=PATIENCE_S,
            check=False, env={**clean, "XDG_CONFIG_HOME": str(tmp_path / "config"),
                              "XDG_RUNTIME_DIR": str(tmp_path), **env})
    return run


def test_contexts_are_added_listed_used_and_removed(go, tmp_path):
    key = tmp_path / "me.key"
    key.write_text("a key")
    assert go("context", "add", "a", "--broker", "ipc:///a", "--key", str(key)).returncode == 0
    assert go("context", "add", "b", "--broker", "tcp://127.0.0.1:1").returncode == 0
    assert "context a: ipc:///a" in go("context", "use", "a").stderr
    listed = [json.loads(x) for x in go("context", "ls", "--json").stdout.splitlines()]
    assert [(x["name"], x["current"], x["key"]) for x in listed] == [
        ("a", True, str(key)), ("b", False, ""), ("local", False, "")]
    assert "context b" in go("context", "use", "b").stderr
    assert "context a" in go("context", "use", "-").stderr
    assert "context b" in go("context", "use", "-").stderr
    assert go("context", "rm", "b").returncode == 0
    assert "* local: ipc://" in go("context", "ls").stdout
    assert go("context", "ls", "-q").stdout.split() == ["a", "local"]
    stored = tmp_path / "config" / "millrace" / "contexts.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600


def test_wrong_names_and_files_are_refused(go, tmp_path):
    for words, says in ((("use", "nope"), "there is no context nope"),
                        (("rm", "nope"), "there is no context nope"),
                        (("rm", "local"), "always there"),
                        (("add", "local", "--broker", "ipc:///x"), "choose another name"),
                        (("add", "a b", "--broker", "ipc:///x"), "cannot be the name"),
                        (("add", "c", "--broker", "10.0.0.5:5570"),
                         '"10.0.0.5:5570" is not an endpoint (write tcp://HOST:PORT'),
                        (("add", "c", "--broker", "tcp://10.0.0.5"), "a port is a number"),
                        (("add", "c", "--broker", "ipc:///x", "--key", "none.key"),
                         "does not exist")):
        done = go("context", *words)
        assert done.returncode == 2 and says in done.stderr, words
    stored = tmp_path / "config" / "millrace" / "contexts.json"
    assert not stored.exists(), "nothing of these is stored"
    stored.parent.mkdir(parents=True)
    stored.write_text("{}")
    done = go("status")
    assert done.returncode == 3 and "holds no contexts" in done.stderr


def test_commands_take_their_broker_from_the_context(go, broker, tmp_path):
    go("context", "add", "real", "--broker", broker.clients)
    go("context", "add", "gone", "--broker", f"ipc://{tmp_path}/gone")
    fast = ("--timeout", "1")
    assert go("status", *fast).returncode == 4, "this machine's own broker does not run"
    assert go("status", *fast, "--context", "real").returncode == 0
    assert go("status", *fast, MILLRACE_CONTEXT="real").returncode == 0
    assert go("status", *fast, MILLRACE_CONTEXT="nope").returncode == 2
    go("context", "use", "real")
    assert go("status", *fast).returncode == 0
    assert go("status", *fast, MILLRACE_CONTEXT="gone").returncode == 4
    assert go("status", *fast, "--context", "real", MILLRACE_CONTEXT="gone").returncode == 0
    assert go("status", *fast, MILLRACE_BROKER=f"ipc://{tmp_path}/gone").returncode == 4
    assert go("status", *fast, "--context", "real",
              MILLRACE_BROKER=f"ipc://{tmp_path}/gone").returncode == 0
    assert go("status", *fast, "--broker", broker.clients, MILLRACE_CONTEXT="gone").returncode == 0
    both = go("status", "--broker", broker.clients, "--context", "real")
    assert both.returncode == 2 and "leave one of them out" in both.stderr
