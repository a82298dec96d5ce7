import sys
import pathlib

import pytest
import zmq

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from wire import Broker, Peer  # noqa: E402


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
