"""results --batch begins where the batch began: the test counts the entries that are fetched."""
import contextlib
import threading

import msgpack
import zmq
from patience import PATIENCE_S
from programs import millrace
from test_broker_commands import lines, write_jobs


@contextlib.contextmanager
def between(broker, folder):
    """Passes the messages of one client on, and yields its endpoint and the answers it got."""
    answers, ended = [], threading.Event()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as client, \
            context.socket(zmq.DEALER) as to_broker:
        client.linger = to_broker.linger = 0
        endpoint = f"ipc://{folder}/between"
        client.bind(endpoint)
        to_broker.connect(broker.clients)

        def pass_on():
            poller, peer = zmq.Poller(), None
            poller.register(client, zmq.POLLIN)
            poller.register(to_broker, zmq.POLLIN)
            while not ended.is_set():
                ready = dict(poller.poll(50))
                if client in ready:
                    peer, frame = client.recv_multipart()
                    to_broker.send(frame)
                if to_broker in ready:
                    frame = to_broker.recv()
                    answers.append(msgpack.unpackb(frame))
                    client.send_multipart([peer, frame])

        thread = threading.Thread(target=pass_on)
        thread.start()
        try:
            yield endpoint, answers
        finally:
            ended.set()
            thread.join(PATIENCE_S)


def read(broker, *words):
    """Returns the output of a command, and how many entries its broker sent it."""
    with between(broker, broker.folder) as (endpoint, answers):
        done = millrace("results", *words, "--broker", endpoint)
    assert done.returncode == 0, done.stderr
    entries = sum(len(x["body"]["entries"]) for x in answers if x["kind"] == "data")
    return lines(done.stdout), entries


def test_results_of_a_batch_are_read_from_where_it_began(broker):
    broker.engine()
    for name, count in (("early", 30), ("mine", 4), ("late", 3)):
        broker.millrace("submit", write_jobs(broker, count), "--batch", name, "--wait", expect=0)
    everything, entries = read(broker)
    assert (len(everything), entries) == (37, 37)
    mine, entries = read(broker, "--batch", "mine")
    assert mine == everything[30:34]
    assert entries == 7, "those of the batch and what came after it"
    assert read(broker, "--batch", "mine", "--from", "1") == (mine, 37)
    assert read(broker, "--batch", "early") == (everything[:30], 37)
