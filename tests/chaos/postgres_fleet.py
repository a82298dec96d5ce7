"""Brokers on PostgreSQL, engines and clients, all real processes. Each broker reaches the server
through a proxy of its own, and what has ended is started again."""
import subprocess

from commit_cutter import CommitCutter
from file_client import TEXT, FileClient
from postgres import PostgresServer
from postgres_load import Consumer, Producer
from programs import program
from wire import BrokerAt

REFUSED_TO_START = 3


class PostgresFleet:
    """`producers` beside the command that submits files; each pauses between its submits. What a
    dead broker or engine held runs again after two short leases."""

    def __init__(self, folder, brokers=3, engines=3, producers=1, pause_s=0.1, lease_ms=1000):
        self.folder = folder
        self.servers = [PostgresServer()]
        self.proxies, self.brokers, self.engines, self.clients = [], [], [], []
        self.started = 0
        try:
            self.brokers = [BrokerAt(folder, self.place(), "--lease-ms", lease_ms)
                            for _ in range(brokers)]
            self.engines = [self.engine(i) for i in range(engines)]
            endpoints = self.endpoints("clients")
            self.files = FileClient("c", folder, ",".join(endpoints))
            self.producers = [Producer(endpoints, f"p{i}", pause_s) for i in range(producers)]
            self.consumer = Consumer(endpoints)
            for client in [*self.producers, self.consumer]:
                client.start()
                self.clients.append(client)
        except BaseException:
            self.close()
            raise

    @property
    def server(self):
        """The one that takes writes."""
        return self.servers[-1]

    def place(self):
        """Where the next broker finds the ledger."""
        self.proxies.append(CommitCutter(self.server.folder / ".s.PGSQL.5432"))
        return (f"postgresql://millrace@127.0.0.1:{self.proxies[-1].port}/postgres"
                "?sslmode=disable&gssencmode=disable")

    def endpoints(self, socket, first=0):
        """Those of all brokers, from one on."""
        ring = self.brokers[first:] + self.brokers[:first]
        return [x.endpoint(socket) for x in ring]

    def engine(self, i):
        self.started += 1
        with open(self.folder / "engines.log", "ab") as log:
            return subprocess.Popen(
                [program("stub_engine"), "--broker",
                 ",".join(self.endpoints("engines", i % len(self.brokers))), "--name",
                 f"e{self.started}", "--text", TEXT, "--capacity", "12", "--rows", "8",
                 "--step-ms", "5", "--job-steps", "3"], stdout=subprocess.DEVNULL, stderr=log)

    def go_on(self, more=True):
        """Starts again what has ended. Returns whether a file is still under way."""
        for broker in self.brokers:
            if broker.process.poll() is not None:
                # Only one that is killed, or that finds no server when it starts, may end.
                assert broker.process.returncode in (-9, REFUSED_TO_START), self.tail_of_logs()
                broker.launch()
        for i, engine in enumerate(self.engines):
            if engine.poll() is not None:
                self.engines[i] = self.engine(i)
        return self.files.go_on(more)

    def tail_of_logs(self):
        return "\n".join(x.read_text()[-4000:] for x in (
            self.folder / "broker.log", self.server.folder / "server.log"))

    def close(self):
        for client in self.clients:
            client.ending.set()
        for client in self.clients:
            client.join()
        for broker in self.brokers:
            broker.close()
        for process in [*self.engines, self.files.process if self.clients else None]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        for proxy in self.proxies:
            proxy.close()
        for server in self.servers:
            server.close()
