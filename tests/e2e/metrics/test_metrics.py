"""What a real broker and its engines show as metrics, and what a real Prometheus makes of it."""
import json
import subprocess
import urllib.error
import urllib.request

import millrace
import pytest
from scraped import ROOT, check_families, free_port, program, wait_until

TENANT = {"tenant": "default"}
MODEL = {"model_name": "stub"}


def test_jobs_that_end_well(place):
    place.start_engine()
    place.millrace("submit", place.jobs(20), "--wait", expect=0)
    place.millrace("submit", place.jobs(20), expect=0)  # known now
    place.millrace("results", "--cursor", "reader", expect=0)
    page = place.page()
    check_families(page, "broker")
    assert page.get("millrace_jobs", state="completed", **TENANT) == 20
    assert page.sum("millrace_jobs") == 20
    assert page.get("millrace_jobs_submitted_total", **TENANT) == 20
    assert page.get("millrace_jobs_deduplicated_total", **TENANT) == 20
    assert page.get("millrace_jobs_completed_total", **TENANT) == 20
    assert page.get("millrace_jobs_handed_out_total", **TENANT) == 20
    assert page.get("millrace_queue_time_seconds_count", **TENANT) == 20
    assert page.get("millrace_queue_oldest_age_seconds", **TENANT) == 0
    assert page.get("millrace_queue_tokens", model_name="stub", **TENANT) is None
    assert page.get("millrace_leased_tokens", **MODEL) == 0
    assert page.get("millrace_batches", state="finished", **TENANT) == 1
    assert page.get("millrace_stream_last_seq", stream="results", **TENANT) == 20
    assert page.get("millrace_cursor_lag", stream="results", consumer="reader", **TENANT) == 0
    assert page.get("millrace_sessions", role="engine") == 1
    for name in ("commit_seconds", "fsync_seconds", "wait_seconds", "commit_ops"):
        assert page.get(f"millrace_store_{name}_count") > 0, name
        assert page.get(f"millrace_store_{name}_sum") > 0, name
    assert page.get("millrace_store_bytes") > 4096
    assert page.get("millrace_store_wal_bytes") > 0
    assert page.get("millrace_store_free_bytes") > 0

    engine = place.engine_page()
    check_families(engine, "engine")
    assert engine.get("millrace_request_success_total", finished_reason="stop", **MODEL) == 20
    assert engine.get("millrace_generation_tokens_total", **MODEL) == 60
    assert engine.get("millrace_prompt_tokens_total", **MODEL) == 20
    assert engine.get("millrace_num_requests_running", **MODEL) == 0
    assert engine.get("millrace_num_requests_waiting", **MODEL) == 0
    for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time"):
        assert engine.get(f"millrace_{name}_seconds_count", **MODEL) == 20, name


def test_jobs_in_an_engine_run_or_wait(place):
    place.start_engine("stub_engine", "--rows", "2", "--step-ms", "3600000")
    place.millrace("submit", place.jobs(5), expect=0)
    held = ("millrace_num_requests_running", "millrace_num_requests_waiting")
    wait_until(lambda: sum(place.engine_page().get(name, **MODEL) for name in held) == 5,
               "the hand-out")
    wait_until(lambda: place.engine_page().get(held[0], **MODEL) > 0, "the step")
    # The step, which never ends, has as many jobs as had come when it began.
    running, waiting = (place.engine_page().get(name, **MODEL) for name in held)
    assert running in (1, 2) and running + waiting == 5
    assert place.page().get("millrace_jobs", state="leased", **TENANT) == 5
    # Prompts of 8 bytes count as 2 tokens, and answers at their longest.
    assert place.page().get("millrace_leased_tokens", **MODEL) == 5 * (2 + 16)


