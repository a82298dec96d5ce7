"""The chart of ops/helm: what it renders is what Kubernetes takes and what the programs take."""
import json
import re
import shutil
import subprocess

import pytest
import yaml
from rendered import (CHART, NAMESPACE, RELEASE, ROOT, SETS, SMALL, VERSIONS, check, of_kind,
                      pods_of, render, rendered, run_helm, template)

import programs
import table


@pytest.mark.parametrize("name", SETS)
def test_helm_finds_nothing_to_object_to(name):
    told = run_helm("lint", "--strict", CHART, "--namespace", NAMESPACE, values=SETS[name]).stdout
    assert "0 chart(s) failed" in told
    assert "[WARNING]" not in told and "[ERROR]" not in told, told


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SETS)
def test_kubernetes_takes_each_object(name, version):
    objects = render(SETS[name], "--kube-version", version)
    assert len({(x["kind"], x["metadata"]["name"]) for x in objects}) == len(objects)
    for one in objects:
        check(one, version)


def test_a_wrong_object_would_be_seen():
    broker = json.loads(json.dumps(of_kind(rendered("defaults"), "StatefulSet")))
    broker["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(AssertionError, match="livenesProbe"):
        check(broker, VERSIONS[0])
    scaled = json.loads(json.dumps(of_kind(rendered("everything"), "ScaledObject", "far")))
    scaled["spec"]["minReplicas"] = scaled["spec"].pop("minReplicaCount")
    with pytest.raises(AssertionError, match="minReplicas"):
        check(scaled, VERSIONS[0])


@pytest.mark.parametrize("name", SETS)
def test_pods_may_do_little(name):
    """The restricted profile of Kubernetes' pod security standards, and more."""
    for _, pod in pods_of(rendered(name)):
        security = pod["securityContext"]
        assert security["runAsNonRoot"] and security["runAsUser"] == security["fsGroup"] == 990
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        containers = [*pod["containers"], *pod.get("initContainers", [])]
        for container in containers:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]}}
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
        if "make-keys" not in pod.get("serviceAccountName", ""):
            assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        volumes = {x["name"] for x in pod["volumes"]} | \
            ({"ledger"} if "ledger" in str(containers) else set())
        assert {x["name"] for c in containers for x in c["volumeMounts"]} <= volumes


def options_of(program):
    told = subprocess.run([programs.program(program), "--help-all"], text=True,
                          capture_output=True, check=True).stdout
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", told, re.M))


@pytest.mark.parametrize("name", SETS)
def test_the_programs_know_their_options(name):
    known = {x: options_of(x) for x in ("millrace-broker", "millrace-engine")}
    seen = set()
    for _, pod in pods_of(rendered(name)):
        for container in pod["containers"]:
            program = container["command"][0]
            if program not in known:
                continue
            seen.add(program)
            for word in container["args"]:
                assert word.partition("=")[0] in known[program], word
    assert "millrace-broker" in seen


@pytest.mark.parametrize("name", [x for x in SETS if "ledger" not in str(SETS[x].get("broker"))
                                  or x == "everything"])
def test_the_broker_takes_its_command(name, tmp_path):
    """All of it, but for the places, which are those of the image."""
    container = of_kind(rendered(name), "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    done = subprocess.run([programs.program("millrace-broker"), *container["args"],
                           "--print-config"], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'place = "/var/lib/millrace/ledger"' in done.stdout
    assert 'clients = "tcp://0.0.0.0:5570"' in done.stdout


@pytest.mark.parametrize("name", SETS)
def test_programs_end_within_their_grace(name):
    for _, pod in pods_of(rendered(name)):
        words = dict(x.split("=", 1) for x in pod["containers"][0]["args"] if "=" in x)
        if "--drain-timeout" in words:
            drain = int(words["--drain-timeout"])
        elif "--drain-wait-ms" in words:
            drain = int(words["--drain-wait-ms"]) / 1000
            drain += int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
        else:
            continue
        assert pod["terminationGracePeriodSeconds"] >= drain + 30


