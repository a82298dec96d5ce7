"""Tables of pandas, polars and `datasets`: prompts in a column, results in further columns.

None of them is needed for the rest of the package, and each only for its own tables.
"""
from __future__ import annotations

from typing import Any, Dict, Iterable, List

from ._codes import NotFoundError, UsageError
from ._result import Result

COLUMNS = ("text", "finish_reason", "error")


def columns_of(results: Iterable[Result]) -> Dict[str, List[Any]]:
    """The results as columns, from which any library makes a table.

    >>> columns_of(client.map(["The sea"]))["text"]
    ["a stub's answer"]
    """
    found: Dict[str, List[Any]] = {name: [] for name in (
        "job", "custom_id", "state", "text", "finish_reason", "error", "prompt_tokens",
        "completion_tokens")}
    for result in results:
        first = result.choices[0] if result.choices else None
        row = (result.job, result.custom_id, result.state, first.text if first else None,
               first.finish_reason if first else None,
               str(result.error) if result.error is not None else None,
               result.usage.prompt_tokens, result.usage.completion_tokens)
        for column, value in zip(found.values(), row):
            column.append(value)
    return found


def to_pandas(results: Iterable[Result]) -> Any:
    """The results as a pandas.DataFrame."""
    return _need("pandas").DataFrame(columns_of(results))


def to_polars(results: Iterable[Result]) -> Any:
    """The results as a polars.DataFrame."""
    return _need("polars").DataFrame(columns_of(results))


def to_dataset(results: Iterable[Result]) -> Any:
    """The results as a datasets.Dataset."""
    return _need("datasets").Dataset.from_dict(columns_of(results))


def map_table(client: Any, table: Any, prompt: str = "prompt", *, prefix: str = "",
              **options: Any) -> Any:
    """The table with columns `text`, `finish_reason` and `error` (each after `prefix`) for the
    prompts of its column `prompt`. The table may be a DataFrame of pandas or polars, or a Dataset;
    a copy is given. `options` are those of `Client.map`: fields of the jobs, `name`, `progress`.
    """
    kind = type(table).__module__.partition(".")[0]
    if kind not in ("pandas", "polars", "datasets"):
        raise UsageError(f"{type(table).__name__} is no table",
                         "give a DataFrame of pandas or polars, or a Dataset of datasets")
    names = list(table.column_names if kind == "datasets" else table.columns)
    if prompt not in names:
        raise NotFoundError(f"the table has no column {prompt!r}; it has {names}",
                            "name the column of the prompts (prompt=NAME)")
    taken = [prefix + name for name in COLUMNS if prefix + name in names]
    if taken:
        raise UsageError(f"the table has columns {taken} already",
                         "give other names to the new ones (prefix='answer_')")
    prompts = list(table[prompt])
    found = columns_of(client.map(prompts, ordered=True, **options))
    columns = {prefix + name: found[name] for name in COLUMNS}
    if kind == "pandas":
        return table.assign(**columns)
    if kind == "polars":
        polars = _need("polars")
        return table.with_columns(*(polars.Series(name, values, dtype=polars.String)
                                    for name, values in columns.items()))
    for name, values in columns.items():
        table = table.add_column(name, values)
    return table


def _need(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise UsageError(f"this needs {name}, which is not installed",
                         f"pip install {name}") from None
