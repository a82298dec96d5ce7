"""A real server of S3's protocol: moto's, from PyPI, which checks signatures and permissions.

It is kept in the cache folder. Run as a program, this sets a new server up: it makes a bucket and a
user who may use it, and prints the user's keys.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

from patience import PATIENCE_S
from pip_packages import installed

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") \
    / "millrace" / "s3"
BUCKET = "prefixes"
# The first calls set the server up and need no permission: a user, keys, a policy, a bucket.
CALLS_TO_SET_UP = 4


class Server:
    def __init__(self, folder):
        packages = installed(HERE / "requirements.txt", CACHE)
        paths = {"PYTHONPATH": os.pathsep.join([str(packages), str(HERE.parents[1])])}
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        with open(folder / "s3.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                env={**os.environ, **paths,
                     "INITIAL_NO_AUTH_ACTION_COUNT": str(CALLS_TO_SET_UP)},
                stdout=log, stderr=log)
        self.await_answer(port, folder / "s3.log")
        done = subprocess.run([sys.executable, __file__, self.endpoint], capture_output=True,
                              env={**os.environ, **paths}, text=True, check=False,
                              timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        self.environment = {**json.loads(done.stdout), "AWS_ENDPOINT_URL": self.endpoint}
        self.paths = paths

    def await_answer(self, port, log):
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                assert self.process.poll() is None, log.read_text()
                assert time.monotonic() < until, "the server does not listen"
                time.sleep(0.1)

    def ask(self, code):
        """Runs code with a client `s3` of the user; returns what it leaves in `out`."""
        script = ("import boto3, json, os\n"
                  "s3 = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'],"
                  " region_name='us-east-1')\n" + code + "\nprint(json.dumps(out))\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              env={**os.environ, **self.paths, **self.environment}, check=False,
                              timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def objects(self):
        """Returns the sizes of the bucket's objects by their keys."""
        return self.ask(f"out = {{x['Key']: x['Size'] for x in s3.list_objects_v2("
                        f"Bucket='{BUCKET}').get('Contents', [])}}")

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def set_up(endpoint):
    import boto3
    nobody = {"endpoint_url": endpoint, "region_name": "us-east-1",
              "aws_access_key_id": "nobody", "aws_secret_access_key": "nobody"}
    iam, s3 = boto3.client("iam", **nobody), boto3.client("s3", **nobody)
    iam.create_user(UserName="engines")
    keys = iam.create_access_key(UserName="engines")["AccessKey"]
    allowed = {"Effect": "Allow", "Resource": "*",
               "Action": ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"]}
    iam.put_user_policy(UserName="engines", PolicyName="prefixes", PolicyDocument=json.dumps(
        {"Version": "2012-10-17", "Statement": [allowed]}))
    s3.create_bucket(Bucket=BUCKET)
    return {"AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"]}


if __name__ == "__main__":
    print(json.dumps(set_up(sys.argv[1])))
