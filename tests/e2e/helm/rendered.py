"""The chart, rendered with values, and what Kubernetes' own schemas say of each object."""
import functools
import json
import pathlib
import subprocess

import jsonschema
import pytest
import referencing
import yaml
from referencing.jsonschema import DRAFT7

from helm_programs import Absent, definitions, helm, kubernetes_schemas

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "ops" / "helm" / "millrace"
VERSIONS = ("v1.30.0", "v1.37.0")  # of Kubernetes: an old one that is still met, and a new one
NAMESPACE, RELEASE = "inference", "demo"

SMALL = {"model": {"file": "small.gguf", "name": "small", "hostPath": "/opt/models"}}
SHA256 = "9" * 64
# The sets of values that are rendered, by what they stand for.
SETS = {
    "defaults": {},
    "cpu": {"engines": {"small": SMALL}},
    "everything": {
        "images": {"registry": "registry.example/team/", "pullSecrets": ["pull"]},
        "broker": {"tenants": ["acme:weight=3,queued=1000", "*:queued=50"],
                   "options": ["--keep-results=7d"], "service": {"type": "LoadBalancer"},
                   "ledger": {"sqlite": {"storageClass": "fast", "size": "1Ti"}},
                   "nodeSelector": {"disk": "ssd"}, "annotations": {"a": "b"},
                   "tolerations": [{"key": "x", "operator": "Exists"}],
                   "priorityClassName": "high"},
        "http": {"allowOrigins": ["https://a.example", "https://b.example"], "tlsSecret": "tls",
                 "ingress": {"enabled": True, "className": "nginx", "host": "m.example",
                             "tlsSecret": "outer", "annotations": {"c": "d"}}},
        "engines": {
            "small": SMALL,
            "large": {"model": {"file": "hub/large", "claim": "models"}, "device": "nvidia",
                      "gpus": 4, "runtimeClassName": "nvidia", "drainSeconds": 0, "logJson": False,
                      "disruptionBudget": False, "scale": {"enabled": True, "min": 1, "max": 8},
                      "resources": {"limits": {"memory": "64Gi"}}},
            "split": {"model": {"file": "large.gguf", "claim": "models"}, "device": "nvidia",
                      "gpus": 2, "options": ["--pipeline=all", "--kv=q8"]},
            "far": {"model": {"file": "x/far.gguf", "download": {
                "url": "https://models.example/far.gguf", "sha256": SHA256, "size": "20Gi",
                "tokenSecret": {"name": "hub", "key": "token"}}}, "scale": {"enabled": True}}},
        "prometheus": {"address": "http://prometheus:9090", "podMonitors": True, "rules": True,
                       "labels": {"release": "prometheus"}},
        "grafana": {"dashboard": True},
        "networkPolicy": {"clients": [{"namespaceSelector": {"matchLabels": {"team": "a"}}}],
                          "engines": [{"ipBlock": {"cidr": "10.1.0.0/16"}}],
                          "metrics": [{"namespaceSelector": {"matchLabels": {"p": "m"}}}]}},
    "postgresql": {
        "broker": {"replicas": 2, "ledger": {"kind": "postgresql", "postgresql": {
            "url": "postgresql://millrace@db:5432/millrace?sslmode=verify-full",
            "passwordSecret": {"name": "db", "key": "password"}}},
            "env": [{"name": "PGSSLROOTCERT", "value": "/etc/db/ca.crt"}],
            "volumes": [{"name": "db", "secret": {"secretName": "db-ca"}}],
            "volumeMounts": [{"name": "db", "mountPath": "/etc/db"}]},
        "engines": {"small": SMALL}},
    "own keys": {
        "keys": {"make": False, "brokerSecret": "mine", "engineSecret": "theirs"},
        "broker": {"ledger": {"kind": "postgresql", "postgresql": {
            "urlSecret": {"name": "db-app"}}}},
        "http": {"enabled": False}, "networkPolicy": {"enabled": False},
        "engines": {"small": {**SMALL, "replicas": 0}}},
    "published": {
        "broker": {"options": ["--traces=http://collector.monitoring:4318"]},
        "http": {"ingress": {"enabled": True}}, "networkPolicy": {"egress": [
            {"to": [{"namespaceSelector": {}}], "ports": [{"port": 4318}]}]}},
    "existing claim": {"broker": {"ledger": {"sqlite": {"existingClaim": "ledger"}}}},
}


