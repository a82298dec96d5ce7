"""The units name what exists, and may do little: systemd itself says how much."""
import re
import shutil
import subprocess

import pytest
from staged import BIN, ROOT, install

UNITS = ROOT / "ops" / "systemd"
# The most exposure, as systemd-analyze counts it: 0 is none, 10 is all.
MOST = {"millrace-broker.service": 1.5, "millrace-engine@.service": 2.5}


@pytest.mark.parametrize("unit", MOST)
def test_a_unit_may_do_little(unit):
    told = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                           UNITS / unit], text=True, capture_output=True, check=True).stdout
    exposure = float(re.search(r"Overall exposure level for \S+ ([\d.]+)", told)[1])
    assert exposure <= MOST[unit], told


@pytest.mark.parametrize("unit", MOST)
def test_a_unit_is_understood_by_systemd(unit, tmp_path):
    """In a folder that stands for the system's root, with the installed programs."""
    install(tmp_path / "usr")
    shutil.copy("/bin/sh", tmp_path / "usr/bin")
    for target in ("multi-user", "sysinit", "basic", "shutdown", "network",
                   "network-online"):
        (tmp_path / f"usr/lib/systemd/system/{target}.target").write_text("[Unit]\n")
    for slice_ in ("system", "-"):
        (tmp_path / f"usr/lib/systemd/system/{slice_}.slice").write_text("[Unit]\n")
    named = unit.replace("@.", "@small.")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={tmp_path}", named],
                          text=True, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_broker_waits_for_addresses_that_come_up_late():
    lines = (UNITS / "millrace-broker.service").read_text().splitlines()
    for line in ("Wants=network-online.target", "After=network-online.target",
                 "StartLimitIntervalSec=0", "Restart=on-failure", "RestartPreventExitStatus=2"):
        assert line in lines, line


def test_an_engine_that_cannot_start_is_not_started_for_ever():
    """The limit is reached by starts that fail at once: their pauses take less than the time of
    the limit. The long test of the packages sees systemd give such an engine up."""
    text = (UNITS / "millrace-engine@.service").read_text()
    minutes, starts, pause_s = (int(re.search(rf"^{name}=(\d+){unit}$", text, re.MULTILINE)[1])
                                for name, unit in (("StartLimitIntervalSec", "min"),
                                                   ("StartLimitBurst", ""), ("RestartSec", "s")))
    assert starts * pause_s < minutes * 60
    head = text.split("[Service]")[0]
    assert "StartLimitBurst" in head and "StartLimitIntervalSec" in head  # elsewhere it is ignored


def test_a_broken_unit_would_be_seen(tmp_path):
    text = (UNITS / "millrace-broker.service").read_text().replace("Type=notify", "Tpye=notify")
    (tmp_path / "millrace-broker.service").write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no",
                           tmp_path / "millrace-broker.service"], text=True, capture_output=True)
    assert "Tpye" in done.stderr


def test_the_broker_reads_its_settings(tmp_path):
    done = subprocess.run([BIN / "millrace-broker", "--config", UNITS / "broker.toml",
                           "--print-config"], text=True, capture_output=True, check=True)
    assert 'place = "/var/lib/millrace/ledger"' in done.stdout
    assert 'clients = "ipc:///run/millrace/clients"' in done.stdout


def test_the_engine_knows_the_options_of_its_unit():
    unit = (UNITS / "millrace-engine@.service").read_text()
    line = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
    told = subprocess.run([BIN / "millrace-engine", "--help"], text=True, capture_output=True,
                          check=True).stdout
    for option in re.findall(r"--[\w-]+", line):
        assert f"  {option} " in told, option
    example = (UNITS / "example.env").read_text()
    for variable in re.findall(r"\$\{?(\w+)", line):
        assert re.search(rf"^{variable}=", example, re.MULTILINE), variable
