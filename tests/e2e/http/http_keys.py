"""Keys of tenants, and clients with their tokens."""
import subprocess

import openai
from http_place import program


class Keys:
    def __init__(self, folder):
        self.home, self.folder = folder, folder / "keys"
        self.run("init", self.folder)

    def run(self, *words):
        done = subprocess.run([program("millrace"), "keys", *map(str, words)], text=True,
                              capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def new(self, name, tenant, roles):
        path = self.home / f"{name}.key"
        self.run("new", path, "--keys", self.folder, "--name", name, "--tenant", tenant, "--roles",
                 roles)
        return self.run("token", path)


def client_of(place, token):
    return openai.OpenAI(base_url=place.url + "/v1", api_key=token, max_retries=0)
