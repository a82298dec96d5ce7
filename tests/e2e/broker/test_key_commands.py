"""Keys in the hands of people: the commands that make, change and use them."""
import os
import pathlib
import subprocess

import pytest
from keyed import MILLRACE, KeyedBroker, Keys, client
from patience import PATIENCE_S
from wire import BUILD, ROOT, job

MANUAL = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"  # the public key of an example


@pytest.fixture
def broker(keyed_broker):
    return keyed_broker


def test_commands_take_a_key_file(keys, broker, tmp_path, context):
    key = keys.one
    (tmp_path / "jobs.jsonl").write_text('{"prompt": "x", "model": "*"}\n')

    def run(*words, key_file=None, variable=None):
        environment = {**os.environ, **({"MILLRACE_KEY": str(variable)} if variable else {})}
        return subprocess.run(
            [MILLRACE, *words, "--broker", broker.endpoint("clients"),
             *(["--key", str(key_file)] if key_file else [])],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)

    assert run("submit", str(tmp_path / "jobs.jsonl"), key_file=key.path).returncode == 0
    assert "queued 1" in run("status", variable=key.path).stdout
    for done in (run("status"), run("status", key_file=keys.stranger().path)):
        assert done.returncode == 3 and "unauthorized" in done.stderr
    assert run("status", key_file=tmp_path / "none").returncode == 3
    elsewhere = subprocess.run([MILLRACE, "status", "--broker", "tcp://192.0.2.1:5570"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert elsewhere.returncode == 3 and "--key" in elsewhere.stderr


def test_key_files_are_for_their_owner_alone(keys, tmp_path):
    key = keys.one
    for path in (key.path, keys.folder / "broker.key", keys.folder / "allowed"):
        assert path.stat().st_mode & 0o777 == 0o600, path
    assert pathlib.Path(keys.folder).stat().st_mode & 0o777 == 0o700
    assert "exists" in keys.run("new", key.path, code=3)
    keys.run("allow", "x", "--keys", keys.folder, "--roles", "read", "--public", MANUAL, code=3)
    again = keys.run("allow", "one", "--keys", keys.folder, "--roles", "read", "--public",
                     keys.stranger().public, code=3)
    assert f"conflict: {keys.folder / 'allowed'} allows a key named one already" in again
    same = keys.run("allow", "three", "--keys", keys.folder, "--roles", "read", "--public",
                    key.public, code=3)
    assert "allows this key already, with the name one" in same and "keys allow" in same
    assert "no key named" in keys.run("revoke", "nobody", "--keys", keys.folder, code=3)


def test_a_name_is_given_to_one_key(keys, tmp_path):
    said = keys.run("new", tmp_path / "another.key", "--keys", keys.folder, "--name", "one",
                    "--roles", "read", code=3)
    assert f"conflict: {keys.folder / 'allowed'} allows a key named one already" in said
    assert "keys revoke" in said and "keys allow" in said
    assert not (tmp_path / "another.key").exists()


def test_a_wrong_broker_line_in_the_key_file_is_among_what_may_be_wrong(keys, broker, tmp_path):
    (tmp_path / "other").mkdir()
    other = Keys(tmp_path / "other").own.public
    path = keys.one.path
    path.write_text(path.read_text().replace(keys.own.public, other))
    done = subprocess.run([MILLRACE, "status", "--broker", broker.endpoint("clients"), "--key",
                           path, "--timeout", "1"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 4
    assert "the key file's `broker` line is not this broker's key" in done.stderr
    assert "XDG_RUNTIME_DIR" not in done.stderr


def test_a_follower_whose_key_is_revoked_is_told_so(keys, broker, context):
    peer = client(context, broker, keys.two)
    peer.ask("submit", jobs=[job("a")])
    peer.ask("cancel", jobs=["a"])
    follower = subprocess.Popen(
        [MILLRACE, "results", "results", "--follow", "--broker", broker.endpoint("clients"),
         "--key", keys.one.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert follower.stdout.readline()  # it has a session
        keys.revoke("one")
        said = follower.communicate(timeout=PATIENCE_S)[1]
        assert follower.returncode == 3 and "unauthorized" in said, said
        assert "leaving" not in said and "was changed or revoked" in said, said
    finally:
        follower.kill()


def test_each_role_is_explained(keys, tmp_path):
    text = keys.run("new", "--help")
    for role in ("submit", "read", "work", "admin", "operate"):
        assert f"\n  {role}: " in text, role


def test_an_operators_key_suffices_to_see_that_the_broker_works(keys, tmp_path):
    key = keys.new("ops", "a", "operate")
    broker = KeyedBroker(tmp_path, keys)
    try:
        done = subprocess.run([MILLRACE, "doctor", "--broker", broker.endpoint("clients"), "--key",
                               key.path], capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False)
        assert f"it answers at {broker.endpoint('clients')}, with 0 engines" in done.stdout
    finally:
        broker.close()


def test_an_engine_takes_a_key_file_and_ends_when_it_is_refused(keys, broker, tmp_path, context):
    program = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "bin" / "stub_engine"
    assert program.exists(), "build the target stub_engine"
    engine = keys.new("gpu", "*", "work")

    def start(*options):
        return subprocess.Popen([program, "--broker", broker.endpoint("engines"), *options],
                                stderr=subprocess.PIPE, text=True)

    one = client(context, broker, keys.one)
    worker = start("--key", engine.path)
    try:
        one.ask("submit", jobs=[job("a")])
        while not one.ask("status_request", job="a")[1]["job_number"]:
            pass
        keys.revoke("gpu")
        assert worker.wait(PATIENCE_S) == 3
        assert "unauthorized" in worker.stderr.read()
    finally:
        worker.kill()
    for options in (("--key", keys.stranger().path), ()):
        worker = start(*options)
        try:
            assert worker.wait(PATIENCE_S) == 3, options
            assert "unauthorized" in worker.stderr.read()
        finally:
            worker.kill()
