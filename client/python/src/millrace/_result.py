"""A result as the user sees it."""
from typing import Any, Dict, List, Mapping, Optional

from ._codes import CancelledError, InternalError
from ._error import MillraceError
from ._reader import Position
from ._results import Choice, EffectiveSettings, ResultFields, TokenLogprobs, Usage


class Result(ResultFields):
    """The end of one job. `ok` tells whether it is completed; `text` is its first answer, and
    raises the job's error where there is none. Everything that the broker sent is there under the
    protocol's names: `job`, `state`, `error`, `metadata`, `result.times` and so on.

    >>> result = client.generate("The sea is", max_tokens=4)
    >>> result.ok, result.state, result.text
    (True, 'completed', "a stub's answer")
    >>> result.choices[0].finish_reason
    'stop'
    """

    def __init__(self, body: Mapping[str, Any], position: Optional[Position] = None,
                 index: Optional[int] = None, item: Any = None) -> None:
        super().__init__(body)
        self.position = position
        self.index = index  # of a map: the place of its prompt among the prompts
        self.item = item  # of a map: the prompt, as it was given

    @property
    def ok(self) -> bool:
        return self.state == "completed"

    def raise_for_error(self) -> "Result":
        """Raises the error of a job that is not completed; else gives the result itself."""
        if self.ok:
            return self
        error: Optional[MillraceError] = self.error
        if error is None:
            kind = CancelledError if self.state == "cancelled" else InternalError
            error = kind(f"the job {self.job} is {self.state}")
        error.facts.setdefault("job", self.job)
        raise error

    @property
    def choices(self) -> List[Choice]:
        return self.result.choices if self.result is not None else []

    @property
    def text(self) -> str:
        if not self.choices:
            self.raise_for_error()
            return ""  # a score has no text
        return self.choices[0].text

    @property
    def logprobs(self) -> Optional[TokenLogprobs]:
        """Those of the first answer, where the job asked for them."""
        return self.choices[0].logprobs if self.choices else None

    @property
    def prompt_logprobs(self) -> Optional[TokenLogprobs]:
        return self.result.prompt_logprobs if self.result is not None else None

    @property
    def usage(self) -> Usage:
        found = self.result.usage if self.result is not None else None
        return found if found is not None else Usage({})

    @property
    def effective(self) -> EffectiveSettings:
        """The engine and the settings that were used."""
        found = self.result.effective if self.result is not None else None
        return found if found is not None else EffectiveSettings({})

    @property
    def number(self) -> int:
        """Its number in its stream."""
        return self.position.number if self.position is not None else 0


def result_of(entry: Mapping[str, Any], stream: str, epoch: str) -> Result:
    body: Dict[str, Any] = entry["body"]
    return Result(body, Position(stream, epoch, entry["number"]))


def refusal(index: int, item: Any, job: str, error: MillraceError) -> Result:
    """The result of a job that the broker refused: nothing of it is stored."""
    return Result({"job": job, "state": "failed", "error": error.as_dict()}, None, index, item)
