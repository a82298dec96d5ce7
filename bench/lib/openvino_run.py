"""Makes one OpenVINO GenAI measurement. Runs in the Python that bench/openvino.sh prints.

    python openvino_run.py '{"model": "M.gguf", "kv": "f16", "threads": 2, "rows": 8,
                             "prompt": 128, "output": 128, "prompt_run": true,
                             "vocabulary": 49152}'

The continuous-batching back end reads the GGUF file and runs steps of 2,048 tokens, without prefix
cache, greedily, ignoring end-of-text. After a warm-up it runs the rows' prompts with one token
each, unless `prompt_run` is false, and then with `output` tokens. Prints one JSON object: the times
of both runs, and the pipeline's own record of the second: when each step ended, and how many tokens
it drew. If the back end cannot read the file, the object holds its reason as `refused`.
"""
import json
import sys
import time

import numpy as np
import openvino
import openvino_genai


def prompts(rows, count, vocabulary):
    """The token ids that bench/engine/engine_bench.cpp gives its jobs."""
    row = np.arange(rows, dtype=np.int64)[:, None] * 7919
    position = np.arange(count, dtype=np.int64)[None, :] * 104729
    return 1000 + ((row + position) % 2**32) % (vocabulary - 1000)


def generate(pipe, ids, output):
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = output
    config.ignore_eos = True
    config.do_sample = False
    config.apply_chat_template = False
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(np.ascontiguousarray(ids)),
                                            openvino.Tensor(np.ones_like(ids)))
    begin = time.monotonic()
    result = pipe.generate(inputs, config)
    seconds = time.monotonic() - begin
    made = [len(tokens) for tokens in result.tokens]
    if made != [output] * len(ids):
        sys.exit(f"asked for {output} tokens in each of {len(ids)} rows, got {made}")
    return seconds, result.perf_metrics.raw_metrics


def main():
    spec = json.loads(sys.argv[1])
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = 2048
    scheduler.enable_prefix_caching = False
    scheduler.cache_size = 4  # GB
    properties = {"INFERENCE_NUM_THREADS": spec["threads"]}
    if spec["kv"] != "default":
        properties["KV_CACHE_PRECISION"] = spec["kv"]
    begin = time.monotonic()
    try:
        pipe = openvino_genai.LLMPipeline(spec["model"], "CPU", scheduler_config=scheduler,
                                          **properties)
    except Exception as error:  # whatever it raises says that it does not run the file
        print(json.dumps({"refused": f"{type(error).__name__}: {error}",
                          "version": openvino_genai.__version__}))
        return
    load_s = time.monotonic() - begin
    generate(pipe, prompts(min(spec["rows"], 16), min(spec["prompt"], 128),
                           spec["vocabulary"]), 4)
    ids = prompts(spec["rows"], spec["prompt"], spec["vocabulary"])
    prompt_s = generate(pipe, ids, 1)[0] if spec["prompt_run"] else None
    total_s, raw = generate(pipe, ids, spec["output"])
    print(json.dumps({"load_s": load_s, "prompt_s": prompt_s, "total_s": total_s,
                      "step_ends_ms": list(raw.m_new_token_times),
                      "step_tokens": list(raw.m_batch_sizes),
                      "version": openvino_genai.__version__}))


if __name__ == "__main__":
    main()
