"""ops/ssh/engines: over a stand-in for ssh and over a real ssh."""
import getpass
import os
import shutil
import signal
import socket
import subprocess

import pytest
from programs import PATIENCE_S, ROOT, wait_until

ENGINES = ROOT / "ops" / "ssh" / "engines"


@pytest.fixture
def fleet(place, tmp_path):
    """Runs the script; machines are folders."""
    stand_in = tmp_path / "reach"
    stand_in.write_text(
        "#!/bin/sh\nmachine=$1\nshift\n"
        'case $machine in gone*) echo "ssh: cannot resolve $machine" >&2; exit 255 ;; esac\n'
        f"mkdir -p {tmp_path}/homes/$machine\n"
        f'HOME={tmp_path}/homes/$machine exec sh -c "$*"\n')
    stand_in.chmod(0o755)
    machines = tmp_path / "gpus.txt"

    def run(command, *words, of="one\n\n# a comment\ntwo --capacity 3\n", **environment):
        machines.write_text(of)
        return subprocess.run(
            [ENGINES, command, machines, *words], text=True, capture_output=True, check=False,
            timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
            env={**place.environment, "MILLRACE_SSH": str(stand_in), **environment})

    yield run
    run("stop")


def test_engines_start_work_and_drain(fleet, place, tmp_path):
    done = fleet("start", *place.engine_options("--text", "it's \"quoted\" $HOME; a text"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(x.split(":")[0] for x in done.stdout.splitlines()) == ["one", "two"]
    host = socket.gethostname()
    assert all(x.startswith(f"{host}-") for x in place.until_engines(2))
    place.submit(20, "--wait")
    assert {x["response"]["body"]["choices"][0]["text"] for x in place.results()} == \
        {"it's \"quoted\" $HOME; a text"}
    key = tmp_path / "homes/one/.local/state/millrace/gpus/engine.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text() == place.engine_key.read_text()

    again = fleet("start", *place.engine_options())
    assert again.returncode == 0 and again.stdout.count("runs already") == 2
    assert len(place.engines()) == 2
    told = fleet("status")
    assert told.returncode == 0 and told.stdout.count("runs, as process") == 2
    done = fleet("stop")
    assert done.returncode == 0 and done.stdout.count("has stopped") == 2, done.stdout
    place.until_engines(0)
    assert not key.exists(), "a key is not left behind"
    told = fleet("status")
    assert told.returncode == 1 and told.stdout.count("does not run: ") == 2
    assert "left the broker" in told.stdout, "the last line of the log"
    assert fleet("stop").stdout.count("does not run") == 2


def test_a_machine_that_is_gone_holds_up_no_other(fleet, place):
    done = fleet("start", *place.engine_options(), of="gone\none\n")
    assert done.returncode == 1
    assert "gone: ssh: cannot resolve gone" in done.stdout and "one: started" in done.stdout
    place.until_engines(1)


def test_the_last_line_of_the_file_needs_no_end(fleet, place):
    done = fleet("start", *place.engine_options(), of="one\ntwo --capacity 3")
    assert done.returncode == 0, done.stdout + done.stderr
    place.until_engines(2)
    assert fleet("stop", of="one\ntwo").stdout.count("has stopped") == 2


def test_the_key_of_an_engine_that_has_died_is_removed(fleet, place, tmp_path):
    fleet("start", *place.engine_options(), of="one\n")
    place.until_engines(1)
    folder = tmp_path / "homes/one/.local/state/millrace/gpus"
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    wait_until(lambda: "does not run" in fleet("status", of="one\n").stdout, "its end")
    assert (folder / "engine.key").exists()
    assert "does not run" in fleet("stop", of="one\n").stdout
    assert not (folder / "engine.key").exists()


def test_what_is_missing_is_said(fleet, place, tmp_path):
    assert "has no millrace-engine" in fleet("start", *place.engine_options(),
                                             PATH="/usr/bin:/bin").stdout
    for words, said in ((["start", "--key", "/absent"], "cannot read /absent"),
                        (["stop", "--now"], "usage"), (["restart"], "usage")):
        done = fleet(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "names no machine" in fleet("status", of="# nobody\n").stderr
    absent = subprocess.run([ENGINES, "status", tmp_path / "absent"], text=True,
                            capture_output=True, check=False)
    assert absent.returncode == 2 and "cannot read" in absent.stderr


def test_with_a_real_server_of_ssh(place, tmp_path):
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert server, "ops/setup --tests installs openssh-server"
    for name in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name],
                       check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    daemon = subprocess.Popen(
        [server, "-D", "-e", "-f", "/dev/null", "-o", f"Port={port}",
         "-o", "ListenAddress=127.0.0.1", "-o", f"HostKey={tmp_path}/host", "-o", "PidFile=none",
         "-o", f"AuthorizedKeysFile={tmp_path}/mine.pub", "-o", "StrictModes=no",
         "-o", "PermitRootLogin=prohibit-password", "-o", "UsePAM=no",
         "-o", f"SetEnv=PATH={place.environment['PATH']} HOME={tmp_path}/home"],
        stderr=open(tmp_path / "sshd.log", "ab"))
    (tmp_path / "home").mkdir()
    machines = tmp_path / "real.txt"
    machines.write_text(f"{getpass.getuser()}@127.0.0.1\n")
    ssh = (f"ssh -F none -p {port} -i {tmp_path}/mine -o BatchMode=yes "
           f"-o StrictHostKeyChecking=no -o UserKnownHostsFile={tmp_path}/known")

    def run(command, *words):
        return subprocess.run([ENGINES, command, machines, *words], text=True, check=False,
                              capture_output=True, env={**os.environ, "MILLRACE_SSH": ssh},
                              timeout=PATIENCE_S)

    try:
        def answers():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", port)) == 0
        wait_until(answers, "the start of sshd")
        done = run("start", *place.engine_options())
        assert done.returncode == 0 and "started" in done.stdout, \
            done.stdout + (tmp_path / "sshd.log").read_text()
        place.until_engines(1)  # it outlives the connection
        place.submit(5, "--wait")
        assert run("status").returncode == 0
        assert "has stopped" in run("stop").stdout
        place.until_engines(0)
    finally:
        run("stop")
        daemon.terminate()
        daemon.wait(PATIENCE_S)
