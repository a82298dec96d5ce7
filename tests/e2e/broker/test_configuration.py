"""The configuration file of a broker: what it takes, what it refuses, and how it is read again."""
import signal
import subprocess
import time

import pytest

from keyed import KeyedBroker, Keys
from patience import PATIENCE_S
from test_full_disk import MIB, disk  # noqa: F401  (a fixture)
from wire import PROGRAM, Broker, Peer, job


def print_config(*words):
    return subprocess.run([str(PROGRAM), *map(str, words), "--print-config"], capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)


def test_what_print_config_prints_can_be_read_again(tmp_path):
    file = tmp_path / "broker.toml"
    printed = print_config("--lease-ms", 7000, "--keep-results", "36h", "--keep-bytes", "3M",
                           "--ledger", 'a "quoted"\\place', "--log-json")
    assert printed.returncode == 0
    for line in ('place = "a \\"quoted\\"\\\\place"', "lease_ms = 7000", 'results = "36h"',
                 'bytes = "3M"', "json = true"):
        assert line in printed.stdout.splitlines()
    file.write_text(printed.stdout)
    again = print_config("--config", file)
    assert (again.returncode, again.stdout) == (0, printed.stdout)


def test_what_print_config_prints_shows_how_tenants_get_limits(tmp_path):
    printed = print_config().stdout
    assert "(changes with the next start)\nplace = " in printed
    assert "(changes with the next start)\nhang_ms = " not in printed
    file = tmp_path / "broker.toml"
    start = printed.index("# [tenants.NAME]")
    file.write_text("\n".join(x.removeprefix("# ") for x in printed[start:].splitlines()))
    again = print_config("--config", file)
    assert again.returncode == 0, again.stderr
    assert "[tenants.NAME]\n" in again.stdout and "# [tenants" not in again.stdout


def test_the_command_line_counts_more_than_the_file(tmp_path):
    file = tmp_path / "broker.toml"
    file.write_text("[engines]\nlease_ms = 7000\nhang_ms = 8000\n")
    lines = print_config("--config", file, "--lease-ms", 9000).stdout.splitlines()
    assert "lease_ms = 9000" in lines and "hang_ms = 8000" in lines


@pytest.mark.parametrize("text, line, says", [
    ("[ledger]\nplce = 1\n", 2, "its keys are place"),
    ("\n\n[ledgr]\n", 3, "there is no section [ledgr]"),
    ("lease_ms = 5000\n", 1, "stands outside of a section"),
    ("[ledger]\nplace = 5\n", 2, "ledger.place is not a text"),
    ("[engines]\nhang_ms = \"5s\"\n", 2, "not a number from 1000 to 86400000"),
    ("[engines]\n\nhang_ms = 5\n", 3, "not a number from 1000 to 86400000"),
    ("[engines]\nhang_ms = -5\n", 2, "not a number from 1000"),
    ("[engines]\nhang_ms = 5000.5\n", 2, "not a number from 1000"),
    ("[tenants]\nacme = 3\n", 2, "tenants.acme is not a section"),
    ("[tenants.acme]\n\nwight = 3\n", 3, "its keys are weight, leases, queued"),
    ("[tenants.acme]\nweight = 0\n", 2, "not a number from 1 to 1000"),
    ("[tenants.\"a b\"]\nweight = 1\n", 1, "tenant"),
    ("[log]\njson = 1\n", 2, "log.json is not true or false"),
    ("[retention]\nresults = \"5y\"\n", 2, "write seconds, or a text like"),
    ("[retention]\nbytes = \"99999999999999T\"\n", 2, "write bytes, or a text like"),
    ("[limits]\npending_bytes = 5\n", 2, "a size of at least 1048576"),
    ("[log]\nlevel = \"info\"\nlevel = \"warn\"\n", 3, "cannot redefine"),
    ("[ledger]\nplace = /var/lib\n", 2, "texts stand in quotes"),
    ("[log]\nlevel = \"\xff", 2, "the file is TOML"),
])
def test_a_wrong_line_is_named_with_what_to_do(tmp_path, text, line, says):
    file = tmp_path / "broker.toml"
    file.write_bytes(text.encode("latin-1"))
    refused = print_config("--config", file)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"usage: {file} line {line}: " in refused.stderr and says in refused.stderr


@pytest.mark.parametrize("text, says", [
    ("[disk]\nlow = \"2G\"\nhigh = \"1G\"\n", "give disk.high at least"),
    ("[log]\nlevel = \"loud\"\n", "unknown log level 'loud'"),
])
def test_settings_that_do_not_fit_are_refused(tmp_path, text, says):
    file = tmp_path / "broker.toml"
    file.write_text(text)
    refused = print_config("--config", file)
    assert refused.returncode == 2 and says in refused.stderr


def test_tenants_have_sections(tmp_path):
    file = tmp_path / "broker.toml"
    file.write_text('[tenants.acme]\nweight = 3\nqueued = 7\n[tenants."*"]\nleases = 5\n')
    printed = print_config("--config", file, "--tenant", "b:weight=2", "--tenant", "*:leases=6")
    sections = printed.stdout.split("\n[tenants.")[1:]
    assert [x.split("]")[0] for x in sections] == ['"*"', "acme", "b"]
    assert "leases = 6" in sections[0] and "weight = 3\n" in sections[1]
    assert "queued = 7\n" in sections[1] and "weight = 2\n" in sections[2]
    file.write_text(printed.stdout)
    assert print_config("--config", file).stdout == printed.stdout


