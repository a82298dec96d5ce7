"""Joins the node of node.py to a control plane, as a kubelet does.

It runs the pods that the scheduler gives to the node, tells the API server what they do, and ends
them within their grace. It restarts nothing: a container that ends by itself is a failure.
"""
import base64
import datetime
import pathlib
import re
import shutil
import threading
import time

from control_plane import MERGE, NODE, kubeconfig
from node import Node, Pod
from programs import wait_until
from service_port import ServicePort

BEAT_S = 5
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Life(threading.Thread):
    """One pod, from its first container until the API server has forgotten it."""

    def __init__(self, kubelet, told, number):
        super().__init__(name=told["metadata"]["name"])
        self.kubelet, self.uid, self.spec = kubelet, told["metadata"]["uid"], told["spec"]
        self.component = told["metadata"]["labels"]["app.kubernetes.io/component"]
        self.path = f"/api/v1/namespaces/{told['metadata']['namespace']}/pods/{self.name}"
        # It is one for documentation: the API takes none of the loopback interface.
        self.address = f"192.0.2.{10 + number % 200}"
        self.ending, self.pod = threading.Event(), None

    def run(self):
        try:
            self.pod = self.kubelet.pods[self.name] = Pod(self.kubelet, self.name, self.spec,
                                                          self.uid)
            if self.spec["restartPolicy"] == "Never":
                codes = self.run_to_its_end()
            else:
                codes = self.serve()
            if any(codes):
                self.kubelet.failures.append(f"{self.name}: {codes} {self.pod.told}")
        except Exception as wrong:  # pylint: disable=broad-exception-caught
            self.kubelet.failures.append(f"{self.name}: {wrong!r}")

    def run_to_its_end(self):
        self.report("Running")
        codes = self.pod.run()
        self.pod.told = self.pod.logs()
        self.report("Failed" if any(codes) else "Succeeded", codes=codes)
        self.ending.wait()
        shutil.rmtree(self.pod.folder)
        return codes

    def serve(self):
        self.pod.start()
        self.event("started")
        self.report("Running")
        started = ready = False
        while not self.ending.is_set():
            started = started or self.pod.passes("startupProbe")
            passes = started and self.pod.passes("readinessProbe")
            if passes != ready:
                ready = passes
                self.event("ready" if ready else "not ready")
                self.report("Running", ready)
            self.ending.wait(self.pause("readinessProbe" if started else "startupProbe"))
        codes = self.pod.stop()
        self.event("ended")
        self.kubelet.told[self.name] = self.pod.told
        self.kubelet.api.ask("DELETE", self.path, {"gracePeriodSeconds": 0,
                                                   "preconditions": {"uid": self.uid}})
        return codes

    def end(self):
        if not self.ending.is_set():
            self.event("ending")
            self.ending.set()

    def pause(self, probe):
        return min(x[probe]["periodSeconds"] for x in self.spec["containers"])

    def event(self, what):
        self.kubelet.events.append((self.component, what, self.name))

    def report(self, phase, ready=False, codes=None):
        """Tells the API server how the pod is."""
        moment = now()[:19] + "Z"
        conditions = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
        states = [{"running": {"startedAt": moment}} if codes is None else
                  {"terminated": {"exitCode": codes[i], "reason": "Completed"}}
                  for i in range(len(self.spec["containers"]))]
        self.kubelet.api.call("PATCH", f"{self.path}/status", {"status": {
            "phase": phase, "startTime": moment,
            "podIP": self.address, "podIPs": [{"ip": self.address}],
            "conditions": [{"type": kind, "status": str(value), "lastTransitionTime": moment}
                           for kind, value in conditions.items()],
            "containerStatuses": [
                {"name": x["name"], "image": x["image"], "imageID": x["image"], "ready": ready,
                 "started": ready, "restartCount": 0, "state": state}
                for x, state in zip(self.spec["containers"], states)]}}, MERGE)


