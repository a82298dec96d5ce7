"""A broker and engines that show their metrics, their pages, and a real Prometheus."""
import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

from programs import ROOT, Broker, completion, model_path, program, wait_until

sys.path.insert(0, str(ROOT / "ops/metrics"))
import table  # noqa: E402

LINE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


class Page:
    """A page of metrics, read."""

    def __init__(self, text):
        self.text = text
        self.kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
        self.about = dict(re.findall(r"^# HELP (\w+) (.+)$", text, re.M))
        self.values = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = LINE.fullmatch(line).groups()
            key = (name, frozenset(LABEL.findall(labels or "")))
            assert key not in self.values, f"{line} is there twice"
            self.values[key] = float(value)

    def get(self, name, **labels):
        """The value with these labels, or None."""
        return self.values.get((name, frozenset(labels.items())))

    def sum(self, name, **labels):
        """The sum of all values that have these labels, among others."""
        return sum(value for (named, theirs), value in self.values.items()
                   if named == name and theirs >= set(labels.items()))


def check_families(page, name):
    """Everything that the code declares is there, as it is declared, and nothing else."""
    declared = {m.name: m for m in table.declared(name)}
    assert page.kinds == {m.name: m.kind for m in declared.values()}
    assert page.about == {m.name: m.about for m in declared.values()}
    lint = subprocess.run(["promtool", "check", "metrics"], input=page.text, text=True,
                          capture_output=True, check=False)
    assert lint.returncode == 0 and not lint.stderr, lint.stdout + lint.stderr
    labels = {series: set(m.labels) for m in declared.values() for series in m.series()}
    for series, theirs in page.values:
        assert {label for label, _ in theirs} - {"le"} == labels[series], series


class Scraped(Broker):
    def __init__(self, folder):
        super().__init__(folder)
        self.address = f"127.0.0.1:{free_port()}"
        self.engine_address = f"127.0.0.1:{free_port()}"

    def start_scraped(self):
        self.start("--metrics", self.address)

    def page(self):
        return Page(get(f"http://{self.address}/metrics"))

    def engine_page(self):
        return Page(get(f"http://{self.engine_address}/metrics"))

    def start_engine(self, name="stub_engine", *options):
        process = subprocess.Popen(
            [program(name), "--broker", self.engines, "--metrics", self.engine_address, *options],
            stderr=open(self.folder / "engine.log", "ab"))
        self.processes.append(process)
        wait_until(lambda: json.loads(self.millrace("status", "--json").stdout)["engines"],
                   "the engine's hello")
        return process

    def jobs(self, count, name="jobs", **fields):
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(completion(f"{name}{i}", f"prompt {i}", **fields) + "\n"
                                for i in range(count)))
        return str(path)


class Prometheus:
    """The real one, which scrapes each second and has the rules of ops/metrics."""

    def __init__(self, folder):
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        self.process = None

    def start(self, targets):
        """Scrapes these addresses, by the names of their jobs."""
        shutil.copy(ROOT / "ops/metrics/alerts.yml", self.folder / "alerts.yml")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["alerts.yml"],
            "scrape_configs": [{"job_name": name, "static_configs": [{"targets": [target]}]}
                               for name, target in targets.items()]}
        path = self.folder / "prometheus.yml"
        path.write_text(json.dumps(config))  # which is YAML, too
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.folder / 'data'}",
             f"--web.listen-address={self.url.removeprefix('http://')}"],
            stderr=open(self.folder / "prometheus.log", "ab"))
        wait_until(self.ready, "the start of Prometheus")

    def ready(self):
        try:
            return "Ready" in get(self.url + "/-/ready")
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, path, **arguments):
        answer = json.loads(get(f"{self.url}/api/v1/{path}?" + urllib.parse.urlencode(arguments)))
        assert answer["status"] == "success", answer
        return answer["data"]

    def value(self, query):
        """The value of a query with one answer; None where it has none yet."""
        found = self.ask("query", query=query)["result"]
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else None

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        self.process.wait()


__all__ = ["Page", "Prometheus", "ROOT", "Scraped", "check_families", "free_port", "get",
           "model_path", "program", "wait_until"]
