"""Submitting: one job and many, known ids, refusals, and backpressure."""
import threading
import time

import millrace
import numpy
import pytest
from millrace import _submitter, errors


def test_a_job_is_submitted_and_its_result_read(client):
    receipt = client.submit("The sea", max_tokens=4, stream="mine", custom_id="c")
    assert receipt.ok and receipt.state == "queued" and not receipt.known
    result = next(client.results("mine"))
    assert (result.job, result.custom_id, result.number) == (receipt.job, "c", 1)
    assert result.ok and result.text == "a stub's answer"
    assert client.wait(receipt).job == client.wait(receipt.job).job == receipt.job


def test_prompts_may_be_texts_chats_tokens_and_jobs(client):
    prompts = ["text", [{"role": "user", "content": "Hi"}], [1, 2], numpy.array([1, 2], "uint32"),
               {"prompt": "x", "logit_bias": {7: -100.0}, "metadata": {"a": "b"}}]
    results = list(client.map(prompts))
    assert [r.ok for r in results] == [True] * 5, [r.error for r in results]
    assert results[4].metadata == {"a": "b"} and results[4].item is prompts[4]
    with pytest.raises(errors.InvalidValueError, match="is no job"):
        client.submit(7)


def test_a_known_id_is_told_and_another_body_refused(client):
    assert not client.submit({"id": "a", "prompt": "x"}).known
    assert client.submit({"id": "a", "prompt": "x"}).known
    with pytest.raises(errors.ConflictError) as caught:
        client.submit({"id": "a", "prompt": "y"})
    assert caught.value.status == 409 and caught.value.hint


def test_a_bad_job_is_refused_alone_and_says_why(client):
    told = []
    jobs = ["good", {"prompt": "bad", "temperature": -1.0}, {"prompt": object()}, "good too"]
    summary = client.submit_many(jobs, on_receipt=told.append, stream="s")
    assert (summary.stored, summary.refused) == (2, 2)
    assert [receipt.index for receipt in told] == [0, 1, 2, 3]
    assert [receipt.error.code for receipt in told if not receipt.ok] == ["invalid_value"] * 2
    assert "temperature" in told[1].error.message and "job 2" in told[2].error.message
    with pytest.raises(errors.InvalidValueError):
        summary.raise_for_error()
    assert len(list(client.results("s", limit=2))) == 2


@pytest.mark.parametrize("bad, why", [
    (None, "None is no job"), (float("nan"), "nan is no job"), (7, "7 is no job"),
    ([], r"\[\] is no job"), (numpy.array(7), "is no job"),
    ({"prompt": "x", "logit_bias": {"z": 1}}, "logit_bias has the key 'z'"),
    ({"prompt": "x", "logit_bias": {float("inf"): 1}}, "logit_bias has the key inf"),
])
def test_what_is_no_job_is_refused_alone_and_says_why(client, bad, why):
    items = ["one", bad, "three"]
    summary = client.submit_many(items, stream="s")
    assert (summary.stored, summary.refused) == (2, 1)
    receipts, results = list(client.submit_each(items, stream="s")), list(client.map(items))
    for answers in (receipts, results):
        assert [(one.index, one.ok) for one in answers] == [(0, True), (1, False), (2, True)]
        assert isinstance(answers[1].error, errors.InvalidValueError)
        with pytest.raises(errors.InvalidValueError, match="job 1: .*" + why):
            raise answers[1].error
    assert [result.item for result in results] == items
    unordered = {result.index: result.ok for result in client.map(items, ordered=False)}
    assert unordered == {0: True, 1: False, 2: True}
    if bad is not None:  # else the fields are the job
        with pytest.raises(errors.InvalidValueError, match=why):
            client.submit(bad)


@pytest.mark.parametrize("name", [["a"], 7])
def test_an_id_that_is_no_text_is_refused_alone(client, name):
    items = ["one", {"prompt": "x", "id": name}, "three"]
    for answers in (list(client.submit_each(items)), list(client.map(items))):
        assert [(one.index, one.ok) for one in answers] == [(0, True), (1, False), (2, True)]
        assert isinstance(answers[1].error, errors.InvalidValueError)


def test_many_that_are_no_jobs_end_in_their_order(client):
    items = ["x" if i % 500 == 0 else None for i in range(3_000)]
    assert client.submit_many(items, stream="s").refused == 2_994
    results = list(client.map(items, window=100))
    assert [(one.index, one.ok) for one in results] == [(i, i % 500 == 0) for i in range(3_000)]


def test_an_unknown_model_and_an_unknown_field(client):
    with pytest.raises(errors.UnknownModelError) as caught:
        client.submit("x", model="nosuch")
    assert "nosuch" in str(caught.value)
    with pytest.raises(errors.UnknownFieldError):
        client.submit("x", nosuch=1, strict=True)


