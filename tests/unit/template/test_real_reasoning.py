"""The answers of families that reason, after the prompts of their real templates: what is reasoning
and what is the answer, where the prompt opens the reasoning, closes it at once or leaves it to the
model; and what a limit of reasoning puts in its place."""

import pytest

import real_templates
from test_template import Probe

THINK = ["<think>", "</think>"]
HARMONY = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>"]
FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"
GEMMA = ["<|channel>", "<channel|>"]
ON, OFF = {"enable_thinking": True}, {"enable_thinking": False}

# template, its variables, what is a special token, where the reasoning opens (in the prompt, by the
# model, or not at all), its opening and its closing
CASES = [
    ("Qwen-Qwen3-0.6B", {}, THINK, "model", "<think>\n", "</think>"),
    ("Qwen-Qwen3-0.6B", OFF, THINK, "nowhere", "", "</think>"),
    ("Qwen3.5-4B", {}, THINK, "prompt", "", "</think>"),
    ("Qwen3.5-4B", OFF, THINK, "nowhere", "", "</think>"),
    ("Qwen-QwQ-32B", ON, THINK, "prompt", "", "</think>"),
    ("Qwen-QwQ-32B", {}, THINK, "nowhere", "", "</think>"),
    ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B", {}, THINK, "prompt", "", "</think>"),
    ("llama-cpp-deepseek-r1", {}, [], "prompt", "", "</think>"),  # tokenized by its letters
    ("deepseek-ai-DeepSeek-V3.1", {"thinking": True}, THINK, "prompt", "", "</think>"),
    ("deepseek-ai-DeepSeek-V3.1", {}, THINK, "nowhere", "", "</think>"),
    ("deepseek-ai-DeepSeek-V4", {}, THINK, "nowhere", "", "</think>"),
    ("NVIDIA-Nemotron-Nano-v2", {}, THINK, "prompt", "", "</think>"),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {}, THINK, "prompt", "", "</think>"),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", OFF, THINK, "nowhere", "", "</think>"),
    ("HuggingFaceTB-SmolLM3-3B", {}, THINK, "model", "<think>\n", "</think>"),
    ("HuggingFaceTB-SmolLM3-3B", OFF, THINK, "nowhere", "", "</think>"),
    ("GLM-4.6", {}, THINK, "model", "\n<think>", "</think>"),
    ("GLM-4.6", OFF, THINK, "nowhere", "", "</think>"),
    ("GLM-4.7-Flash", {}, THINK, "prompt", "", "</think>"),
    ("GLM-4.7-Flash", OFF, THINK, "nowhere", "", "</think>"),
    ("MiniMax-M2", {}, THINK, "prompt", "", "</think>"),
    ("mistralai-Ministral-3-14B-Reasoning-2512", {}, ["[THINK]", "[/THINK]"], "model", "[THINK]",
     "[/THINK]"),
    ("ByteDance-Seed-OSS", {}, ["<seed:think>", "</seed:think>"], "model", "<seed:think>",
     "</seed:think>"),
    ("google-gemma-4-31B-it", ON, GEMMA, "model", "<|channel>thought\n", "<channel|>"),
    ("google-gemma-4-31B-it", {}, GEMMA, "nowhere", "", "<channel|>"),
    ("openai-gpt-oss-120b", {}, HARMONY, "model", "<|channel|>analysis<|message|>", FINAL),
]


class PartsProbe(Probe):
    NAME = "parts_probe"

    def __call__(self, case, answer, **more):
        name, variables, special = case[:3]
        template = real_templates.templates()[name]
        prompt = real_templates.environment(0).from_string(template).render(
            messages=[{"role": "user", "content": "What is 2 + 2?"}], add_generation_prompt=True,
            bos_token="", eos_token="", **variables)
        return self.ask({"template": template, "prompt": prompt, "special": special,
                         "answer": answer, **more})


@pytest.fixture(scope="module")
def probe():
    p = PartsProbe()
    yield p
    p.process.stdin.close()
    assert p.process.wait() == 0


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[3]}")
def test_an_answer_is_split_where_its_family_means_it(probe, case):
    opens, opening, closing = case[3:]
    thought = "Hm: <b>2</b>\n" if opens != "nowhere" else ""
    answer = "Four, or 4 < 5."
    if opens == "nowhere":
        written = HARMONY[3] + "final" + HARMONY[2] + answer if closing == FINAL else answer
        assert probe(case, written) == {"text": answer, "forced": ""}
        # There is nothing to limit.
        assert probe(case, written, limit=0) == {"text": answer, "forced": ""}
        return
    written = opening + thought + closing + answer
    told = probe(case, written)
    assert (told["reasoning"].lstrip("\n"), told["text"].lstrip("\n")) == (thought, answer)
    # A limit that is not met changes nothing, and one that is met closes the part.
    assert probe(case, written, limit=100) == told
    for limit in (0, 3):
        begun = opening.lstrip("\n")
        extra = begun[begun.index("<think>") + 7:] if begun.startswith("<think>") else ""
        drawn = opening.removesuffix(extra) + (extra + thought)[:limit] + answer
        cut = probe(case, drawn, limit=limit)
        assert cut["forced"] == closing and cut["reasoning"] == (extra + thought)[:limit]
        assert cut["text"].lstrip("\n") == answer


def test_a_limit_is_refused_where_the_model_is_not_known_to_reason(probe):
    case = ("meta-llama-Llama-3.1-8B-Instruct", {}, [], "nowhere", "", "")
    assert probe(case, "Four.") == {"text": "Four.", "forced": ""}
    assert probe(case, "Four.", limit=3)["message"].startswith("max_reasoning_tokens is 3, but no")