class Configured:
    def __init__(self, folder, text):
        self.file, self.log = folder / "broker.toml", folder / "broker.log"
        self.file.write_text(text)
        self.broker = Broker(folder, "--config", self.file)

    def reload(self, text):
        """Rewrites the file and has it read again. Returns what the log says about it."""
        self.file.write_text(text)
        seen = len(self.log.read_text())
        self.broker.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            told = self.log.read_text()[seen:]
            if "was read again" in told or "cannot be used" in told:
                return told
            time.sleep(0.02)
        raise AssertionError("nothing was read again")


@pytest.fixture
def configured(tmp_path):
    one = Configured(tmp_path, "[limits]\nsessions = 2\n")
    yield one
    one.broker.close()


def hello(context, broker):
    peer = Peer(context, broker.endpoint("clients"), role="client", name="c")
    return peer, *peer.ask("hello", **peer.hello)


def test_limits_change_without_a_restart(configured, context):
    first, kind, welcome = hello(context, configured.broker)
    hello(context, configured.broker)
    _, kind, refused = hello(context, configured.broker)
    assert kind == "refused" and refused["error"]["code"] == "overloaded"
    assert refused["error"]["retry_ms"] > 0
    told = configured.reload("[limits]\nsessions = 3\n[engines]\nlease_ms = 9000\nhang_ms = 5000\n")
    assert "limits.sessions: 2 -> 3" in told and "engines.hang_ms: 60000 -> 5000" in told
    assert told.count("a setting has changed") == 2
    later = [x for x in told.splitlines() if "changes with the next start" in x]
    assert len(later) == 1 and "engines.lease_ms: 15000 -> 9000" in later[0]
    _, kind, now = hello(context, configured.broker)
    assert kind == "welcome" and (now["hang_ms"], now["lease_ms"]) == (5000, 15_000)
    assert now["broker"] == welcome["broker"]
    assert first.ask("status_request")[0] == "status_answer"  # the same session still


def test_limits_of_tenants_change_without_a_restart(configured, context):
    client, _, _ = hello(context, configured.broker)

    def submit(name):
        return client.ask("submit", jobs=[job(name)])[1]["answers"][0].get("error")

    def soon(wanted, name):  # the broker's own thread takes the settings after the log has them
        until = time.monotonic() + PATIENCE_S
        for number in range(10_000):
            error = submit(f"{name}{number}")
            if bool(error) == wanted or time.monotonic() > until:
                return error

    assert not submit("a")
    told = configured.reload("[tenants.default]\nqueued = 1\n")
    assert 'tenants.default.queued: none -> 1' in told
    error = soon(True, "b")
    assert error["code"] == "overloaded" and error["retry_ms"] > 0
    told = configured.reload("")
    assert 'tenants.default.queued: 1 -> none' in told
    assert not soon(False, "c")


def test_a_file_that_cannot_be_used_changes_nothing(configured, context):
    told = configured.reload("[limits]\nsessions = 9\n[log]\nlevel = 5\n")
    assert "the one before stays in force" in told and "line 4" in told
    for _ in range(2):
        assert hello(context, configured.broker)[1] == "welcome"
    assert hello(context, configured.broker)[1] == "refused"


def test_the_marks_of_the_disk(disk, tmp_path, context):  # noqa: F811
    disk.resize(400 * MIB)
    marks = '[disk]\nwarn = "{}M"\nlow = "{}M"\nhigh = "{}M"\n'
    one = Configured(tmp_path, marks.format(200, 100, 150))
    client, _, _ = hello(context, one.broker)
    number = 0

    def submit():
        nonlocal number
        number += 1
        _, body = client.ask("submit", jobs=[job(f"j{number}")])
        return body["answers"][0].get("error")

    assert not submit() and "the ledger's disk fills up" not in one.log.read_text()
    disk.resize(disk.used() + 180 * MIB)
    assert not submit()
    assert one.log.read_text().count("the ledger's disk fills up") == 1
    disk.resize(disk.used() + 90 * MIB)
    refused = submit()
    assert refused["code"] == "disk_full" and refused["retry_ms"] == 5_000
    disk.resize(disk.used() + 120 * MIB)
    assert submit()["code"] == "disk_full", "there is less than the high mark"
    disk.resize(disk.used() + 170 * MIB)
    assert not submit()
    assert one.log.read_text().count("the ledger's disk fills up") == 1
    disk.resize(disk.used() + 120 * MIB)
    assert not submit(), "there is more than the low mark"
    one.reload(marks.format(200, 130, 150))
    assert submit()["code"] == "disk_full"
    one.broker.close()


def test_each_changed_setting_is_told_of_at_every_level_of_the_log(tmp_path):
    text = "[log]\nlevel = \"error\"\n"
    one = Configured(tmp_path, text)
    one.file.write_text(text + "[limits]\nsessions = 3\n[engines]\nlease_ms = 9000\n")
    one.broker.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + PATIENCE_S
    while "lease_ms" not in one.log.read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    one.broker.close()
    told = [x.split('what="')[1] for x in one.log.read_text().splitlines() if " audit " in x]
    assert [x.split(" -> ")[0] for x in told] == [
        "a setting has changed: limits.sessions: 4096",
        "a setting changes with the next start: engines.lease_ms: 15000"]


def test_a_signal_reads_the_keys_too(tmp_path):
    keys = Keys(tmp_path)
    keys.new("producer", "acme", "submit,read")
    broker = KeyedBroker(tmp_path, keys)
    log = tmp_path / "broker.log"
    assert "the list of keys was read" not in log.read_text()
    broker.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + PATIENCE_S
    while "the list of keys was read: 1 keys may connect" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    broker.close()
