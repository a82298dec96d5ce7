"""A stand-in for a node of Kubernetes: it runs the pods of the chart as processes of this machine.

Commands, environment, secrets, probes, preStop and the grace of a pod are those of the chart; only
places differ: a path that is mounted becomes one in the pod's folder, an address one of the
loopback interface. Where the test may, processes run as the pod's user.
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import programs
from programs import PATIENCE_S, wait_until


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


KUBECTL = """#!/bin/sh
# What the chart asks of kubectl: create secret generic NAME --from-file=PLACE --namespace=...
[ "$1 $2 $3" = "create secret generic" ] || exit 2
[ ! -e "{secrets}/$4" ] || {{ echo "$4 already exists" >&2; exit 1; }}
mkdir "{secrets}/$4"
place=${{5#--from-file=}}
if [ -d "$place" ]; then cp "$place"/* "{secrets}/$4"; else cp "$place" "{secrets}/$4"; fi
"""


class Container:
    def __init__(self, pod, spec):
        self.pod, self.spec = pod, spec
        self.log = pod.folder / f"{spec['name']}.log"
        self.environment = pod.node.environment(pod)
        for one in spec.get("env", []):
            self.environment[one["name"]] = self.value(one)
        self.process = None

    def value(self, variable):
        source = variable.get("valueFrom")
        if source is None:
            return self.here(variable["value"])
        if "secretKeyRef" in source:
            secret = self.pod.node.secret(source["secretKeyRef"]["name"])
            return secret[source["secretKeyRef"]["key"]].decode()
        assert source["fieldRef"]["fieldPath"] == "metadata.name", variable
        return self.pod.name

    def here(self, word):
        """A word of the command with the places of this machine."""
        places = {x["mountPath"]: str(self.pod.volumes[x["name"]])
                  for x in self.spec["volumeMounts"]}
        paths = "|".join(re.escape(x) for x in sorted(places, key=len, reverse=True))
        word = re.sub(rf"(?<![\w/])({paths})(?=/|$)", lambda m: places[m[1]], word)
        word = self.pod.node.addresses(word, self.pod)
        return re.sub(r"\$\((\w+)\)", lambda m: self.environment.get(m[1], m[0]), word)

    def start(self):
        words = [*self.spec["command"], *[str(x) for x in self.spec.get("args", [])]]
        options = {"user": 990, "group": 990, "extra_groups": []} if os.geteuid() == 0 else {}
        self.process = subprocess.Popen(
            [self.here(x) for x in words], env=self.environment, stdout=subprocess.DEVNULL,
            stderr=open(self.log, "ab"), cwd=self.pod.folder, **options)

    def run(self):
        self.start()
        return self.process.wait(PATIENCE_S)

    def passes(self, kind):
        probe = self.spec[kind]["httpGet"]
        ports = {x["name"]: x["containerPort"] for x in self.spec["ports"]}
        address = self.pod.node.addresses(f"0.0.0.0:{ports[probe['port']]}", self.pod)
        try:
            with urllib.request.urlopen(f"http://{address}{probe['path']}", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def stop(self, grace_s):
        """As the kubelet does it. Returns the exit code; negative where it had to be killed."""
        end = time.monotonic() + grace_s
        hook = self.spec.get("lifecycle", {}).get("preStop")
        if hook:
            subprocess.run(hook["exec"]["command"], check=True, timeout=grace_s)
        self.process.terminate()
        try:
            return self.process.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Pod:
    def __init__(self, node, name, spec, uid=None):
        self.node, self.name, self.spec, self.uid = node, name, spec, uid
        self.ports, self.told = {}, ""
        self.folder = node.folder / "pods" / name
        self.folder.mkdir(parents=True)
        node.give(self.folder)
        self.volumes = {x["name"]: self.volume(x) for x in spec["volumes"]}
        mounted = {x["name"] for one in spec["containers"] for x in one["volumeMounts"]}
        # The rest are what a StatefulSet claims for each pod.
        self.volumes |= {x: node.claim(f"{x}-{name}") for x in mounted - self.volumes.keys()}
        self.containers = [Container(self, x) for x in spec["containers"]]

    def volume(self, volume):
        path = self.folder / "volumes" / volume["name"]
        if "secret" in volume:
            secret = volume["secret"]
            self.write(path, self.node.secret(secret["secretName"]), secret["defaultMode"])
            return path
        if "projected" in volume:
            self.write(path, self.node.projected(self, volume["projected"], path), 0o440)
            return path
        if "persistentVolumeClaim" in volume:
            return self.node.claim(volume["persistentVolumeClaim"]["claimName"])
        if "hostPath" in volume:
            return pathlib.Path(volume["hostPath"]["path"])
        assert "emptyDir" in volume, volume
        path.mkdir(parents=True)
        self.node.give(path.parent)
        self.node.give(path)
        return path

    def write(self, path, files, mode):
        """Files that are root's, which the pod's group may read."""
        path.mkdir(parents=True)
        for name, content in files.items():
            one = path / name
            one.write_bytes(content)
            root = os.geteuid() == 0
            one.chmod(mode if root else 0o400)
            if root:
                os.chown(one, 0, 990)
        path.chmod(0o755)

    def start(self):
        for spec in self.spec.get("initContainers", []):
            one = Container(self, spec)
            assert one.run() == 0, one.log.read_text()
        for one in self.containers:
            one.start()

    def run(self):
        """Runs the pod of a job to its end. Returns the exit codes."""
        self.start()
        return [x.process.wait(PATIENCE_S) for x in self.containers]

    def logs(self):
        return "".join(x.log.read_text() for x in self.containers)

    def passes(self, kind):
        return all(x.passes(kind) for x in self.containers)

    def until_ready(self):
        for kind in ("startupProbe", "readinessProbe"):
            wait_until(lambda kind=kind: self.passes(kind), f"the {kind} of {self.name}")

    def stop(self):
        """Returns the exit codes. Nothing of the pod stays but what it told."""
        codes = [x.stop(self.spec["terminationGracePeriodSeconds"]) for x in self.containers]
        self.told = self.logs()
        shutil.rmtree(self.folder)
        del self.node.pods[self.name]
        return codes


class Node:
    def __init__(self, folder, kubectl=None):
        """Secrets are folders, unless there is a kubectl that puts them elsewhere."""
        self.folder = pathlib.Path(folder)
        self.secrets, self.bin = self.folder / "secrets", self.folder / "bin"
        for path in (self.secrets, self.bin, self.folder / "claims"):
            path.mkdir()
            self.give(path)
        for name, program in (("millrace", "millrace"), ("millrace-broker", "millrace-broker"),
                              ("millrace-engine", "stub_engine")):
            (self.bin / name).symlink_to(programs.program(program))
        if kubectl:
            shutil.copy(kubectl, self.bin / "kubectl")
        else:
            (self.bin / "kubectl").write_text(KUBECTL.format(secrets=self.secrets))
        (self.bin / "kubectl").chmod(0o755)
        self.pods, self.service = {}, {}

    def give(self, path):
        path.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(path, 990, 990)

    def environment(self, _pod):
        return {"PATH": f"{self.bin}:{os.environ['PATH']}"}

    def secret(self, name):
        return {x.name: x.read_bytes() for x in (self.secrets / name).iterdir()}

    def claim(self, name):
        path = self.folder / "claims" / name
        if not path.exists():
            path.mkdir()
            self.give(path)
        return path

    def addresses(self, word, pod):
        """A broker's ports are those of its service, which stay; the others are the pod's."""
        word = re.sub(r"[\w-]+-broker:(\d+)",
                      lambda m: f"127.0.0.1:{self.service.setdefault(m[1], free_port())}", word)
        ports = self.service if pod and "broker" in pod.name else pod and pod.ports
        return self.own_addresses(word, ports)

    def own_addresses(self, word, ports):
        """What a process listens at has a port of this machine for each of the pod's."""
        return re.sub(r"\b0\.0\.0\.0:(\d+)",
                      lambda m: f"127.0.0.1:{ports.setdefault(m[1], free_port())}", word)

    def start(self, name, template):
        pod = self.pods[name] = Pod(self, name, template["spec"])
        pod.start()
        return pod

    def run_job(self, job):
        """Runs the pod of a job to its end."""
        pod = Pod(self, job["metadata"]["name"], job["spec"]["template"]["spec"])
        assert not any(pod.run()), pod.logs()

    def stop(self):
        for pod in list(self.pods.values()):
            for one in pod.containers:
                if one.process and one.process.poll() is None:
                    one.process.kill()
                    one.process.wait()
