#!/usr/bin/env python3
"""What the tests of the chart need and no Debian package has: helm, and schemas of what it renders.

helm is built from its Go module; the schemas come from a PyPI package, those of KEDA and of the
Prometheus operator with their Go modules. All of it is kept in the cache folder. Run as a program,
it gets everything; a control plane of Kubernetes, which takes long, only with --control-plane.
"""
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))  # where it runs as a program
from pip_packages import Absent, installed  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") \
    / "millrace" / "helm"
RESOURCES = {  # of others than Kubernetes, by the Go module that has their definitions
    "github.com/kedacore/keda/v2@v2.20.2": ["config/crd/bases/keda.sh_scaledobjects.yaml"],
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"],
}


def built(folder, package, name, variables=()):
    """Builds a Go program of the module in `folder`; the linker sets the variables."""
    if shutil.which("go") is None:
        raise Absent(f"{name} is built from its Go module, and there is no go")
    inputs = hashlib.sha256(repr(variables).encode())
    for path in sorted(folder.iterdir()):
        inputs.update(path.read_bytes())
    program = CACHE / inputs.hexdigest()[:16] / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            done = subprocess.run(
                ["go", "build", "-ldflags", " ".join(["-s -w", *(f"-X {x}" for x in variables)]),
                 "-o", str(program), package], cwd=folder, capture_output=True, text=True,
                check=False)
            if done.returncode != 0:
                raise Absent(f"go build {package}: {done.stderr.strip()[-2000:]}")
    return program


@functools.cache
def helm():
    # The version of Kubernetes that it renders for is given when it is built, as its releases are.
    packages = ("chartutil", "lint/rules")
    return built(HERE / "programs", "helm.sh/helm/v3/cmd/helm", "helm",
                 tuple(f"helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
                       for package in packages for part, number in (("Major", 1), ("Minor", 34))))


@functools.cache
def control_plane():
    """Returns the programs of a control plane of Kubernetes by name, with what keeps its state."""
    module = (HERE / "control_plane" / "go.mod").read_text(encoding="utf-8")
    version = re.search(r"k8s.io/kubernetes (v(\d+)\.(\d+)\S+)", module)
    variables = tuple(f"k8s.io/component-base/version.git{name}={version[i]}"
                      for i, name in enumerate(("Version", "Major", "Minor"), 1))
    packages = {"etcd": "go.etcd.io/etcd/server/v3", **{
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")}}
    return {name: built(HERE / "control_plane", package, name, variables)
            for name, package in packages.items()}


@functools.cache
def kubernetes_schemas():
    """Returns the folder that has a folder of schemas for each version of Kubernetes."""
    folder = installed(HERE / "requirements.txt", CACHE, "schemas-")
    return folder / "kubernetes_validate" / "kubernetes-json-schema"


@functools.cache
def definitions():
    """Returns the files that define the resources of KEDA and of the Prometheus operator."""
    if shutil.which("go") is None:
        raise Absent("the definitions come with Go modules, and there is no go")
    found = []
    for module, paths in RESOURCES.items():
        done = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True,
                              text=True, check=False, cwd="/")
        told = json.loads(done.stdout or "{}")
        if done.returncode != 0 or "Dir" not in told:
            raise Absent(f"go mod download {module}: {told.get('Error', done.stderr.strip())}")
        found += [pathlib.Path(told["Dir"], path) for path in paths]
    return found


if __name__ == "__main__":
    try:
        for one in (helm(), kubernetes_schemas(), *definitions()):
            print(one)
        if "--control-plane" in sys.argv[1:]:
            print(*control_plane().values(), sep="\n")
    except Absent as why:
        sys.exit(f"error: {why}")
