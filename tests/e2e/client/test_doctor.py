"""`millrace doctor` examines a machine and says what to do."""
import contextlib
import json
import pathlib
import sys
import time

from patience import PATIENCE_S
from programs import millrace

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "broker"))
from postgres import PostgresServer  # noqa: E402


def doctor(*words, code):
    done = millrace("doctor", "--json", *words)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {about: [x for x in found if x["about"] == about] for about in
            {x["about"] for x in found}}


def configuration(folder, text):
    file = folder / "broker.toml"
    file.write_text(text)
    return "--config", str(file)


def test_a_healthy_machine_and_its_broker(broker):
    words = configuration(broker.folder, f'[ledger]\nplace = "{broker.folder}/ledger"\n')
    found = doctor(*words, "--broker", broker.clients, code=0)
    assert set(found) == {"versions", "settings", "ledger", "disk", "keys", "limits", "clock",
                          "devices", "broker"}
    assert "SQLite 3." in found["versions"][0]["what"]
    assert "ZeroMQ 4." in found["versions"][0]["what"]
    assert any(x["what"].startswith("a sync takes ") for x in found["disk"])
    assert "0 engines" in found["broker"][0]["what"]
    assert not (broker.folder / "ledger" / ".doctor").exists()


def test_what_is_wrong_is_named_with_what_to_do(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "keys").mkdir()
    words = configuration(tmp_path, f'[ledger]\nplace = "{tmp_path}/open"\n'
                          f'[keys]\nfolder = "{tmp_path}/keys"\n'
                          '[disk]\nlow = "999T"\nhigh = "999T"\n')
    found = doctor(*words, "--broker", f"ipc://{tmp_path}/none", "--timeout", "1", code=1)
    assert found["ledger"][0]["hint"] == f"chmod 700 {tmp_path}/open"
    assert (found["disk"][0]["verdict"], found["keys"][0]["verdict"]) == ("bad", "bad")
    assert "broker.key" in found["keys"][0]["what"] and found["keys"][0]["hint"]
    assert found["broker"][0]["verdict"] == "warn" and "start the broker" in \
        found["broker"][0]["hint"]


def test_a_ledger_is_examined_where_it_is_named(tmp_path):
    place = tmp_path / "elsewhere"
    found = doctor("--ledger", str(place), "--broker", f"ipc://{tmp_path}/none", "--timeout", "1",
                   code=0)
    assert found["ledger"][0]["what"].startswith(f"{place} is not there yet")


def test_a_database_is_asked_for_its_settings(tmp_path):
    words = "--broker", f"ipc://{tmp_path}/none", "--timeout", "1"
    with contextlib.closing(PostgresServer()) as server:
        found = doctor("--ledger", server.url, *words, code=0)
        assert "its settings keep what is acknowledged" in found["ledger"][0]["what"]
        assert server.run("SELECT count(*) FROM pg_namespace WHERE nspname = 'millrace'") == "0"
        server.run("ALTER SYSTEM SET synchronous_commit = off")
        server.run("SELECT pg_reload_conf()")
        until = time.monotonic() + PATIENCE_S
        while server.run("SHOW synchronous_commit") != "off":
            assert time.monotonic() < until
        found = doctor("--ledger", server.url, *words, code=1)
        assert "synchronous_commit is 'off'" in found["ledger"][0]["what"]
        assert "postgresql.conf" in found["ledger"][0]["hint"]
    found = doctor("--ledger", server.url, *words, code=1)
    assert found["ledger"][0]["verdict"] == "bad" and found["ledger"][0]["what"]


def test_a_wrong_configuration_is_told_by_its_line(tmp_path):
    found = doctor(*configuration(tmp_path, "[ledger]\nplce = 1\n"), "--timeout", "1", code=1)
    assert "line 2" in found["settings"][0]["what"] and "place" in found["settings"][0]["hint"]
    found = doctor(*configuration(tmp_path, '[listen]\nclients = "tcp://0.0.0.0:5"\n'),
                   "--timeout", "1", code=1)
    assert "other machines could reach it" in found["settings"][0]["what"]
