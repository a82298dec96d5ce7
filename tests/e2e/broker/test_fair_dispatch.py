"""Tenants share an engine on a real broker, whatever their queues hold; `--tenant` sets limits."""
import subprocess

import pytest
from keyed import KeyedBroker, Keys
from patience import PATIENCE_S
from wire import PROGRAM, Peer, end, job

ROLES = {"a": ("A", "submit,read"), "b": ("B", "submit,read"), "engine": ("*", "work")}


@pytest.fixture
def keys(tmp_path):
    keys = Keys(tmp_path)
    keys.of = {name: keys.new(name, *rights) for name, rights in ROLES.items()}
    return keys


@pytest.fixture
def start(tmp_path, keys):
    brokers = []

    def make(*options):
        brokers.append(KeyedBroker(tmp_path, keys, *options))
        return brokers[-1]
    yield make
    for broker in brokers:
        broker.close()


def join(context, broker, keys, key):
    engine = key == "engine"
    hello = {"role": "engine", "instance": key, "model": "m"} if engine else {"role": "client"}
    peer = Peer(context, broker.endpoint("engines" if engine else "clients"), keys.of[key],
                name=key, **hello)
    peer.join()
    return peer


def submit(client, prefix, count):
    for first in range(0, count, 1_000):
        client.ask("submit", jobs=[job(f"{prefix}{i}", model="*")
                                   for i in range(first, min(first + 1_000, count))])


class Rows:
    """An engine that holds a few jobs and ends them one by one, the oldest first."""

    def __init__(self, peer, rows):
        self.peer, self.held = peer, []
        peer.say("ready", credit=rows)
        self.fill(rows)

    def fill(self, rows):
        while len(self.held) < rows:
            self.held += [(x["lease"], x["job"]) for x in self.peer.wait("leases")["leases"]]

    def end_one(self):
        lease, name = self.held.pop(0)
        self.peer.say("ends", ends=[end(lease)])
        self.peer.say("ready", credit=1)
        self.fill(len(self.held) + 1)
        return name


def ends_until(rows, prefix, count):
    """How many jobs end until so many with this prefix have ended."""
    ended = 0
    while count:
        ended += 1
        count -= rows.end_one().startswith(prefix)
        assert ended < 1_000
    return ended


def test_ten_jobs_wait_for_no_more_than_their_share(start, keys, context):
    broker = start()
    a, b = join(context, broker, keys, "a"), join(context, broker, keys, "b")
    submit(a, "a", 20_000)
    rows = Rows(join(context, broker, keys, "engine"), 16)
    for _ in range(50):
        rows.end_one()
    submit(b, "b", 10)
    # The 16 jobs that the engine holds, then one of each tenant in turn, in turns of a few jobs.
    assert ends_until(rows, "b", 10) <= 16 + 2 * 10 + 16


def test_a_tenant_holds_no_more_leases_than_it_may(start, keys, context):
    broker = start("--tenant", "A:leases=3", "--tenant", "*:weight=2,queued=5")
    a, b = join(context, broker, keys, "a"), join(context, broker, keys, "b")
    submit(a, "a", 10)
    _, body = b.ask("submit", jobs=[job(f"b{i}", model="*") for i in range(6)])
    errors = [x["error"]["code"] for x in body["answers"] if x.get("error")]
    assert errors == ["overloaded"]
    engine = join(context, broker, keys, "engine")
    rows = Rows(engine, 8)
    names = [name for _, name in rows.held]
    assert sum(name.startswith("a") for name in names) == 3
    assert sum(name.startswith("b") for name in names) == 5


@pytest.mark.parametrize("options, says", [
    (["A"], "gives a tenant no limit"),
    (["A:weight=0"], "from 1 to 1000"),
    (["A:share=2"], 'no limit named "share"'),
    (["A:weight=2", "A:leases=3"], "given twice"),
])
def test_wrong_limits_are_refused_with_the_reason(tmp_path, options, says):
    words = [word for option in options for word in ("--tenant", option)]
    done = subprocess.run([PROGRAM, "--ledger", tmp_path / "ledger", *words], capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert says in done.stderr
