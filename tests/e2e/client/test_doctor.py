"""`millrace doctor` examines a machine and says what to do."""
import json

from programs import millrace


def doctor(*words, code):
    done = millrace("doctor", "--json", *words)
    assert done.returncode == code, done.stdout + done.stderr
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


def test_a_wrong_configuration_is_told_by_its_line(tmp_path):
    found = doctor(*configuration(tmp_path, "[ledger]\nplce = 1\n"), "--timeout", "1", code=1)
    assert "line 2" in found["settings"][0]["what"] and "place" in found["settings"][0]["hint"]
    found = doctor(*configuration(tmp_path, '[listen]\nclients = "tcp://0.0.0.0:5"\n'),
                   "--timeout", "1", code=1)
    assert "other machines could reach it" in found["settings"][0]["what"]
