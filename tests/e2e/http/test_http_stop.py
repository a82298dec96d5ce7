"""A broker that stops answers what it can, says no to the rest, and leaves no jobs behind."""
import json
import threading

from http_place import HELLO, Place, until


def test_a_stop_answers_or_refuses_every_request(make_place):
    # One job at a time: the wait is long enough for the first, and not for all six.
    place = make_place("--drain-wait-ms", "5000")
    engine = place.start_engine("--capacity", "1", "--rows", "1", "--step-ms", "2000", "--text",
                                "told")
    answers, threads = [], []

    def ask():
        status, body, _ = place.post("/v1/chat/completions", {"messages": HELLO})
        answers.append((status, json.dumps(body)))
    for _ in range(6):
        threads.append(threading.Thread(target=ask))
        threads[-1].start()
    until(lambda: len(place.jobs("leased")) + len(place.jobs("queued")) == 6, "jobs")
    place.broker.terminate()
    for thread in threads:
        thread.join()
    assert place.broker.wait() == 0
    engine.terminate()
    engine.wait()
    told = [body for status, body in answers if status == 200]
    refused = [body for status, body in answers if status == 503]
    assert told and refused and len(told) + len(refused) == 6, answers
    assert all("told" in x for x in told) and all("draining" in x for x in refused)
    again = Place(place.folder).start_broker()
    try:
        assert not again.jobs("queued") and not again.jobs("leased")
        assert len(again.jobs("completed")) == len(told)
    finally:
        again.close()
