"""Tables of pandas, polars and datasets, each where it is installed."""
import subprocess

import pytest
from millrace import errors, tables

LIBRARIES = ["pandas", "polars", "datasets"]


def make(name, columns):
    library = pytest.importorskip(name, reason=f"the Python package {name} is not installed")
    return library.Dataset.from_dict(columns) if name == "datasets" else library.DataFrame(columns)


def column(table, name):
    return list(table[name])


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_table_gets_columns(client, name):
    table = make(name, {"key": [1, 2, 3], "question": ["a", "b", "c"]})
    found = tables.map_table(client, table, "question", prefix="answer_", max_tokens=4)
    assert type(found) is type(table) and column(found, "key") == [1, 2, 3]
    assert column(found, "answer_text") == ["a stub's answer"] * 3
    assert column(found, "answer_finish_reason") == ["stop"] * 3
    assert [one for one in column(found, "answer_error") if one] == []
    assert "answer_text" not in getattr(table, "columns", getattr(table, "column_names", ()))


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_row_without_a_prompt_gets_an_error(client, name):
    table = make(name, {"key": [1, 2, 3], "prompt": ["a", None, "c"]})
    found = tables.map_table(client, table)
    assert column(found, "key") == [1, 2, 3]
    texts = column(found, "text")
    assert texts[0] == texts[2] == "a stub's answer" and not isinstance(texts[1], str)
    assert "is no job" in column(found, "error")[1]


@pytest.mark.parametrize("name", LIBRARIES)
def test_results_become_a_table(client, name):
    make(name, {"a": [1]})
    to = {"pandas": tables.to_pandas, "polars": tables.to_polars, "datasets": tables.to_dataset}
    found = to[name](client.map(["a", {"prompt": "b", "n": 0}]))
    assert column(found, "state") == ["completed", "failed"]
    assert "invalid_value" in column(found, "error")[1]


def stand_in(columns):
    """A table as pandas has it, where only the checks before its use matter."""
    kind = type("DataFrame", (dict,), {"__module__": "pandas.core", "columns": property(list)})
    return kind(columns)


def test_tables_that_do_not_fit_are_told(client):
    with pytest.raises(errors.UsageError, match="is no table"):
        tables.map_table(client, [1, 2])
    with pytest.raises(errors.NotFoundError, match="no column 'prompt'"):
        tables.map_table(client, stand_in({"a": [1]}))
    with pytest.raises(errors.UsageError, match="already"):
        tables.map_table(client, stand_in({"prompt": ["x"], "text": ["y"]}))


def test_what_is_missing_is_told(place):
    done = place.python("-c", "import sys; sys.modules['polars'] = None\n"
                        "from millrace import tables\ntables.to_polars([])", stderr=subprocess.PIPE)
    assert "pip install polars" in done.communicate()[1]
