"""A control plane of Kubernetes on this machine: etcd, the API server, controllers and scheduler.

The API server listens on the loopback interface alone and checks what real ones check: who asks
(RBAC), what a node may read, and the security of pods.
"""
import secrets
import subprocess

import requests
import yaml
from node import free_port
from programs import PATIENCE_S, stop_all, wait_until

NODE = "stand-in"
# Who has a token: users by short name, with their groups.
USERS = {"admin": ("admin", "system:masters"),
         "node": (f"system:node:{NODE}", "system:nodes"),
         "proxy": ("system:kube-proxy", ""),
         "kube-controller-manager": ("system:kube-controller-manager", ""),
         "kube-scheduler": ("system:kube-scheduler", "")}
MERGE = "application/strategic-merge-patch+json"


class Api:
    """The API server for one user."""

    def __init__(self, url, certificate, token):
        self.url, self.session = url, requests.Session()
        self.session.verify = str(certificate)
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {token}"

    def ask(self, verb, path, body=None, kind="application/json"):
        return self.session.request(verb, self.url + path, json=body, timeout=PATIENCE_S,
                                    headers={"Content-Type": kind})

    def call(self, verb, path, body=None, kind="application/json"):
        """What the API server answers; fails where it refuses."""
        answer = self.ask(verb, path, body, kind)
        assert answer.ok, f"{verb} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def get(self, path):
        return self.call("GET", path)


def kubeconfig(url, certificate, user):
    """The text of the file with which programs find the API server."""
    return yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {
            "server": url, "certificate-authority": str(certificate)}}],
        "users": [{"name": "here", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}]})


class ControlPlane:
    def __init__(self, folder, programs):
        self.folder, self.programs, self.processes = folder, programs, []
        self.url = f"https://127.0.0.1:{free_port()}"
        self.certificate = folder / "certificates" / "apiserver.crt"
        self.tokens = {name: secrets.token_hex(16) for name in USERS}
        self.configs = {name: folder / f"{name}.config" for name in USERS}
        for name, path in self.configs.items():
            path.write_text(kubeconfig(self.url, self.certificate, {"token": self.tokens[name]}))
            path.chmod(0o600)

    def api(self, user):
        return Api(self.url, self.certificate, self.tokens[user])

    def run(self, name, **options):
        words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen([self.programs[name], *words], cwd=self.folder, stderr=log,
                                       stdout=log)
        self.processes.append(process)
        return process

    def start(self):
        etcd, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.run("etcd", data_dir=self.folder / "etcd", listen_client_urls=etcd,
                 advertise_client_urls=etcd, listen_peer_urls=peer,
                 initial_advertise_peer_urls=peer, initial_cluster=f"default={peer}",
                 unsafe_no_fsync="true", log_level="warn")
        accounts = self.folder / "accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", accounts, "2048"], check=True,
                       capture_output=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text("".join(f'{self.tokens[x]},{user},{x},"{groups}"\n'
                                  for x, (user, groups) in USERS.items()))
        # Services have addresses that are for documentation: nothing is sent to them.
        server = self.run(
            "kube-apiserver", etcd_servers=etcd, bind_address="127.0.0.1",
            secure_port=self.url.rpartition(":")[2], cert_dir=self.certificate.parent,
            advertise_address="192.0.2.1", endpoint_reconciler_type="none",
            service_cluster_ip_range="198.51.100.0/24", token_auth_file=tokens,
            authorization_mode="Node,RBAC", enable_admission_plugins="NodeRestriction",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=accounts, service_account_signing_key_file=accounts)
        wait_until(lambda: server.poll() is not None or self.is_up(), "the API server")
        assert server.poll() is None, (self.folder / "kube-apiserver.log").read_text()[-3000:]
        common = {"leader_elect": "false", "secure_port": 0}
        self.run("kube-controller-manager", kubeconfig=self.configs["kube-controller-manager"],
                 service_account_private_key_file=accounts, root_ca_file=self.certificate,
                 use_service_account_credentials="true", **common)
        self.run("kube-scheduler", kubeconfig=self.configs["kube-scheduler"], **common)

    def is_up(self):
        try:
            return self.certificate.exists() and self.api("admin").ask("GET", "/readyz").ok
        except requests.ConnectionError:
            return False

    def kubectl(self, *words, text=None, check=True):
        done = subprocess.run(
            [self.programs["kubectl"], "--kubeconfig", self.configs["admin"], *words], text=True,
            input=text, capture_output=True, timeout=PATIENCE_S, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done

    def stop(self):
        stop_all(self.processes, 30)