def test_one_broker_has_a_ledger_of_its_own():
    broker = of_kind(rendered("defaults"), "StatefulSet")["spec"]
    assert broker["replicas"] == 1
    assert broker["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert broker["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert "volumeClaimTemplates" not in of_kind(rendered("existing claim"), "StatefulSet")["spec"]


def test_a_broker_of_a_database_has_no_password_in_its_command():
    broker = of_kind(rendered("postgresql"), "Deployment", "-broker")["spec"]
    assert broker["replicas"] == 2 and broker["strategy"]["type"] == "RollingUpdate"
    container = broker["template"]["spec"]["containers"][0]
    assert "--ledger=$(MILLRACE_LEDGER)" in container["args"]
    environment = {x["name"]: x for x in container["env"]}
    assert environment["PGPASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": "db",
                                                                      "key": "password"}
    assert environment["MILLRACE_LEDGER"]["value"].startswith("postgresql://millrace@db")
    other = of_kind(rendered("own keys"), "Deployment", "-broker")["spec"]["template"]["spec"]
    environment = {x["name"]: x for x in other["containers"][0]["env"]}
    assert environment["MILLRACE_LEDGER"]["valueFrom"]["secretKeyRef"]["name"] == "db-app"


def test_engines_get_what_their_device_needs():
    engines = {n: of_kind(rendered("everything"), "Deployment", f"engine-{n}")["spec"]
               for n in SETS["everything"]["engines"]}
    pods = {n: x["template"]["spec"] for n, x in engines.items()}
    containers = {n: x["containers"][0] for n, x in pods.items()}
    assert containers["small"]["image"] == "registry.example/team/millrace-engine:0.1.0"
    assert containers["large"]["image"] == "registry.example/team/millrace-engine-nvidia:0.1.0"
    assert containers["large"]["resources"]["limits"] == {"nvidia.com/gpu": 4, "memory": "64Gi"}
    assert pods["large"]["runtimeClassName"] == "nvidia" and "runtimeClassName" not in pods["small"]
    assert "--devices=all" in containers["large"]["args"]
    assert [x["containerPort"] for x in containers["large"]["ports"]] == [9465, 9466, 9467, 9468]
    assert not {"--devices=all", "--log-json"} - set(containers["large"]["args"]) - {"--log-json"}
    assert "--log-json" not in containers["large"]["args"], "false counts, too"
    assert "--drain-timeout=0" in containers["large"]["args"]
    assert "--devices=all" not in containers["split"]["args"]
    assert "--pipeline=all" in containers["split"]["args"]
    assert "--model-name=large" in containers["split"]["args"]
    assert "--model-name=large" in containers["large"]["args"]
    assert "replicas" not in engines["large"], "KEDA sets it"
    assert engines["small"]["replicas"] == 1
    assert of_kind(rendered("own keys"), "Deployment", "small")["spec"]["replicas"] == 0


def test_names_are_texts_whatever_they_look_like():
    objects = render({
        "http": {"ingress": {"enabled": True, "host": "*.example", "tlsSecret": "outer"}},
        "engines": {"odd": {"model": {"file": "a.gguf", "name": "a: b #1", "claim": "m"}}}})
    ingress = of_kind(objects, "Ingress")["spec"]
    assert ingress["rules"][0]["host"] == "*.example"
    assert ingress["tls"][0]["hosts"] == ["*.example"]
    engine = of_kind(objects, "Deployment", "odd")["spec"]["template"]["spec"]["containers"][0]
    assert "--model-name=a: b #1" in engine["args"]


def test_the_network_lets_in_who_is_named():
    policy = of_kind(rendered("everything"), "NetworkPolicy", "-broker")["spec"]
    by_port = {tuple(p["port"] for p in x["ports"]): x["from"] for x in policy["ingress"]}
    assert set(by_port) == {(5570, 5572, 8080), (5571,), (9464,)}
    assert by_port[5570, 5572, 8080] == SETS["everything"]["networkPolicy"]["clients"]
    assert {"ipBlock": {"cidr": "10.1.0.0/16"}} in by_port[5571,]
    engine = of_kind(rendered("everything"), "Deployment", "engine-small")
    labels = engine["spec"]["template"]["metadata"]["labels"].items()
    assert by_port[5571,][0]["podSelector"]["matchLabels"].items() <= labels
    assert policy["egress"] == []
    assert of_kind(rendered("postgresql"), "NetworkPolicy", "-broker")["spec"]["egress"] == [{}]
    assert not [x for x in rendered("own keys") if x["kind"] == "NetworkPolicy"]


def test_what_is_published_can_be_reached():
    def let_in(objects):
        policy = of_kind(objects, "NetworkPolicy", "-broker")["spec"]
        return {tuple(p["port"] for p in x["ports"]): x.get("from", "anybody")
                for x in policy["ingress"]}

    inside = let_in(rendered("defaults"))
    assert inside[5570, 5572, 8080] == [{"podSelector": {}}] and (8080,) not in inside
    outside = let_in(rendered("published"))
    assert outside[5570, 5572, 8080] == [{"podSelector": {}}]
    assert outside[8080,] == [{"namespaceSelector": {}}], "of the Ingress' controller"
    for kind in ("NodePort", "LoadBalancer"):
        service = let_in(render({"broker": {"service": {"type": kind}}}))
        assert service[5570, 5572, 8080] == "anybody" and service[5571,] != "anybody"


def test_the_broker_may_call_who_is_named():
    egress = {x: of_kind(rendered(x), "NetworkPolicy", "-broker")["spec"]["egress"]
              for x in ("defaults", "published")}
    assert egress["defaults"] == []
    *named, names = egress["published"]
    assert named == SETS["published"]["networkPolicy"]["egress"]
    assert [(x["port"], x["protocol"]) for x in names["ports"]] == [(53, "UDP"), (53, "TCP")]
    assert "to" not in names


def test_monitors_find_the_ports_of_the_pods():
    objects = rendered("everything")
    for part, ending in (("broker", "-broker"), ("engine", "engine-large")):
        kind = "StatefulSet" if part == "broker" else "Deployment"
        pod = of_kind(objects, kind, ending)["spec"]["template"]
        monitor = of_kind(objects, "PodMonitor", part)["spec"]
        assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        named = [x["name"] for x in pod["spec"]["containers"][0]["ports"]]
        assert [x["port"] for x in monitor["podMetricsEndpoints"]] == \
            [x for x in named if x.startswith("metrics")]
    rules = of_kind(objects, "PrometheusRule")["spec"]
    assert rules == yaml.safe_load((ROOT / "ops/metrics/alerts.yml").read_text(encoding="utf-8"))
    jobs = {x["replacement"] for p in ("broker", "engine")
            for x in of_kind(objects, "PodMonitor", p)["spec"]["podMetricsEndpoints"][0]
            ["relabelings"] if x["targetLabel"] == "job"}
    assert jobs == {"millrace-broker", "millrace-engine"}
    dashboard = of_kind(objects, "ConfigMap", "dashboard")["data"]["millrace.json"]
    assert json.loads(dashboard) == json.loads((ROOT / "ops/metrics/dashboard.json").read_text())


def test_the_query_of_the_scaler_asks_for_metrics_that_there_are(tmp_path):
    scaled = of_kind(rendered("everything"), "ScaledObject", "far")["spec"]
    query = scaled["triggers"][0]["metadata"]["query"]
    asked = set(re.findall(r"\bmillrace_\w+", query))
    declared = {m.name: set(m.labels) for m in table.declared("broker")}
    assert asked == {"millrace_queue_tokens", "millrace_leased_tokens"} and asked <= set(declared)
    for name, matchers in re.findall(r"(millrace_\w+)\{([^}]*)\}", query):
        labels = set(re.findall(r'(\w+)="', matchers))
        assert labels - {"namespace", "release"} <= declared[name]
    assert f'namespace="{NAMESPACE}",release="{RELEASE}",model_name="far"' in query
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps({"groups": [{"name": "g", "rules": [
        {"record": "x", "expr": query}]}]}))
    done = subprocess.run(["promtool", "check", "rules", rules], text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert scaled["minReplicaCount"] == 0


def test_the_version_is_that_of_the_programs():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    version = re.search(r"project\(millrace VERSION (\S+)",
                        (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    assert chart["appVersion"] == version


def test_the_defaults_are_explained_and_allowed():
    """Each default has a place in the schema, and each place but those of an engine a default."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def compare(value, part, where):
        if "properties" not in part:
            return
        absent = set(part["properties"]) ^ set(value)
        assert not absent - {"global"}, (where, absent)
        for key, inner in value.items():
            if isinstance(inner, dict):
                compare(inner, part["properties"][key], f"{where}.{key}")

    compare(values, schema, "values")
    engine = schema["properties"]["engines"]["additionalProperties"]["properties"]
    assert set(engine) - {"model"} == set(values["engineDefaults"])


def changed(path, value):
    """Values with one engine, in which one value is another."""
    out = json.loads(json.dumps({"engines": {"small": SMALL}}))
    place = out
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return out


@pytest.mark.parametrize("path, value, told", [
    (["broker", "replicas"], 2, "one broker serves a ledger in SQLite"),
    (["broker", "replica"], 2, "replica"),
    (["broker", "ledger", "kind"], "mysql", "kind"),
    (["broker", "ledger", "kind"], "postgresql", "give `url`, or in `urlSecret`"),
    (["broker", "ledger", "postgresql"], {"url": "postgresql://me:secret@db/x"}, "url"),
    (["broker", "ledger", "sqlite", "size"], "20 GB", "size"),
    (["broker", "ledger", "sqlite", "size"], "20", "size"),
    (["broker", "options"], ["--drain-wait-ms=5"], "the chart gives --drain-wait-ms itself"),
    (["engines", "small", "options"], ["--name=me"], "the chart gives --name itself"),
    (["broker", "ports", "clients"], 70000, "clients"),
    (["broker", "options"], ["--keep-results 7d"], "options"),
    (["broker", "tenants"], ["acme=3"], "tenants"),
    (["keys", "make"], False, "name the secrets `brokerSecret` and `engineSecret`"),
    (["engines", "small", "model"], {"file": "a.gguf"}, "give one of `claim`, `hostPath` and"),
    (["engines", "small", "model", "claim"], "models", "give one of `claim`, `hostPath` and"),
    (["engines", "small", "model", "file"], "../a.gguf", "file"),
    (["engines", "small", "device"], "amd", "device"),
    (["engines", "small", "scale"], {"enabled": True}, "scale needs prometheus.address"),
    (["engines", "small", "drainSeconds"], "2m", "drainSeconds"),
    (["engines", "Small_1"], SMALL, "Small_1"),
    (["engines", "far"], {"model": {"file": "a", "download": {
        "url": "https://a.example/a", "sha256": "123"}}}, "sha256"),
])
def test_bad_values_are_refused(path, value, told):
    done = template(changed(path, value), check=False)
    assert done.returncode != 0 and told in done.stderr, done.stderr


def test_what_the_notes_say(tmp_path):
    """helm shows them only when it installs, so a copy of the chart has them as an object."""
    shutil.copytree(CHART, tmp_path / "chart")
    notes = tmp_path / "chart" / "templates" / "NOTES.txt"
    text = notes.read_text(encoding="utf-8")
    notes.with_name("notes.yaml").write_text(
        '{{ define "notes" }}' + text + '{{ end }}\napiVersion: v1\nkind: ConfigMap\n'
        'metadata: {name: notes}\ndata: {notes: {{ include "notes" . | toJson }}}\n')
    for name in ("defaults", "own keys"):
        told = run_helm("template", RELEASE, tmp_path / "chart", "--namespace", NAMESPACE,
                        "--show-only", "templates/notes.yaml", values=SETS[name]).stdout
        said = yaml.safe_load(told)["data"]["notes"]
        assert f"{RELEASE}-millrace-broker:5570" in said
        assert ("No engine is configured" in said) == (name == "defaults")
        assert ("kubectl" in said) == (name == "defaults")
        assert ("unknown_model" in said) == (name == "defaults")
        if name == "defaults":
            assert said.index("umask 077") < said.index(">client.key")
        assert ("go-template={{index .data" in said) == (name == "defaults")