class Kubelet(Node):
    def __init__(self, folder, plane, namespace):
        super().__init__(folder, plane.programs["kubectl"])
        self.plane, self.api, self.namespace = plane, plane.api("node"), namespace
        self.events = []    # (component, what, pod), in their order
        self.failures = []  # what must not be
        self.told = {}      # the logs of pods that have ended
        self.lives, self.ended, self.one_at_a_time = {}, threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self.work, name="kubelet")

    def start_up(self):
        """The node is ready from here on, and pods that are bound to it run."""
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
        self.api.call("POST", "/api/v1/nodes", {
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
            "status": {"capacity": room, "allocatable": room, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady",
                 "lastHeartbeatTime": now()[:19] + "Z"}]}})
        self.api.call("POST", LEASES, {"metadata": {"name": NODE}, "spec": self.beat()})
        self.thread.start()

    def beat(self):
        return {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": now()}

    def work(self):
        last = time.monotonic()
        try:
            while not self.ended.wait(0.1):
                if time.monotonic() - last > BEAT_S:
                    last = time.monotonic()
                    self.api.call("PATCH", f"{LEASES}/{NODE}", {"spec": self.beat()}, MERGE)
                self.look()
        except Exception as wrong:  # pylint: disable=broad-exception-caught
            self.failures.append(f"the kubelet has ended: {wrong!r}")

    def look(self):
        """Starts the pods that are new, and ends those that are to go."""
        bound = {x["metadata"]["uid"]: x for x in self.api.get(
            f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}")["items"]}
        for uid, life in self.lives.items():
            if uid not in bound or "deletionTimestamp" in bound[uid]["metadata"]:
                life.end()
        for uid in bound.keys() - self.lives.keys():
            self.lives[uid] = Life(self, bound[uid], len(self.lives))
            self.lives[uid].start()

    def environment(self, pod):
        """kubectl finds the API server by this file, where the pod has a token."""
        out = super().environment(pod)
        for volume in pod.spec["volumes"]:
            if "projected" in volume:
                out["KUBECONFIG"] = str(pod.volumes[volume["name"]] / "kubeconfig")
        return out

    def read(self, path, verb="GET", body=None):
        """The API server may learn a moment after the node what a new pod gives leave to read."""
        wait_until(lambda: self.api.ask(verb, path, body).status_code != 403, f"leave: {path}")
        return self.api.call(verb, path, body)

    def secret(self, name):
        told = self.read(f"/api/v1/namespaces/{self.namespace}/secrets/{name}")
        return {key: base64.b64decode(value) for key, value in told["data"].items()}

    def projected(self, pod, volume, path):
        """The token of the pod's service account, and what belongs to it."""
        files, space = {}, f"/api/v1/namespaces/{self.namespace}"
        for source in volume["sources"]:
            if "serviceAccountToken" in source:
                told = self.read(
                    f"{space}/serviceaccounts/{pod.spec['serviceAccountName']}/token", "POST",
                    {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1",
                                                 "name": pod.name, "uid": pod.uid}}})
                files["token"] = told["status"]["token"].encode()
            elif "configMap" in source:
                told = self.read(f"{space}/configmaps/{source['configMap']['name']}")
                files |= {key: value.encode() for key, value in told["data"].items()}
            else:
                files["namespace"] = self.namespace.encode()
        config = kubeconfig(self.plane.url, path / "ca.crt", {"tokenFile": str(path / "token")})
        return {**files, "kubeconfig": config.encode()}

    def addresses(self, word, pod):
        word = re.sub(r"([\w-]+-broker):(\d+)", lambda m: self.service_port(m[1], m[2]), word)
        return self.own_addresses(word, pod.ports) if pod else word

    def service_port(self, service, number):
        with self.one_at_a_time:
            if (service, number) not in self.service:
                self.service[service, number] = ServicePort(self, service, number)
            return f"127.0.0.1:{self.service[service, number].port}"

    def claim(self, name):
        told = self.read(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{name}")
        volume = self.read(f"/api/v1/persistentvolumes/{told['spec']['volumeName']}")
        return pathlib.Path(volume["spec"]["hostPath"]["path"])

    def stop(self):
        self.ended.set()
        if self.thread.ident:
            self.thread.join()
        for life in self.lives.values():
            life.end()
        super().stop()
        for one in self.service.values():
            one.close()
        for life in self.lives.values():
            life.join()
