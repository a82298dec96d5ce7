"""A private PostgreSQL server, which tests kill and start again, and a pooler in front of one."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from patience import PATIENCE_S

BIN = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), default="",
          key=lambda x: int(x.parent.name))
PATH = f"{BIN}:{os.environ['PATH']}"
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "support/postgres_server"


def unprivileged(folder, words):
    """A command for a user without rights, where root gives it; the folder is that user's."""
    if os.getuid() != 0:
        return words
    shutil.chown(folder, "postgres")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]


class PostgresServer:
    def __init__(self, *settings, primary=None):
        # The paths of sockets are short (107 bytes), pytest's folders are not.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mr-pg-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.settings = settings
        if primary:
            self.copy(primary)
        self.script = None
        self.url = None
        self.start()

    def start(self):
        """Starts the server, as soon as nothing is left of one that was killed."""
        until = time.monotonic() + PATIENCE_S
        while True:
            self.script = subprocess.Popen([SCRIPT, self.folder, *self.settings], text=True,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.url = self.script.stdout.readline().strip()
            if self.url:
                return
            self.stop()
            assert time.monotonic() < until, (self.folder / "server.log").read_text()

    def copy(self, primary):
        """Takes a copy of a server's data, and follows it when it is started."""
        words = ["pg_basebackup", "-h", primary.folder, "-U", "millrace", "-R", "-c", "fast", "-D",
                 self.folder / "data"]
        subprocess.run(unprivileged(self.folder, words), check=True, cwd=self.folder,
                       env={**os.environ, "PATH": PATH})

    def run(self, statement):
        done = subprocess.run(["psql", "-h", self.folder, "-U", "millrace", "-Atqc", statement,
                               "postgres"], check=True, capture_output=True, text=True,
                              env={**os.environ, "PATH": PATH})
        return done.stdout.strip()

    def postmaster(self):
        return int((self.folder / "data/postmaster.pid").read_text().split("\n")[0])

    def children(self):
        first = self.postmaster()
        words = pathlib.Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [int(x) for x in words]

    def signal(self, number):
        """Sends every process of the server a signal."""
        for process in (self.postmaster(), *self.children()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.stop()

    @contextlib.contextmanager
    def frozen(self):
        """A server whose connections stand and that says nothing."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def stop(self):
        self.script.stdin.close()
        self.script.stdout.close()
        self.script.wait(PATIENCE_S)

    def close(self):
        if self.script.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def synchronous_standby(primary):
    """A server whose disk holds each commit of the primary before it is acknowledged."""
    standby = PostgresServer(primary=primary)
    primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.run("SELECT pg_reload_conf()")
    until = time.monotonic() + PATIENCE_S
    follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    while primary.run(follows) != "1":
        assert time.monotonic() < until
        time.sleep(0.05)
    return standby


class Pooler:
    """PgBouncer, which gives each transaction whichever connection to the server is free."""

    def __init__(self, server):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mr-pool-", dir="/tmp"))
        self.folder.chmod(0o755)
        settings = self.folder / "settings"
        settings.write_text(f"""
            [databases]
            postgres = host={server.folder} user=millrace pool_size=2
            [pgbouncer]
            pool_mode = transaction
            auth_type = any
            listen_port = 6432
            unix_socket_dir = {self.folder}
            logfile = {self.folder}/log
        """.replace("            ", ""))
        words = unprivileged(self.folder, ["/usr/sbin/pgbouncer", settings])
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while not (self.folder / ".s.PGSQL.6432").exists():
            assert self.process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        self.url = f"postgresql:///postgres?host={self.folder}&port=6432&user=millrace"

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