def test_what_waits_is_told_by_model(place):
    """By these figures engines are scaled."""
    place.start_engine().terminate()  # the model is known now
    wait_until(lambda: place.page().get("millrace_sessions", role="engine") == 0, "its leave")
    place.millrace("submit", place.jobs(3, "named", model="stub", max_tokens=100), expect=0)
    place.millrace("submit", place.jobs(2, "any", model="*", max_tokens=10), expect=0)
    page = place.page()
    for model, jobs, tokens in (("stub", 3, 102), ("*", 2, 12)):
        assert page.get("millrace_queue_jobs", model_name=model, **TENANT) == jobs
        assert page.get("millrace_queue_tokens", model_name=model, **TENANT) == jobs * tokens
    assert page.sum("millrace_leased_tokens") == 0
    place.millrace("pause", "--model", "stub", expect=0)
    assert place.page().get("millrace_queue_tokens", model_name="stub", **TENANT) is None


def test_jobs_that_end_otherwise(place):
    """Also what a restart of the broker changes: counters begin anew, the ledger's figures stay."""
    engine = place.engine(STUB_FAIL_ON="prompt 1")
    place.millrace("submit", place.jobs(3, "bad"), "--batch", "b", "--wait")
    page = place.page()
    assert page.get("millrace_jobs_failed_total", reason="context_exceeded", **TENANT) == 1
    assert page.get("millrace_jobs_completed_total", **TENANT) == 2
    assert page.get("millrace_batches", state="open", **TENANT) == 1
    place.millrace("retry", "--batch", "b", expect=0)
    wait_until(lambda: place.page().get("millrace_jobs_failed_total", reason="context_exceeded",
                                        **TENANT) == 2, "the second failure")
    assert place.page().get("millrace_jobs_retried_total", cause="request", **TENANT) == 1

    engine.terminate()
    wait_until(lambda: place.page().get("millrace_sessions", role="engine") == 0,
               "the engine's leave")
    place.millrace("submit", place.jobs(4, "later"), "--batch", "c", expect=0)
    wait_until(lambda: place.page().get("millrace_queue_oldest_age_seconds", **TENANT) > 0,
               "the age of the oldest job")
    place.millrace("cancel", "--batch", "c", expect=0)
    page = place.page()
    assert page.get("millrace_jobs_cancelled_total", **TENANT) == 4
    assert page.get("millrace_queue_oldest_age_seconds", **TENANT) == 0

    place.broker.terminate()
    place.broker.wait()
    place.start_scraped()
    page = place.page()
    assert page.get("millrace_jobs_cancelled_total", **TENANT) == 0
    assert page.get("millrace_jobs_failed_total", reason="context_exceeded", **TENANT) is None
    assert page.get("millrace_jobs", state="cancelled", **TENANT) == 4
    assert page.get("millrace_jobs", state="failed", **TENANT) == 1


def test_a_killed_engine_and_refused_jobs(place):
    engine = place.engine(STUB_ABORT_ON="prompt 0")
    place.millrace("submit", place.jobs(1), expect=0)
    engine.wait()
    wait_until(lambda: place.page().get("millrace_engines_died_total") == 1, "the engine's death")
    wait_until(lambda: place.page().get("millrace_lease_expired_total") == 1, "the lease's end")
    place.millrace("submit", place.jobs(2, "unknown", model="nosuch"))
    assert place.page().get("millrace_jobs_rejected_total", reason="unknown_model", **TENANT) == 2


def test_a_trace_leads_from_the_job_to_the_engines_log_and_the_result(place):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    place.start_engine("stub_engine", "--log-level", "debug", "--log-json")
    place.millrace("submit", place.jobs(2, metadata={"traceparent": trace}), "--wait", expect=0)
    with millrace.Client(place.clients) as client:
        results = list(client.results(follow=False))
    assert [x.metadata["traceparent"] for x in results] == [trace, trace]
    lines = [json.loads(x) for x in (place.folder / "engine.log").read_text().splitlines()]
    ids = sorted(x.job for x in results)
    for message in ("a job is taken up", "a job has ended"):
        told = [x for x in lines if x["message"] == message]
        assert sorted(x["job"] for x in told) == ids
        assert {x["traceparent"] for x in told} == {trace}
    assert {x["completion_tokens"] for x in lines if x["message"] == "a job has ended"} == {3}


