"""evaluate_both.py MODEL PROGRAMS FOLDER: runs small tasks of lm-evaluation-harness on Millrace,
twice under one name, and on transformers with the same weights in float32. Then both get a context
of 64 tokens and texts that are longer. Prints the figures and the answers as JSON."""
import json
import pathlib
import sys

import lm_eval
import lm_eval_model
import tasks
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager

PREFIX = "<|im_start|>"  # what transformers' class puts before a text without a context
SHORT = 64
LONG_CONTEXT = "one, two, three, " * 3000 + "four, five,"


def evaluate(model, folder):
    names = list(tasks.YAML)
    found = lm_eval.simple_evaluate(
        model=model, tasks=names, task_manager=TaskManager(include_path=str(folder)),
        log_samples=True, bootstrap_iters=100)
    return {"figures": {name: found["results"][name] for name in names},
            "answers": {name: [one["resps"] for one in found["samples"][name]] for name in names}}


def long_texts(model):
    """Answers about texts that are longer than the context."""
    rolling = [Instance("loglikelihood_rolling", {}, (page["page"],), number)
               for number, page in enumerate(tasks.pages(3))]
    pairs = [Instance("loglikelihood", {}, (LONG_CONTEXT, text), number)
             for number, text in enumerate((" six", " three"))]
    return {"rolling": model.loglikelihood_rolling(rolling), "pairs": model.loglikelihood(pairs)}


class ShortContext(lm_eval_model.MillraceLM):
    """Takes every text for one that is too long, as the engine does with LONG_CONTEXT."""

    def _context_tokens(self):
        return SHORT

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [self._windows(request.args[0]) for request in requests]


def main():
    model, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
    tasks.write(folder, 12)
    options = {"model": str(model), "prefix_token": PREFIX, "programs": sys.argv[2],
               "math": "exact", "kv": "f32", "kv_memory": "512MiB"}
    ours = lm_eval_model.MillraceLM(**options, name="both", folder=folder / "state")
    found = {"millrace": evaluate(ours, folder)}
    computed = ours.client.status().counts.completed
    found["again"] = evaluate(ours, folder)
    found["computed_again"] = ours.client.status().counts.completed - computed
    ours.client.close()
    short = ShortContext(**options)
    found["millrace"]["long"] = long_texts(short)
    short.client.close()

    theirs = {"pretrained": str(model.parent), "gguf_file": model.name, "dtype": "float32",
              "device": "cpu", "batch_size": 8}
    found["transformers"] = evaluate(get_model("hf")(**theirs), folder)
    found["transformers"]["long"] = long_texts(get_model("hf")(**theirs, max_length=SHORT - 1))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