@pytest.mark.parametrize("characters, count, most", [
    (1, 20_000, (_submitter.MESSAGES + 1) * _submitter.JOBS_PER_MESSAGE),
    # Here a message is full by its bytes. One that is gathered may have one job too many.
    (20_000, 1_000, (_submitter.MESSAGES + 1) * (_submitter.BYTES_PER_MESSAGE // 20_000 + 1)),
])
def test_a_source_is_read_no_faster_than_the_broker_stores(place, client, characters, count, most):
    """The broker is stopped, so that it stores nothing: only a few messages are read ahead."""
    place.broker.send_signal(19)  # SIGSTOP
    read = []

    def jobs():
        for number in range(count):
            read.append(number)
            yield {"prompt": "x" * characters, "id": str(number)}

    done = []
    thread = threading.Thread(target=lambda: done.append(client.submit_many(jobs())), daemon=True)
    thread.start()
    last = -1
    while len(read) != last or not read:  # until it stands still
        last = len(read)
        time.sleep(0.3)
    assert 0 < len(read) <= most
    place.broker.send_signal(18)  # SIGCONT
    thread.join()
    assert done[0].stored == count


def test_jobs_that_wait_are_sent_again_in_messages_that_a_frame_holds():
    items = [(number, b"x" * 300_000) for number in range(20)] + [(20, b"x" * 5_000_000)]
    messages = list(_submitter.messages_of(items))
    assert [item for message in messages for item in message] == items
    sizes = [sum(len(packed) for _, packed in message) for message in messages]
    assert max(sizes[:-1]) <= _submitter.BYTES_PER_MESSAGE and len(messages[-1]) == 1
    small = [(number, b"x") for number in range(2500)]
    assert [len(message) for message in _submitter.messages_of(small)] == [1000, 1000, 500]


class Broker:
    """Stands in for the link: refuses each message for want of room a few times."""

    welcome = millrace._states.Welcome({})

    def __init__(self, refusals):
        self.refusals, self.jobs = refusals, []

    def ask(self, kind, body):
        import msgpack
        from concurrent.futures import Future
        jobs = msgpack.unpackb(body)["jobs"]
        answer = Future()
        if self.refusals:
            self.refusals -= 1
            answer.set_exception(errors.OverloadedError("full", retry_ms=1))
            return answer
        # Of a message that is stored the last job is put off once more.
        put_off = {"error": {"code": "disk_full", "message": "full", "retry_ms": 1}}
        kept = jobs[:-1] if len(jobs) > 1 else jobs
        self.jobs += kept
        answer.set_result(("submitted", {"answers": [
            *({"job": job["id"], "state": "queued"} for job in kept),
            *([put_off] if len(jobs) > 1 else [])]}))
        return answer


def test_what_the_broker_has_no_room_for_is_sent_again(monkeypatch):
    from millrace._flow import iterate
    from millrace._flows import submit_each
    monkeypatch.setattr(_submitter, "PAUSE_S", 0.001)
    broker = Broker(refusals=3)
    jobs = [{"id": str(number), "prompt": "x"} for number in range(2500)]
    receipts = list(iterate(submit_each(broker, jobs, {})))
    assert [receipt.job for receipt in receipts] == [job["id"] for job in jobs]
    assert sorted(job["id"] for job in broker.jobs) == sorted(job["id"] for job in jobs)
    assert all(receipt.ok for receipt in receipts)


def test_a_job_that_is_too_large_is_refused_alone(client):
    receipts = list(client.submit_each(["a", "x" * (9 * 2 ** 20), "b"]))
    assert [receipt.ok for receipt in receipts] == [True, False, True]
    assert receipts[1].error.code == "too_large" and "job 1" in receipts[1].error.message
    with pytest.raises(errors.TooLargeError, match="this cancel"):
        client.cancel(["x" * 200] * 100_000)
    for one in ("a text", {"prompt": "x"}):
        with pytest.raises(errors.UsageError, match="one job, not many"):
            client.submit_many(one)


def test_a_fork_is_told_to_make_its_own_client(client, monkeypatch):
    monkeypatch.setattr(client._link, "_pid", 1)
    with pytest.raises(errors.UsageError, match="fork"):
        client.submit("x")


def test_jobs_are_cancelled_retried_and_dropped(client):
    receipts = [client.submit("x", id=name, not_before_us=2 ** 60) for name in "abc"]
    assert client.cancel(receipts[:1])["cancelled"] == 1
    assert client.cancel("b")["cancelled"] == 1
    assert client.status(job="c").state == "queued" and client.status(job="a").state == "cancelled"
    assert client.retry(["a"])["not_failed"] == 1 and client.drop("a")["not_failed"] == 1
    with pytest.raises(errors.CancelledError):
        client.wait("a").raise_for_error()
    with pytest.raises(errors.UsageError):
        client.cancel()
    with pytest.raises(errors.NotFoundError):
        client.status(job="nosuch")


def test_batches_are_listed_and_closed(client):
    client.submit_many(["x", "y"], batch="evening", stream="s")
    assert {r.batch for r in client.results("s", batch="evening", limit=2)} == {"evening"}
    client.close_batch("evening", {"who": "me"})
    one, = client.batches()
    assert (one.batch, one.closed, one.metadata) == ("evening", True, {"who": "me"})
    assert client.counts("evening").completed == 2
    with pytest.raises(errors.BatchClosedError):
        client.submit("z", batch="evening")
