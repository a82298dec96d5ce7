"""What the real engine shows as metrics, against the usage that its results tell."""
import json

from scraped import check_families, model_path


def test_the_real_engine(place):
    place.start_engine("millrace-engine", "--model", model_path(), "--model-name", "real",
                       "--kv-memory", "64MiB", "--max-batch", "8")
    shared = "The sea is blue and wide, and the ships are small. " * 20
    lines = [json.dumps({"custom_id": str(i), "url": "/v1/completions", "method": "POST",
                         "body": {"prompt": shared + str(i), "max_tokens": 8, "temperature": 0,
                                  "ignore_eos": True}}) for i in range(6)]
    path = place.folder / "real.jsonl"
    # The second file finds the beginning of its prompts in the prefix cache.
    for part in (lines[:3], lines[3:]):
        path.write_text("\n".join(part) + "\n")
        place.millrace("submit", str(path), "--wait", expect=0)
    results = [json.loads(x) for x in place.millrace("results", expect=0).stdout.splitlines()]
    usages = [x["response"]["body"]["usage"] for x in results]
    assert len(usages) == 6
    page = place.engine_page()
    check_families(page, "engine")
    real = {"model_name": "real"}
    generated = sum(u["completion_tokens"] for u in usages)
    cached = sum(u.get("prompt_tokens_details", {}).get("cached_tokens", 0) for u in usages)
    prompts = sum(u["prompt_tokens"] for u in usages)
    assert generated == 48 and cached > 0
    assert page.get("millrace_generation_tokens_total", **real) == generated
    assert page.get("millrace_prompt_tokens_total", **real) == prompts
    assert page.get("millrace_prefix_cache_queries_total", **real) == prompts
    assert page.get("millrace_prefix_cache_hits_total", **real) == cached
    assert page.get("millrace_inter_token_latency_seconds_count", **real) == generated - 6
    assert page.get("millrace_inter_token_latency_seconds_sum", **real) > 0
    assert page.get("millrace_request_success_total", finished_reason="length", **real) == 6
    for name in ("time_to_first_token", "e2e_request_latency", "request_queue_time"):
        assert page.get(f"millrace_{name}_seconds_count", **real) == 6, name
    assert 0 <= page.get("millrace_kv_cache_usage_perc", **real) <= 1
    assert page.get("millrace_num_requests_running", **real) == 0
