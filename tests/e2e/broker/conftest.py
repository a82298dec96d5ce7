import sys
import pathlib

import pytest
import zmq

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from keyed import KeyedBroker, Keys  # noqa: E402
from postgres import PostgresServer  # noqa: E402
from wire import Broker, BrokerAt, Peer  # noqa: E402


@pytest.fixture
def context():
    context = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def broker(tmp_path):
    broker = Broker(tmp_path)
    yield broker
    broker.close()


@pytest.fixture
def server():
    """A PostgreSQL that is the test's alone."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def broker_at(tmp_path):
    """Starts brokers whose ledgers are at the places that it is given."""
    brokers = []

    def start(place, *options):
        brokers.append(BrokerAt(tmp_path, place, *options))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


@pytest.fixture
def client(broker, context):
    peer = Peer(context, broker.endpoint("clients"), role="client", name="test")
    peer.join()
    return peer


@pytest.fixture
def engine(broker, context):
    peer = Peer(context, broker.endpoint("engines"), role="engine", name="engine",
                instance="engine-1", model="m")
    peer.join()
    return peer


@pytest.fixture
def keys(tmp_path):
    """A broker's folder of keys with two clients of the tenant `a`, `one` and `two`."""
    keys = Keys(tmp_path)
    keys.one, keys.two = (keys.new(name, "a", "submit,read") for name in ("one", "two"))
    return keys


@pytest.fixture
def keyed_broker(tmp_path, keys):
    broker = KeyedBroker(tmp_path, keys)
    yield broker
    broker.close()
