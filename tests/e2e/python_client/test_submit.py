"""Submitting: one job and many, ids that are known, refusals, and backpressure."""
import millrace
import pytest
from millrace import errors


def test_a_job_is_submitted_and_its_result_read(client):
    receipt = client.submit("The sea", max_tokens=4, stream="mine", custom_id="c")
    assert receipt.ok and receipt.state == "queued" and not receipt.known
    result = next(client.results("mine"))
    assert (result.job, result.custom_id, result.number) == (receipt.job, "c", 1)
    assert result.ok and result.text == "a stub's answer"
    assert result.choices[0].tokens.dtype == "uint32"


def test_a_known_id_is_told_and_another_body_refused(client):
    assert not client.submit({"id": "a", "prompt": "x"}).known
    assert client.submit({"id": "a", "prompt": "x"}).known
    with pytest.raises(errors.ConflictError) as caught:
        client.submit({"id": "a", "prompt": "y"})
    assert caught.value.status == 409 and caught.value.hint
