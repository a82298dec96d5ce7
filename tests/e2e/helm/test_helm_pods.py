"""The chart's pods at work: keys are made, jobs done, pods replaced and added under load.

They run as processes of this machine (node.py). What a control plane does, the test does in its
place: an engine ends before the next begins, and so does the broker. Among the long tests a real
one does it (test_helm_control_plane.py).
"""
import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from node import Node
from programs import PATIENCE_S, completion, wait_until
from rendered import of_kind, render

STUB = {"model": {"file": "stub", "hostPath": "/opt"}, "drainSeconds": 5, "logJson": False,
        "options": ["--step-ms=20", "--rows=4"]}
VALUES = {"broker": {"drainSeconds": 1, "logJson": False, "options": ["--lease-ms=3000"]},
          "engines": {"stub": STUB}}


class Cluster:
    def __init__(self, folder):
        self.node = Node(folder)
        self.objects = render(VALUES)
        self.broker_set = of_kind(self.objects, "StatefulSet")["spec"]
        self.engine_set = of_kind(self.objects, "Deployment", "engine-stub")["spec"]
        self.made = 0

    def make_keys(self):
        self.node.run_job(of_kind(self.objects, "Job", "make-keys"))

    def start_broker(self):
        pod = self.node.start("demo-millrace-broker-0", self.broker_set["template"])
        pod.until_ready()
        self.key = self.node.folder / "client.key"
        if not self.key.exists():
            shutil.copy(self.node.secrets / "demo-millrace-client-key" / "client.key", self.key)
            self.key.chmod(0o600)
        return pod

    def start_engine(self):
        self.made += 1
        pod = self.node.start(f"demo-millrace-engine-stub-{self.made}", self.engine_set["template"])
        pod.until_ready()
        return pod

    def millrace(self, *words):
        done = subprocess.run(
            [self.node.bin / "millrace", *words, "--key", self.key, "--broker",
             self.node.addresses("tcp://demo-millrace-broker:5570", None)], text=True,
            capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submit(self, first, count):
        jobs = self.node.folder / "jobs.jsonl"
        jobs.write_text("".join(completion(str(first + i), f"prompt {first + i}") + "\n"
                                for i in range(count)))
        self.millrace("submit", jobs)

    def done(self):
        return [int(json.loads(x)["custom_id"]) for x in self.millrace("results").splitlines()]


@pytest.fixture
def cluster():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-pods-"))
    folder.chmod(0o755)
    one = Cluster(folder)
    try:
        yield one
    finally:
        one.node.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_pods_are_replaced_and_added_under_load(cluster):
    cluster.make_keys()
    secrets = {x.name: sorted(y.name for y in x.iterdir()) for x in cluster.node.secrets.iterdir()}
    assert secrets == {"demo-millrace-broker-keys": ["allowed", "broker.key"],
                       "demo-millrace-engine-key": ["engine.key"],
                       "demo-millrace-client-key": ["client.key"]}
    broker = cluster.start_broker()
    engines = [cluster.start_engine() for _ in range(2)]
    wait_until(lambda: len(json.loads(cluster.millrace("status", "--json"))["engines"]) == 2,
               "both engines")
    cluster.submit(0, 500)

    # A rolling restart of the engines: one ends, within its grace, and then the next begins.
    for number in range(2):
        wait_until(lambda: cluster.done(), "the first results")
        assert engines[number].stop() == [0], engines[number].told
        engines[number] = cluster.start_engine()
    # The broker's: clients and engines wait, and go on with what the volume has kept.
    cluster.submit(500, 500)
    assert broker.stop() == [0], broker.told
    broker = cluster.start_broker()
    # More engines.
    engines += [cluster.start_engine() for _ in range(2)]
    wait_until(lambda: len(cluster.done()) == 1000, "all results")
    assert sorted(cluster.done()) == list(range(1000)), "each once"
    for pod in (*engines, broker):
        assert pod.stop() == [0], pod.told
    assert "left the broker" in engines[0].told


def test_keys_are_made_once(cluster):
    cluster.make_keys()
    before = (cluster.node.secrets / "demo-millrace-broker-keys" / "broker.key").read_text()
    shutil.rmtree(cluster.node.folder / "pods")
    with pytest.raises(AssertionError, match="already exists"):
        cluster.make_keys()
    assert (cluster.node.secrets / "demo-millrace-broker-keys" / "broker.key").read_text() == before
