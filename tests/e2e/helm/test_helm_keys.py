"""The job that makes keys runs once: what the chart does where secrets are there already."""
import http.server
import json
import threading

import pytest
import yaml
from rendered import CHART, NAMESPACE, RELEASE, of_kind, rendered, run_helm

SECRETS = [f"{RELEASE}-millrace-{x}" for x in ("broker-keys", "engine-key", "client-key")]
ANSWERS = {
    "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "secrets", "kind": "Secret", "namespaced": True, "verbs": ["get"]}]},
}


@pytest.fixture
def cluster():
    """A server that answers what helm asks of a cluster that has the secrets in `there`."""
    there = set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.partition("?")[0]
            folder, _, name = path.rpartition("/")
            answer = ANSWERS.get(path)
            if folder == f"/api/v1/namespaces/{NAMESPACE}/secrets" and name in there:
                answer = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}}
            absent = {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                      "reason": "NotFound", "code": 404}
            body = json.dumps(answer or absent).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def install(*names):
        there.clear()
        there.update(names)
        return run_helm("template", RELEASE, CHART, "--namespace", NAMESPACE, "--dry-run=server",
                        "--kube-apiserver", f"http://127.0.0.1:{server.server_port}", check=False)

    yield install
    server.shutdown()
    thread.join()
    server.server_close()


def kinds(done):
    assert done.returncode == 0, done.stderr
    return [x["kind"] for x in yaml.safe_load_all(done.stdout) if x]


def test_keys_are_made_where_there_are_none(cluster):
    assert "Job" in kinds(cluster()) and "Job" not in kinds(cluster(*SECRETS))


@pytest.mark.parametrize("there", [SECRETS[:1], SECRETS[1:2], SECRETS[1:], SECRETS[:2]])
def test_secrets_that_would_not_match_are_refused(cluster, there):
    done = cluster(*there)
    assert done.returncode != 0
    assert f"kubectl --namespace {NAMESPACE} delete secret {' '.join(there)}" in done.stderr


def test_a_job_that_failed_is_not_tried_again():
    """A second pod would make other keys than those that the first one has put into a secret."""
    job = of_kind(rendered("defaults"), "Job", "make-keys")["spec"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"
