#!/usr/bin/env python3
"""Millrace as a model of lm-evaluation-harness (pip install lm-eval).

    python examples/lm_eval_model.py run --model millrace --tasks hellaswag \\
        --model_args model=M.gguf,prefix_token="<|endoftext|>",math=exact,name=mine,folder=state

It takes the harness's own options. Without `model=` the jobs go to the broker that runs already
(`broker=`, `key=`). Further arguments are options of the engine. With `name=`, and with `folder=`
where there is a `model=`, an evaluation that was interrupted goes on when the same command runs
again.
"""
import collections
import json
import math

import lm_eval.models  # the harness's own models stay known
import millrace
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

CHAT = "millrace chat "  # begins what stands for a chat where the harness wants a text
PIECE_CHARACTERS = 4000  # of a text that is too long to be scored in one job


@register_model("millrace")
class MillraceLM(LM):
    """`prefix_token` is the text of the token before texts without a context; it must be given for
    a model whose file puts no BOS there."""

    def __init__(self, model=None, broker=None, key=None, folder=None, prefix_token="", name=None,
                 max_gen_toks=256, opencl_device=None, batch_size=None, max_batch_size=None,
                 device=None, **options):
        super().__init__()
        # The harness gives batch_size and max_batch_size, but the engine fills its batches by
        # itself; and device, which is torch's name of one: opencl_device is the engine's.
        if model is None:
            self.client = millrace.Client(broker, key=key)
        else:
            self.client = millrace.run(model, folder=folder, device=opencl_device, **options)
        self.name, self.prefix, self.max_gen_toks = name, prefix_token, max_gen_toks
        self._prefix_ids = None

    def loglikelihood(self, requests, disable_tqdm=False):
        """The logprob of each continuation, and whether greedy generation would write it."""
        if any(request.args[0].startswith(CHAT) for request in requests):
            raise SystemExit("answers to choose from are scored after a text, not after a chat: "
                             "leave --apply_chat_template out, or take a task that generates")
        pairs = [with_spaces(*request.args) for request in requests]
        lengths = self._lengths({context for context, _ in pairs if context}, disable_tqdm)
        texts = [(context or self.prefix) + continuation for context, continuation in pairs]
        found = []
        for request, (context, _), scored in zip(
                requests, pairs, self._score(texts, "loglikelihood", disable_tqdm)):
            begin = lengths[context] if context else len(self.prefix_ids)
            if isinstance(scored.error, millrace.errors.ContextExceededError):
                scored, begin = self._last_window(*with_spaces(*request.args))
            found.append(self._sum(scored, begin))
            self.cache_hook.add_partial("loglikelihood", request.args, found[-1])
        return found

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        """The logprob of each text. One that is longer than the context is cut into windows."""
        texts = [self.prefix + request.args[0] for request in requests]
        found = []
        for request, scored in zip(requests, self._score(texts, "rolling", disable_tqdm)):
            if isinstance(scored.error, millrace.errors.ContextExceededError):
                found.append(self._windows(request.args[0]))
            else:
                found.append(self._sum(scored, len(self.prefix_ids))[0])
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, found[-1])
        return found

    def generate_until(self, requests, disable_tqdm=False):
        seen = collections.Counter()
        jobs = []
        for request in requests:
            jobs.append(self._generation(*request.args))
            times = seen[repr(request.args)]
            seen[repr(request.args)] += 1
            if times:  # a repeat draws another text: the seed follows from the custom_id, too
                jobs[-1]["custom_id"] = f"repeat {times}"
        found = []
        for request, result in zip(requests, self._map(jobs, "generate", disable_tqdm)):
            found.append(result.raise_for_error().text)
            self.cache_hook.add_partial("generate_until", request.args, found[-1])
        return found

    # With --apply_chat_template, for tasks that generate: the engine renders chats by itself.

    tokenizer_name = "millrace"

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return CHAT + json.dumps(chat_history)

    def _generation(self, context, settings):
        settings = dict(settings)
        until = settings.pop("until", [])
        chat = context.startswith(CHAT)
        prompt = {"messages": json.loads(context[len(CHAT):])} if chat else {"prompt": context}
        job = {**prompt, "max_tokens": settings.pop("max_gen_toks", self.max_gen_toks),
               "stop": [text for text in ([until] if isinstance(until, str) else until) if text]}
        sampled = settings.pop("do_sample", settings.get("temperature", 0) > 0)
        return {**job, **settings} if sampled else {**job, "temperature": 0}

    # What the broker is asked

    def _map(self, jobs, kind, disable_tqdm=False, **fields):
        name = f"{self.name}-{kind}" if self.name else None
        return self.client.map(jobs, name=name, progress=not disable_tqdm, **fields)

    def _score(self, texts, kind, disable_tqdm=False):
        return self._map(texts, kind, disable_tqdm, task="score", top_logprobs=1)

    def _lengths(self, contexts, disable_tqdm):
        """How many tokens each context has. What contexts begin with in common is computed once."""
        contexts = sorted(contexts)
        counted = self._map(contexts, "contexts", disable_tqdm, max_tokens=1, temperature=0)
        return {context: result.usage.prompt_tokens for context, result in zip(contexts, counted)}

    @property
    def prefix_ids(self):
        """The tokens before a text without a context."""
        if self._prefix_ids is None:
            result = self.client.generate(self.prefix, task="score")
            self._prefix_ids = [] if result.error else list(map(int, result.result.prompt))
            if not self._prefix_ids:
                raise SystemExit("this model's file puts no token before a text: name one, such as "
                                 "prefix_token=<|endoftext|>")
        return self._prefix_ids

    def _sum(self, scored, begin):
        result = scored.raise_for_error().result
        logprobs, ids = result.prompt_logprobs, result.prompt
        greedy = bool((logprobs.top_ids[begin:, 0] == ids[begin:]).all())
        return math.fsum(map(float, logprobs.token[begin:])), greedy

    # Texts that are longer than the model's context

    def _context_tokens(self):
        return min(engine.context_tokens for engine in self.client.status().engines)

    def _ids(self, text):
        """The tokens of a long text, in pieces that end with lines where they can."""
        pieces, begin = [], 0
        while begin < len(text):
            end = begin + PIECE_CHARACTERS
            end = text.rfind("\n", begin, end) + 1 or end if end < len(text) else end
            pieces.append(text[begin:end])
            begin = end
        scored = self.client.map(pieces, task="score", add_special_tokens=False)
        return [int(one) for result in scored for one in result.raise_for_error().result.prompt]

    def _last_window(self, context, continuation):
        """Scores as much of the end as fits, and tells where the continuation begins in it."""
        behind = self._ids(continuation)
        ids = (self._ids(context) + behind)[-self._context_tokens():]
        return self.client.generate(ids, task="score", top_logprobs=1), len(ids) - len(behind)

    def _windows(self, text):
        windows = [make_disjoint_window(window) for window in get_rolling_token_windows(
            self._ids(text), self.prefix_ids[-1], self._context_tokens() - 1, 1)]
        scored = self.client.map([before + ids for before, ids in windows], task="score",
                                 top_logprobs=1)
        return math.fsum(self._sum(one, len(before))[0]
                         for one, (before, _) in zip(scored, windows))


def with_spaces(context, continuation):
    """Spaces at a context's end belong to the continuation, because tokens begin with them."""
    stripped = context.rstrip()
    return stripped, context[len(stripped):] + continuation


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate
    cli_evaluate()
