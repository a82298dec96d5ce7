"""The Debian packages in a fresh bookworm: what they need comes by itself, the README's examples
run, the units are good, and purging leaves nothing."""
import json
import re
import shutil
import subprocess
import time

import pytest
from patience import PATIENCE_S
from roots import Machine, inside, make_root, need_root
from staged import ROOT, model_path

pytestmark = pytest.mark.long
NAMES = ["millrace-broker", "millrace-cli", "millrace-engine", "python3-millrace"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    subprocess.run([ROOT / "ops" / "package", "--deb", folder], check=True)
    return sorted(folder.glob("*.deb"))


@pytest.fixture(scope="module")
def root(packages, tmp_path_factory):
    """A root in which apt has installed the packages, with a model."""
    need_root()
    folder = make_root(tmp_path_factory.mktemp("roots") / "bookworm", "systemd")
    for package in packages:
        shutil.copy(package, folder / "tmp")
    inside(folder, "apt-get", "update", "-qq")
    inside(folder, "apt-get", "install", "-y", "-qq", "--no-install-recommends",
           *(f"/tmp/{package.name}" for package in packages))
    shutil.copy(model_path(), folder / "opt" / "M.gguf")
    return folder


def wait_until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def fields(package):
    told = subprocess.run(["dpkg-deb", "--field", package], check=True, text=True,
                          capture_output=True).stdout
    return dict(re.findall(r"^(\S+): (.+)$", told, re.MULTILINE))


def test_the_packages_depend_on_what_they_use(packages):
    assert [package.name.split("_")[0] for package in packages] == NAMES
    project = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"^project\(millrace VERSION (\S+)", project, re.MULTILINE)[1]
    told = {package.name.split("_")[0]: fields(package) for package in packages}
    assert {one["Version"] for one in told.values()} == {version}
    assert "libzmq5" in told["millrace-broker"]["Depends"]
    assert "OpenCL" not in told["millrace-broker"]["Depends"]
    assert "pocl-opencl-icd | opencl-icd" in told["millrace-engine"]["Depends"]
    assert "python3-zmq" in told["python3-millrace"]["Depends"]
    assert told["python3-millrace"]["Architecture"] == "all"


def test_every_file_belongs_to_root_and_nothing_is_writable_for_all(packages):
    for package in packages:
        told = subprocess.run(["dpkg-deb", "--contents", package], check=True, text=True,
                              capture_output=True).stdout
        for line in told.splitlines():
            mode, owner = line.split()[:2]
            assert owner == "root/root" and mode[8] != "w", line


def test_the_programs_and_their_pages_are_there(root):
    for program in ("millrace", "millrace-broker", "millrace-engine"):
        assert program in inside(root, program, "--version").stdout
        assert (root / f"usr/share/man/man1/{program}.1.gz").exists()
        assert (root / f"usr/share/bash-completion/completions/{program}").exists()


def test_the_units_are_good(root):
    for unit in ("millrace-broker.service", "millrace-engine@small.service"):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={root}", unit],
                              text=True, capture_output=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), unit
    wants = root / "etc/systemd/system/multi-user.target.wants"
    assert [path.name for path in wants.glob("millrace*")] == ["millrace-broker.service"]


@pytest.fixture
def machine(root, tmp_path):
    """The root with systemd as its first process, which starts what is enabled."""
    machine = Machine(root, tmp_path / "console")
    try:
        machine.find_first()
        yield machine
    finally:
        machine.close()


def test_systemd_starts_the_units_and_they_run_the_jobs(root, machine):
    """Of the command and of Python; the settings are those that the packages bring."""
    (root / "opt/jobs.jsonl").write_text(
        '{"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}\n')
    machine.run("systemctl", "start", "millrace-broker")  # waits for a start that is under way
    settings = (root / "etc/millrace/engines/example.env").read_text()
    (root / "etc/millrace/engines/small.env").write_text(
        re.sub("^MODEL=.*$", "MODEL=/opt/M.gguf", settings, flags=re.MULTILINE))
    machine.run("systemctl", "start", "millrace-engine@small")  # until the model is loaded
    clients = {"MILLRACE_BROKER": "ipc:///run/millrace/clients"}
    done = machine.run("millrace", "submit", "/opt/jobs.jsonl", "--wait", **clients)
    assert "Paris" in done
    status = json.loads(machine.run("millrace", "status", "--json", **clients))
    assert [engine["name"].split("-")[-1] for engine in status["engines"]] == ["small"], status
    program = ("import millrace\nwith millrace.Client('ipc:///run/millrace/clients') as client:\n"
               "    for result in client.map(['The capital of Italy is'], max_tokens=8,"
               " temperature=0): print(result.text)")
    assert "Rome" in machine.run("python3", "-c", program)
    machine.run("systemctl", "reload", "millrace-broker")
    assert "the configuration was read again" in machine.run(
        "journalctl", "--no-pager", "-u", "millrace-broker")
    machine.run("systemctl", "restart", "millrace-broker")
    done = machine.run("millrace", "results", "results", **clients)
    assert "Paris" in done
    machine.run("systemctl", "stop", "millrace-engine@small", "millrace-broker")
    assert machine.run("systemctl", "show", "--value", "-p", "Result", "millrace-broker",
                       "millrace-engine@small").split() == ["success", "success"]


