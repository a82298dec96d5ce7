"""How full engines and queues are, in `millrace status`: the figures are those of the results"""
import json
import subprocess

import pytest
from programs import completion, program, wait_until

SHARED = "The committee met in the old town hall, as it had done for many years, and read. " * 8


@pytest.fixture
def engine(broker, model):
    process = subprocess.Popen(
        [program("millrace-engine"), "--model", model, "--broker", broker.engines,
         "--kv-memory", "64M", "--max-batch", "4"], stderr=subprocess.DEVNULL)
    broker.processes.append(process)
    return process


def status(broker):
    return json.loads(broker.millrace("status", "-o", "json", expect=0).stdout)


def test_an_engine_tells_its_memory_and_its_tokens(broker, engine):
    jobs = broker.folder / "jobs.jsonl"
    jobs.write_text("".join(completion(f"j{i}", SHARED + str(i), max_tokens=8) + "\n"
                            for i in range(12)))
    done = broker.millrace("submit", str(jobs), "--any-model", "--wait", expect=0)
    usages = [json.loads(x)["response"]["body"]["usage"] for x in done.stdout.splitlines()]
    prompts = sum(x["prompt_tokens"] for x in usages)

    def told():  # by the heartbeat after the last job
        one = status(broker)["engines"][0]
        return (one["prompt_tokens"], one["completion_tokens"], one["rows"]) == (
            prompts, sum(x["completion_tokens"] for x in usages), 0)
    wait_until(told, "the tokens of all jobs")
    one = status(broker)["engines"][0]
    assert one["cached_tokens"] == sum(x["prompt_tokens_details"]["cached_tokens"]
                                       for x in usages) > 0
    assert one["completion_tokens"] == 96
    assert one["max_rows"] == 4 and one["kv_used_tokens"] == one["kv_used_bytes"] == 0, "idle"
    assert one["prefix_tokens"] > 100
    assert 0.9 * 64 * 2**20 < one["kv_pool_bytes"] <= 64 * 2**20
    assert one["kv_pool_tokens"] * one["kv_bytes_per_token"] == pytest.approx(
        one["kv_pool_bytes"], rel=0.01)
    text = broker.millrace("status", expect=0).stdout
    assert "rows 0 of 4" in text and "kv 0 of " in text and "came from it" in text


def test_queues_tell_tokens_and_the_age_of_the_oldest(broker):
    broker.processes.append(subprocess.Popen(
        [program("stub_engine"), "--broker", broker.engines, "--rows", "2", "--capacity", "3",
         "--step-ms", "200", "--job-steps", "100"], stderr=subprocess.DEVNULL))
    wait_until(lambda: status(broker)["engines"], "an engine")
    jobs = broker.folder / "jobs.jsonl"
    jobs.write_text("".join(completion(f"j{i}", "p" * 40, max_tokens=90) + "\n"
                            for i in range(10)))
    broker.millrace("submit", str(jobs), expect=0)
    wait_until(lambda: status(broker)["engines"][0]["rows"] == 2, "two rows")
    view = status(broker)
    (queue,) = view["queues"]
    assert (queue["queued"], queue["leased"]) == (7, 3)
    assert (queue["queued_tokens"], queue["leased_tokens"]) == (700, 300), "10 for each prompt"
    wait_until(lambda: status(broker)["queues"][0]["oldest_ms"] > 1500, "a second and a half")
    one = view["engines"][0]
    assert (one["max_rows"], one["waiting_jobs"], one["kv_pool_tokens"]) == (2, 1, 2 * 2048)
    wait_until(lambda: status(broker)["engines"][0]["kv_used_tokens"] > 2, "tokens of the rows")
    text = broker.millrace("status", expect=0).stdout
    assert "7 jobs queued, about 700 tokens; 3 jobs leased, about 300 tokens; the oldest" in text
    assert "rows 2 of 2, 1 job waits" in text
