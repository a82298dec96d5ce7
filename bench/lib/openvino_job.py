"""Answers a list of chats with OpenVINO GenAI. Runs in the Python that bench/openvino.sh prints.

    python openvino_job.py '{"model": "M.gguf", "chats": "chats.json", "output": "answers.jsonl",
                             "tokens": 128, "rows": 64, "threads": 2}'

Uses the continuous-batching pipeline with the prefix cache on. Prints one JSON object: seconds from
the list to the written file, answers, tokens drawn.
"""
import json
import sys
import time

import openvino_genai


def main():
    spec = json.loads(sys.argv[1])
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = 2048
    scheduler.max_num_seqs = spec["rows"]
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = 4  # GB
    pipe = openvino_genai.LLMPipeline(spec["model"], "CPU", scheduler_config=scheduler,
                                      INFERENCE_NUM_THREADS=spec["threads"],
                                      KV_CACHE_PRECISION="f16")
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = spec["tokens"]
    config.do_sample = False
    config.apply_chat_template = False  # the prompts below have the template already
    pipe.generate(["Hello"], config)
    with open(spec["chats"], encoding="utf-8") as file:
        chats = json.load(file)
    begin = time.monotonic()
    tokenizer = pipe.get_tokenizer()
    prompts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True) for chat in chats]
    result = pipe.generate(prompts, config)
    with open(spec["output"], "w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": text}) + "\n" for text in result.texts)
    seconds = time.monotonic() - begin
    tokens = result.perf_metrics.get_num_generated_tokens()
    print(json.dumps({"seconds": seconds, "answers": len(result.texts), "tokens": tokens,
                      "first": result.texts[0], "version": openvino_genai.__version__}))


if __name__ == "__main__":
    main()
