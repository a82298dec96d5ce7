"""The chart in a control plane of Kubernetes: helm installs it, and controllers run its pods.

etcd, the API server, the controllers and the scheduler are the real ones, and so are helm and
kubectl; the node is kubelet.py. Engines are stubs, the broker and the client are not.
"""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

import pytest
import yaml
from control_plane import ControlPlane
from helm_programs import control_plane, definitions
from kubelet import Kubelet
from postgres import PostgresServer
from programs import PATIENCE_S, completion, wait_until
from rendered import CHART, NAMESPACE, RELEASE, SETS, need, run_helm, template

pytestmark = pytest.mark.long

ENGINES = f"{RELEASE}-millrace-engine-stub"
BROKER = f"{RELEASE}-millrace-broker"
VALUES = {
    "broker": {"drainSeconds": 1, "logJson": False, "options": ["--lease-ms=3000"]},
    "engines": {"stub": {"model": {"file": "stub", "claim": "models"}, "drainSeconds": 5,
                         "logJson": False, "options": [
                             "--step-ms=20", "--job-steps=10", "--rows=4", "--capacity=8"],
                         "scale": {"enabled": True, "min": 1}}},
    "prometheus": {"address": "http://prometheus:9090", "podMonitors": True, "rules": True}}
STORAGE = "local"


