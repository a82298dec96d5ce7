"""The tables, the dashboard and the alert rules of ops/metrics fit the metrics of the programs."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "ops/metrics"
sys.path.insert(0, str(FOLDER))
import table  # noqa: E402

METRICS = {m.name: m for program in table.SOURCES for m in table.declared(program)}
SERIES = {series: m for m in METRICS.values() for series in m.series()}
OTHERS = {"up"}  # of Prometheus itself
OWN_LABELS = {"instance", "job", "le"}


def expressions():
    """Yields where each expression stands, and the expression."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["definition"]
    rules = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    for rule in re.split(r"\n\s+- alert: ", rules)[1:]:
        name, text = rule.split("\n", 1)
        yield f"alert {name}", re.search(r"expr: (?:>-)?(.*?)\n\s+(?:for|labels):", text, re.S)[1]


def complaints(expression):
    """Returns what an expression asks for that no program shows."""
    found = []
    for name, selector in re.findall(r"\b(millrace_\w+)(?:\{([^}]*)\})?", expression):
        if name not in SERIES:
            found.append(f"{name} is no metric")
            continue
        asked = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
        if wrong := asked - set(SERIES[name].labels) - OWN_LABELS:
            found.append(f"{name} has no label {', '.join(sorted(wrong))}")
    names = [SERIES[n] for n in re.findall(r"\b(millrace_\w+)", expression) if n in SERIES]
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        for label in (x.strip() for x in labels.split(",") if x.strip()):
            if label not in OWN_LABELS and not any(label in m.labels for m in names):
                found.append(f"nothing in it has the label {label}")
    return found


def test_the_tables_are_those_of_the_programs():
    text = table.README.read_text(encoding="utf-8")
    assert table.with_tables(text) == text, "run ops/metrics/table.py --write"
    assert len(METRICS) > 45


@pytest.mark.parametrize("program", table.SOURCES)
def test_every_declared_metric_is_on_the_page(program):
    text = (ROOT / table.SOURCES[program]).read_text(encoding="utf-8")
    declared = set(re.findall(r"Metric (\w+)\{", text))
    assert declared == {m.variable for m in table.declared(program)}


def test_names_follow_the_conventions_of_prometheus():
    for metric in METRICS.values():
        assert re.fullmatch(r"millrace_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not {"job", "batch", "key", "custom_id"} & set(metric.labels), metric.name
        assert metric.about.endswith("."), metric.name


def test_dashboard_and_rules_ask_for_what_the_programs_show():
    seen = list(expressions())
    assert len(seen) > 50
    assert not (wrong := [f"{where}: {x}" for where, e in seen for x in complaints(e)]), wrong


@pytest.mark.parametrize("expression, found", [
    ("rate(millrace_jobs_submited_total[5m])", ["millrace_jobs_submited_total is no metric"]),
    ('millrace_jobs{queue="a"}', ["millrace_jobs has no label queue"]),
    ("sum by (model) (millrace_jobs)", ["nothing in it has the label model"]),
    ("sum by (le) (rate(millrace_queue_time_seconds_bucket[5m]))", []),
    ("millrace_queue_time_seconds", ["millrace_queue_time_seconds is no metric"]),
])
def test_an_expression_that_asks_for_something_else_is_seen(expression, found):
    assert complaints(expression) == found


def test_every_alert_says_what_to_do():
    rules = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    alerts = rules.count("- alert:")
    assert alerts == rules.count("summary:") == rules.count("action:") == rules.count("severity:")


def test_promtool_takes_the_rules_and_the_configuration():
    for what, name in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(["promtool", "check", what, str(FOLDER / name)], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_fire_when_they_should():
    """promtool runs the rules over the values of alerts_test.yml."""
    cases = pathlib.Path(__file__).with_name("alerts_test.yml")
    text = cases.read_text(encoding="utf-8")
    rules = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    untried = [a for a in re.findall(r"- alert: (\w+)", rules) if f'alertname="{a}"' not in text]
    assert not untried, f"alerts_test.yml has no case for {untried}"
    done = subprocess.run(["promtool", "test", "rules", str(cases)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