@pytest.fixture
def broken(root):
    """An engine whose model is refused, and which is started again after a short pause."""
    (root / "opt/broken.gguf").write_bytes(b"no model")
    settings = (root / "etc/millrace/engines/example.env").read_text()
    (root / "etc/millrace/engines/broken.env").write_text(
        re.sub("^MODEL=.*$", "MODEL=/opt/broken.gguf", settings, flags=re.MULTILINE))
    quick = root / "etc/systemd/system/millrace-engine@broken.service.d"
    quick.mkdir(parents=True)
    (quick / "quick.conf").write_text("[Service]\nRestartSec=10ms\n")
    yield "millrace-engine@broken"
    shutil.rmtree(quick)


def test_an_engine_whose_model_is_refused_is_given_up(broken, machine):
    def shown(what):
        return machine.run("systemctl", "show", "--value", broken, "-p", what).strip()

    machine.run("systemctl", "start", broken, check=False)
    wait_until(lambda: shown("ActiveState") == "failed")
    assert int(shown("NRestarts")) == 50
    last = shown("ExecMainStartTimestampMonotonic")
    assert int(last) > 0
    machine.run("systemctl", "start", broken, check=False)
    assert shown("ExecMainStartTimestampMonotonic") == last  # the program was not started
    machine.run("systemctl", "reset-failed", broken)  # as the README of the units tells
    machine.run("systemctl", "start", broken, check=False)
    assert shown("ExecMainStartTimestampMonotonic") != last


def test_only_members_of_the_group_reach_the_broker(root, machine):
    machine.run("systemctl", "start", "millrace-broker")
    inside(root, "useradd", "--user-group", "stranger")
    inside(root, "useradd", "--groups", "millrace", "member")
    words = ["millrace", "status", "--broker", "ipc:///run/millrace/clients", "--timeout", "1"]
    machine.run("setpriv", "--reuid=member", "--regid=member", "--init-groups", *words)
    assert machine.run("setpriv", "--reuid=stranger", "--regid=stranger", "--init-groups", *words,
                       check=False) == ""
    ledger = root / "var/lib/millrace/ledger"
    assert ledger.stat().st_uid == ledger.parent.stat().st_uid != 0
    assert ledger.parent.stat().st_mode & 0o007 == 0


def readme_commands(title):
    """The shell commands that run to their end below a title."""
    section = README.split(f"## {title}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.S | re.M))


def test_the_first_example_of_the_readme_runs(root):
    home = root / "tmp/first"
    home.mkdir()
    # The model is here already, in place of the one that the checkout's script downloads.
    commands = re.sub(r"^ln .*$", "ln -s /opt/M.gguf M.gguf", readme_commands("First result"),
                      flags=re.M)
    inside(root, "bash", "-ec", commands, folder="/tmp/first")
    lines = [json.loads(line) for line in (home / "results.jsonl").read_text().splitlines()]
    assert sorted(line["custom_id"] for line in lines) == ["a", "b", "c"]
    assert all(line["error"] is None for line in lines)


def test_the_broker_example_and_the_python_example_of_the_readme_run(root):
    home = root / "tmp/first"
    (home / "example.py").write_text(re.search(r"```python\n(.*?)```", README, re.S)[1])
    commands = readme_commands("A broker that keeps running")
    script = f"{commands}\npython3 example.py\nmillrace drain\n"
    told = inside(root, "bash", "-ec", script, folder="/tmp/first").stdout
    assert '"custom_id": "a"' in told or '"custom_id":"a"' in told
    assert "finished, 3 of 3 jobs ended" in told


def test_purging_leaves_nothing(root):
    (root / "etc/millrace/engines/small.env").write_text("MODEL=/opt/M.gguf\n")
    (root / "etc/millrace/keys").mkdir()
    inside(root, "apt-get", "remove", "-y", "-qq", "millrace-broker", "millrace-engine")
    assert (root / "var/lib/millrace/ledger").is_dir()
    assert (root / "etc/millrace/broker.toml").exists()
    assert inside(root, "id", "millrace").stdout
    inside(root, "apt-get", "purge", "-y", "-qq", *NAMES)
    left = [str(path.relative_to(root)) for folder in ("etc", "usr", "var/lib", "var/cache")
            for path in (root / folder).rglob("*millrace*")
            if not str(path).startswith(str(root / "var/lib/dpkg"))]
    assert left == []
    assert inside(root, "id", "millrace", check=False).returncode != 0
    assert (root / "opt/M.gguf").exists()