class Cluster:
    """A control plane with a node, and in it a namespace with what a cluster has for the chart."""

    def __init__(self, folder, programs):
        for name in ("plane", "node"):
            (folder / name).mkdir()
        self.plane = ControlPlane(folder / "plane", programs)
        self.node = Kubelet(folder / "node", self.plane, NAMESPACE)
        self.key = folder / "client.key"

    def start(self):
        self.plane.start()
        self.node.start_up()
        self.kubectl("create", "namespace", NAMESPACE)
        # The strictest profile: the API server refuses a pod that is outside of it, and warns
        # of what would make one.
        self.kubectl("label", "namespace", NAMESPACE, *(
            f"pod-security.kubernetes.io/{x}=restricted" for x in ("enforce", "warn")))
        for path in need(definitions):
            self.kubectl("create", "-f", str(path))
        folders = {x: str(self.node.folder / "claims" / x) for x in ("ledger", "models")}
        for path in folders.values():
            pathlib.Path(path).mkdir()
            self.node.give(pathlib.Path(path))
        volumes = [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                    "spec": {"capacity": {"storage": "20Gi"}, "accessModes": modes,
                             "storageClassName": STORAGE, "hostPath": {"path": folders[name]}}}
                   for name, modes in (("ledger", ["ReadWriteOnce"]), ("models", ["ReadOnlyMany"]))]
        self.create(*volumes, {
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": STORAGE, "annotations": {
                "storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "kubernetes.io/no-provisioner"}, {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models", "namespace": NAMESPACE},
            "spec": {"accessModes": ["ReadOnlyMany"],
                     "resources": {"requests": {"storage": "1Gi"}}}})

    def create(self, *objects):
        self.kubectl("create", "-f", "-", text=yaml.safe_dump_all(objects))

    def kubectl(self, *words, **options):
        return self.plane.kubectl("--namespace", NAMESPACE, *words, **options).stdout

    def helm(self, *words, values=None):
        return run_helm(*words, "--namespace", NAMESPACE, "--kubeconfig",
                        self.plane.configs["admin"], "--wait", "--timeout", f"{PATIENCE_S}s",
                        values=values)

    def get_key(self):
        """As the notes of the chart say it."""
        text = self.kubectl("get", "secret", f"{RELEASE}-millrace-client-key", "--output",
                            'go-template={{index .data "client.key" | base64decode}}')
        self.key.write_text(text)
        self.key.chmod(0o600)

    def millrace(self, *words):
        """A command of the client; it waits for a broker that is being replaced."""
        done = subprocess.run(
            [self.node.bin / "millrace", *words, "--key", self.key, "--timeout", str(PATIENCE_S),
             "--broker", self.node.addresses(f"tcp://{BROKER}:5570", None)], text=True,
            capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self):
        return json.loads(self.millrace("status", "--json"))

    def done(self):
        return [int(json.loads(x)["custom_id"]) for x in self.millrace("results").splitlines()]

    def engines(self, want):
        """Waits until so many engines are ready. Returns their names."""
        self.roll_out(ENGINES)
        wait_until(lambda: len(self.pods("engine-stub")) == want, f"{want} engines")
        return self.pods("engine-stub")

    def roll_out(self, deployment):
        self.kubectl("rollout", "status", f"deployment/{deployment}", f"--timeout={PATIENCE_S}s")

    def pods(self, component, ending=False):
        """The names of the pods that are to stay, or of all."""
        told = json.loads(self.kubectl("get", "pods", "--output", "json", "--selector",
                                       f"app.kubernetes.io/component={component}"))["items"]
        return [x["metadata"]["name"] for x in told
                if ending or "deletionTimestamp" not in x["metadata"]]

    def evict(self, pod):
        """The answer to what `kubectl drain` asks for each pod."""
        return self.plane.api("admin").ask(
            "POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})

    def stop(self):
        self.node.stop()
        self.plane.stop()


class Load(threading.Thread):
    """Submits jobs until it is told to end, so that some always wait and all engines are busy.

    `acknowledged` are those that the broker has taken.
    """

    def __init__(self, cluster, jobs):
        super().__init__()
        self.cluster, self.jobs = cluster, jobs
        self.acknowledged, self.wrong, self.over = [], None, threading.Event()

    def run(self):
        try:
            while not self.over.wait(0.1):
                if self.cluster.status()["counts"]["queued"] > 100:
                    continue
                first = len(self.acknowledged)
                batch = range(first, first + 50)
                self.jobs.write_text("".join(completion(str(x), f"prompt {x}") + "\n"
                                             for x in batch))
                self.cluster.millrace("submit", self.jobs)
                self.acknowledged += batch
        except Exception as wrong:  # pylint: disable=broad-exception-caught
            self.wrong = wrong

    def more(self):
        """Waits until more jobs are taken, so that work has gone on after what has happened."""
        want = len(self.acknowledged) + 50
        wait_until(lambda: self.wrong or len(self.acknowledged) >= want, f"{want} jobs")
        if self.wrong is not None:
            raise self.wrong

    def end(self):
        self.over.set()
        self.join()
        if self.wrong is not None:
            raise self.wrong


@pytest.fixture(scope="module")
def cluster():
    programs = need(control_plane)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-plane-"))
    folder.chmod(0o755)
    one = Cluster(folder, programs)
    try:
        one.start()
        yield one
    finally:
        one.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_api_server_takes_what_is_rendered(cluster):
    """It checks more than the schemas say. Host paths alone are outside the strictest profile."""
    violation = ('Warning: would violate PodSecurity "restricted:latest": restricted volume types '
                 '(volume "models" uses restricted volume type "hostPath")')
    for name, values in SETS.items():
        done = cluster.plane.kubectl("create", "--namespace", NAMESPACE, "--dry-run=server",
                                     "--validate=strict", "--filename=-",
                                     text=template(values).stdout)
        assert set(done.stderr.splitlines()) <= {violation}, (name, done.stderr)


def after_each(events, component):
    """Yields the pods of a component that run, those that are to stay, and the ready of these."""
    run, stay, ready = set(), set(), set()
    for one, what, pod in events:
        if one == component:
            if what == "started":
                run, stay = run | {pod}, stay | {pod}
            elif what == "ended":
                run = run - {pod}
            elif what == "ending":
                stay = stay - {pod}
            ready = (ready | {pod} if what == "ready" else ready - {pod}) & stay
            yield run, stay, ready


def install(cluster, values):
    cluster.helm("install", RELEASE, CHART, values=values)
    cluster.kubectl("scale", f"deployment/{ENGINES}", "--replicas=2")
    cluster.engines(2)


def annotate(cluster, values):
    values = json.loads(json.dumps(values))
    values["broker"]["annotations"] = values["engines"]["stub"]["annotations"] = {"turn": "two"}
    cluster.helm("upgrade", RELEASE, CHART, values=values)


def restart(cluster, load):
    """All pods get an annotation: the controllers replace them, while jobs come and go."""
    before, mark = cluster.engines(2), len(cluster.node.events)
    annotate(cluster, VALUES)
    # The number of engines is who scales them to set: an upgrade leaves it.
    assert not set(before) & set(cluster.engines(2))
    load.more()
    events = cluster.node.events
    engines = list(after_each(events, "engine-stub"))
    engines = engines[len(list(after_each(events[:mark], "engine-stub"))):]
    assert all(len(stay) <= 2 and ready for _, stay, ready in engines), engines
    assert max(len(run) for run, _, _ in after_each(events, "broker")) == 1
    assert [x for x in events[mark:] if x[0] == "broker"] == [
        ("broker", what, f"{BROKER}-0") for what in ("ending", "ended", "started", "ready")]


def scale(cluster, load):
    """As KEDA does, by the scale of the deployment."""
    for count in (4, 2):
        cluster.kubectl("scale", f"deployment/{ENGINES}", f"--replicas={count}")
        cluster.engines(count)
        wait_until(lambda count=count: len(cluster.status()["engines"]) == count,
                   f"{count} engines at the broker")
        load.more()


def evict(cluster, load):
    """Who drains a node gets one engine of a deployment after the other."""
    first, second = cluster.engines(2)
    wait_until(lambda: cluster.kubectl("get", "poddisruptionbudget", ENGINES, "--output",
                                       "jsonpath={.status.disruptionsAllowed}") == "1",
               "the budget")
    assert cluster.evict(first).ok
    refused = cluster.evict(second)
    assert refused.status_code == 429 and "disruption budget" in refused.text, refused.text
    wait_until(lambda: cluster.evict(second).ok, "the second eviction")
    assert not {first, second} & set(cluster.engines(2))
    mark = len(cluster.node.events)
    assert cluster.evict(f"{BROKER}-0").ok
    wait_until(lambda: ("broker", "ready", f"{BROKER}-0") in cluster.node.events[mark:],
               "the broker after its eviction")
    load.more()


def under_load(cluster, folder, *changes):
    """Makes the changes one after the other, while jobs flow. Returns the jobs; each ended once."""
    load = Load(cluster, folder / "jobs.jsonl")
    load.start()
    try:
        load.more()
        for change in changes:
            change(cluster, load)
    finally:
        load.over.set()
    load.end()
    wait_until(lambda: len(cluster.done()) >= len(load.acknowledged), "all results")
    assert sorted(cluster.done()) == load.acknowledged, "each once"
    return load.acknowledged


def test_pods_are_replaced_added_and_evicted_under_load(cluster, tmp_path):
    install(cluster, VALUES)
    cluster.get_key()
    (slices,) = json.loads(cluster.kubectl(
        "get", "endpointslices", "--output=json", "--selector",
        f"kubernetes.io/service-name={BROKER}"))["items"]
    assert {x["name"]: x["port"] for x in slices["ports"]} == {
        "clients": 5570, "engines": 5571, "doorbell": 5572, "http": 8080}
    assert [x["targetRef"]["name"] for x in slices["endpoints"]] == [f"{BROKER}-0"]

    acknowledged = under_load(cluster, tmp_path, restart, scale, evict)

    left = uninstall(cluster)
    assert left == {*(f"secret/{RELEASE}-millrace-{x}" for x in (
        "broker-keys", "engine-key", "client-key")), f"persistentvolumeclaim/ledger-{BROKER}-0"}
    # What it leaves is enough for the next installation: the same keys, and all results.
    install(cluster, VALUES)
    assert sorted(cluster.done()) == acknowledged
    assert uninstall(cluster) == left
    assert not cluster.node.failures
    engines = [told for pod, told in cluster.node.told.items() if pod.startswith(ENGINES)]
    assert len(engines) == 10 and all("left the broker" in x for x in engines), engines
    assert any(re.search(r"draining: .* running=[1-9]", x) for x in engines), engines


def everything(cluster):
    kinds = cluster.kubectl("api-resources", "--namespaced", "--verbs=list,delete",
                            "--output=name").split()
    kinds = [x for x in kinds if not x.startswith("events")]
    return set(cluster.kubectl("get", ",".join(kinds), "--output=name").split())


def uninstall(cluster):
    """Returns what is in the namespace then, and was not there before the chart."""
    before = {"configmap/kube-root-ca.crt", "serviceaccount/default",
              "persistentvolumeclaim/models"}
    cluster.helm("uninstall", RELEASE)
    for component in ("broker", "engine-stub"):
        wait_until(lambda one=component: not cluster.pods(one, ending=True), f"end of {component}")
    return everything(cluster) - before


@pytest.fixture
def server():
    one = PostgresServer()
    yield one
    one.close()


def test_brokers_on_postgresql_are_replaced_and_evicted_under_load(cluster, server, tmp_path):
    values = {**VALUES, "broker": {**VALUES["broker"], "replicas": 2, "ledger": {
        "kind": "postgresql", "postgresql": {"urlSecret": {"name": "db"}}}}}

    def replace(cluster, load):
        mark = len(cluster.node.events)
        annotate(cluster, values)
        cluster.roll_out(BROKER)
        load.more()
        brokers = list(after_each(cluster.node.events, "broker"))
        brokers = brokers[len(list(after_each(cluster.node.events[:mark], "broker"))):]
        # The new pod is ready before an old one is to end.
        assert len(brokers) >= 6 and all(len(ready) >= 2 for _, _, ready in brokers), brokers

    def evict_broker(cluster, load):
        first, _ = cluster.pods("broker")
        assert cluster.evict(first).ok
        cluster.roll_out(BROKER)
        assert first not in cluster.pods("broker")
        load.more()

    cluster.kubectl("create", "secret", "generic", "db", f"--from-literal=uri={server.url}")
    install(cluster, values)
    cluster.get_key()
    under_load(cluster, tmp_path, replace, evict_broker)
    uninstall(cluster)
    assert not cluster.node.failures
