"""What the server sends for the page, and the feed that it reads."""
import urllib.error
import urllib.request

import pytest
from http_place import until
from page_place import jobs


def get(place, path, **headers):
    request = urllib.request.Request(place.url + path, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_files_are_small_whole_and_guarded(place):
    status, headers, body = get(place, "/")
    assert status == 200 and body.startswith(b"<!doctype html>")
    names = [x.split('"')[0] for x in body.decode().split('"/page/')[1:]]
    assert {"main.js", "mark.svg"} <= set(names)
    seen = len(body)
    for path in ["/", *(f"/page/{name}" for name in names)]:
        status, headers, body = get(place, path)
        policy = headers["Content-Security-Policy"]
        assert status == 200 and policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy and "*" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
        assert headers["Content-Type"].startswith(kind.get(path.rpartition(".")[2], "text/html"))
        again = get(place, path, **{"If-None-Match": headers["ETag"]})
        assert again[0] == 304 and again[2] == b"" and again[1]["ETag"] == headers["ETag"]
        assert get(place, path, **{"If-None-Match": '"other"'})[2] == body
        seen += len(body)
    assert get(place, "/page/nosuch.js")[0] == get(place, "/page/embed.cmake")[0] == 404


def test_the_feed_has_what_the_broker_says(place):
    before = place.get("/live")[1]
    assert before["engines"] == before["batches"] == before["latest"] == []
    assert before["counts"] == {name: 0 for name in before["counts"]}
    place.start_failing_engine("prompt 3")
    status = place.run_jobs(jobs(12, "one", "first"))
    live = until(lambda: (x := place.get("/live")[1])["counts"]["completed"] == 11 and x, "counts")
    assert live["counts"] == status["counts"]
    assert [x["tenant"] for x in live["queues"]] == ["default"]
    assert live["counts"]["failed"] == 1 and live["engines_known"] == 1
    assert live["engines"][0]["model"] == status["engines"][0]["model"]
    [batch] = live["batches"]
    assert batch["batch"] == "first" and batch["counts"] == live["counts"]
    assert live["streams"][0]["stream"] == "results" and live["streams"][0]["high"] == 12
    assert len(live["latest"]) == 12 and live["latest"][0]["number"] == 12
    [failed] = [x for x in live["latest"] if x["state"] == "failed"]
    assert failed["job"] == "one-003" and failed["error"]["message"] == "the stub fails it"
    assert all(x["ended_us"] >= x["submitted_us"] for x in live["latest"])
    assert live["times"]["results"] == 11 and live["times"]["total_ms"]["p50"] is not None


def test_samples_come_once(place):
    first = place.get("/live")[1]
    assert [x["time_us"] for x in first["samples"]] == [first["time_us"]]
    assert first["samples"][0]["jobs_per_second"] is None
    later = until(lambda: (x := place.get(f"/live?since={first['time_us']}")[1])["samples"] and x,
                  "second sample")
    assert later["samples"][0]["jobs_per_second"] == 0
    assert place.get("/live?since=99999999999999999")[1]["samples"] == []
    assert place.get("/live?since=")[1]["samples"][0] == first["samples"][0]
    for nonsense in ("nonsense", "1x", "1.5", "99999999999999999999"):
        status, error = place.get(f"/live?since={nonsense}")
        assert status == 400 and nonsense in error["error"]["message"], error
        assert "is no time_us" in error["error"]["message"]


def test_lists_of_jobs_and_one_job(place):
    place.start_failing_engine("prompt 1 of")
    place.run_jobs(jobs(3, "two", "second"))
    failed = place.get("/live/jobs?state=failed")[1]
    assert [x["job"] for x in failed["jobs"]] == ["two-001"] and failed["more"] is False
    assert failed["jobs"][0]["error"]["code"] == "context_exceeded"
    listed = place.get("/live/jobs?batch=second")[1]["jobs"]
    assert [x["job"] for x in listed] == ["two-000", "two-001", "two-002"]
    assert place.get("/live/jobs?state=nosuch")[0] == 400
    job = place.get("/live/jobs/two-002")[1]
    assert job["job"]["state"] == "completed" and job["usage"]["completion_tokens"] == 2
    assert job["choices"][0]["text"].startswith("answer to prompt 2 of two")
    events = [x["what"] for x in job["timeline"]]
    assert events[0] == "submitted" and events[-1] == "completed" and "taken" in events
    times = [x["time_us"] for x in job["timeline"]]
    assert times == sorted(times)
    status, error = place.get("/live/jobs/nosuch")
    assert status == 404 and "nosuch" in error["error"]["message"]
    with place.client() as client:
        client.submit({"id": "later", "prompt": "x", "model": "stub",
                       "not_before_us": 4_000_000_000_000_000})
    waiting = place.get("/live/jobs/later")[1]
    assert waiting["waits"] and waiting["timeline"][-1]["what"] == "waits_until"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_nothing_else_is_answered(place, method):
    for path in ("/", "/live", "/page/main.js"):
        request = urllib.request.Request(place.url + path, method=method, data=b"")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 405
