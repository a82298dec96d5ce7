"""evaluate_both.py MODEL PROGRAMS FOLDER: runs small tasks of lm-evaluation-harness on Millrace,
twice under one name, through its HTTP face with the harness's own models for such servers, and on
transformers with the same weights in float32. Then both get a context of 64 tokens and texts that
are longer. Prints the figures and the answers as JSON."""
import contextlib
import json
import pathlib
import subprocess
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


def evaluate(model, folder, names=tuple(tasks.YAML), **options):
    names = list(names)
    found = lm_eval.simple_evaluate(
        model=model, tasks=names, task_manager=TaskManager(include_path=str(folder)),
        log_samples=True, bootstrap_iters=100, **options)
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


@contextlib.contextmanager
def served(model, programs, folder):
    """The address of `millrace serve` with the engine's options of the other sides."""
    server = subprocess.Popen(
        [pathlib.Path(programs) / "millrace", "serve", "--model", model, "--http", "127.0.0.1:0",
         "--folder", folder, "--json", "--math", "exact", "--kv", "f32", "--kv-memory", "512MiB"],
        stdout=subprocess.PIPE, text=True)
    address = None
    for line in server.stdout:
        event = json.loads(line)
        if event["event"] == "listening":
            address = event["message"].split()[2]
        if event["event"] == "engine_ready":
            break
    try:
        yield address
    finally:
        server.terminate()
        server.communicate()


def evaluate_served(model, programs, folder):
    """Through HTTP, where the server also tokenizes; chats only generate."""
    with served(model, programs, folder / "served") as address:
        options = {"model": model.stem, "num_concurrent": 8, "max_length": 2048}
        found = evaluate(get_model("local-completions")(
            base_url=address + "/v1/completions", **options), folder)
        chat = get_model("local-chat-completions")(
            base_url=address + "/v1/chat/completions", **options)
        found["chat"] = evaluate(chat, folder, ["millrace_counting"], apply_chat_template=True)
    return found


def main():
    model, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
    tasks.write(folder, 12)
    options = {"model": str(model), "prefix_token": PREFIX, "programs": sys.argv[2],
               "math": "exact", "kv": "f32", "kv_memory": "512MiB"}
    ours = lm_eval_model.MillraceLM(**options, name="both", folder=folder / "state")
    found = {"millrace": evaluate(ours, folder)}
    found["http"] = evaluate_served(model, sys.argv[2], folder)
    computed = ours.client.status().counts.completed
    found["again"] = evaluate(ours, folder)
    found["computed_again"] = ours.client.status().counts.completed - computed
    ours.client.close()
    short = ShortContext(**options)
    found["millrace"]["long"] = long_texts(short)
    found["chat"] = evaluate(short, folder, ["millrace_counting"], apply_chat_template=True)
    short.client.close()

    theirs = {"pretrained": str(model.parent), "gguf_file": model.name, "dtype": "float32",
              "device": "cpu", "batch_size": 8}
    found["transformers"] = evaluate(get_model("hf")(**theirs), folder)
    found["transformers"]["long"] = long_texts(get_model("hf")(**theirs, max_length=SHORT - 1))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