def need(what):
    """What `what` gives; the test is skipped where it cannot be had."""
    try:
        return what()
    except Absent as why:
        pytest.skip(str(why))


def run_helm(*words, values=None, check=True, **options):
    command = [str(need(helm)), *[str(x) for x in words]]
    if values is not None:
        command += ["--values", "-"]
    done = subprocess.run(command, input=json.dumps(values or {}), text=True, capture_output=True,
                          check=False, **options)
    assert not check or done.returncode == 0, done.stderr
    return done


def template(values, *words, check=True):
    return run_helm("template", RELEASE, CHART, "--namespace", NAMESPACE, *words, values=values,
                    check=check)


def render(values, *words):
    """The objects that the chart makes."""
    return [x for x in yaml.safe_load_all(template(values, *words).stdout) if x]


@functools.cache
def rendered(name):
    """The objects of a set of values."""
    return render(SETS[name])


def of_kind(objects, kind, ending=""):
    """The only object of this kind whose name ends so."""
    found = [x for x in objects if x["kind"] == kind and x["metadata"]["name"].endswith(ending)]
    assert len(found) == 1, [x["metadata"]["name"] for x in found]
    return found[0]


def pods_of(objects):
    """Returns (name, specification) of each pod that is made."""
    return [(x["metadata"]["name"], x["spec"]["template"]["spec"]) for x in objects
            if x["kind"] in ("Deployment", "StatefulSet", "Job")]


@functools.cache
def defined():
    """The schemas of the resources that are not Kubernetes' own, by API version and kind."""
    out = {}
    for path in need(definitions):
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        for version in spec["versions"]:
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            out[key] = strict(version["schema"]["openAPIV3Schema"])
    return out


def strict(schema):
    """The same schema, which also refuses what it does not name, as the API server warns of it."""
    if isinstance(schema, list):
        return [strict(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    out = {key: strict(value) for key, value in schema.items()}
    if "properties" in out and "additionalProperties" not in out and \
            not out.get("x-kubernetes-preserve-unknown-fields"):
        out["additionalProperties"] = False
    return out


def schema_of(one, version):
    group, _, number = one["apiVersion"].rpartition("/")
    if (one["apiVersion"], one["kind"]) in defined():
        out = dict(defined()[one["apiVersion"], one["kind"]])
        out["properties"] = {**out["properties"], "metadata": {"type": "object"}}
        return out
    name = "-".join(x for x in (one["kind"].lower(), group.partition(".")[0], number) if x)
    path = need(kubernetes_schemas) / f"{version}-local-strict" / f"{name}.json"
    assert path.exists(), f"Kubernetes {version} knows no {one['apiVersion']} {one['kind']}"
    return json.loads(path.read_text(encoding="utf-8"))


@functools.cache
def registry(version):
    """The definitions that all schemas of a version refer to, in whatever folder."""
    path = need(kubernetes_schemas) / f"{version}-local-strict" / "_definitions.json"
    shared = referencing.Resource.from_contents(json.loads(path.read_text(encoding="utf-8")),
                                                default_specification=DRAFT7)
    return referencing.Registry(retrieve=lambda uri: shared)


def check(one, version):
    """Fails where Kubernetes would refuse an object, or would ignore a part of it."""
    validator = jsonschema.Draft7Validator(schema_of(one, version), registry=registry(version))
    wrong = [f"{'/'.join(str(x) for x in e.absolute_path)}: {e.message[:300]}"
             for e in validator.iter_errors(one)]
    assert not wrong, (one["kind"], one["metadata"]["name"], wrong)