def test_prometheus_takes_all_of_it(place, prometheus):
    engine = place.start_engine()
    prometheus.start({"millrace-broker": place.address, "millrace-engine": place.engine_address})
    place.millrace("submit", place.jobs(20), "--wait", expect=0)
    wait_until(lambda: prometheus.value("millrace_jobs_completed_total") == 20, "the scrape")
    wait_until(lambda: prometheus.value("sum(millrace_request_success_total)") == 20, "the other")
    assert prometheus.value("sum(up)") == 2
    assert prometheus.value("millrace_jobs{state='completed'}") == 20
    assert prometheus.value("millrace_stream_last_seq{stream='results'}") == 20
    assert prometheus.value("histogram_quantile(0.5, millrace_queue_time_seconds_bucket)") > 0
    assert prometheus.value(
        "histogram_quantile(0.99, millrace_e2e_request_latency_seconds_bucket)") > 0

    known = set(prometheus.ask("label/__name__/values"))
    shown = {name for page in (place.page(), place.engine_page()) for name, _ in page.values}
    assert shown <= known
    dashboard = json.loads((ROOT / "ops/metrics/dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "1m")
            for variable in ("$tenant", "$broker", "$model"):
                query = query.replace(variable, ".*")
            prometheus.ask("query", query=query)
    rules = prometheus.ask("rules")["groups"][0]["rules"]
    assert rules and not [r for r in rules if r["type"] != "alerting" or r.get("lastError")]

    engine.kill()
    wait_until(lambda: prometheus.value('ALERTS{alertname="MillraceDown"}') == 1, "the alert")


@pytest.mark.parametrize("name, options, code", [
    ("millrace-broker", ["--ledger", "memory:"], 3), ("stub_engine", [], 3)])
def test_addresses_that_cannot_be_used(tmp_path, name, options, code):
    words = [program(name), *options]
    if name == "millrace-broker":
        for option in ("--listen", "--listen-engines", "--listen-doorbell"):
            words += [option, f"ipc://{tmp_path}/{option[2:]}"]
    else:
        words += ["--broker", f"ipc://{tmp_path}/engines"]
    outside = subprocess.run([*words, "--metrics", "0.0.0.0:0"], capture_output=True, text=True,
                             check=False)
    assert outside.returncode == code and "other machines could reach" in outside.stderr
    assert "whoever can connect may read them" in outside.stderr
    nonsense = subprocess.run([*words, "--metrics", "here"], capture_output=True, text=True,
                              check=False)
    assert nonsense.returncode == 2, nonsense.stderr


def test_only_the_page_is_there(place):
    for path, method, status in (("/", "GET", 404), ("/metrics/x", "GET", 404),
                                 ("/metrics", "POST", 405)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"http://{place.address}{path}",
                                                          method=method))
        assert refused.value.code == status
    with pytest.raises(urllib.error.HTTPError):  # a name that a web page could point here
        urllib.request.urlopen(urllib.request.Request(f"http://{place.address}/metrics",
                                                      headers={"Host": "evil.example"}))


def test_engines_on_several_devices_have_consecutive_ports(place):
    port = free_port()
    engines = subprocess.Popen(
        [program("stub_engine"), "--model", "stub", "--broker", place.engines, "--devices",
         "0:0,0:1", "--metrics", f"127.0.0.1:{port}"])
    place.processes.append(engines)
    wait_until(lambda: place.page().get("millrace_sessions", role="engine") == 2, "both engines")
    for number in (port, port + 1):
        place.engine_address = f"127.0.0.1:{number}"
        assert place.engine_page().get("millrace_num_requests_running", **MODEL) == 0
