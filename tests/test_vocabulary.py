"""Words with a fixed meaning: the causes of idle time are the same words wherever a user meets them."""

import re
from pathlib import Path
from typing import get_args

import duckdb
import polars as pl
import pytest

from hotline_analysis import Trace, catalog
from hotline_analysis.answers.verdicts import LIMITS, Limit
from hotline_analysis.cli.common import _format_frame
from hotline_analysis.database import install_macros
from hotline_analysis.schema import TABLES
from hotline_analysis.vocabulary import (
    CATEGORY_WORDS,
    COLUMN_TYPES,
    COMBINED_CAUSES,
    GAP_CAUSES,
    IDLE_CAUSES,
    USE_CAUSES,
    WORDS,
    idle_title,
)
from tests.answer.two_steps import two_steps

GLOSSARY = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
QUEUED = {"communication", "kernel", "other"}  # what `queued` is split into by what ended before


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return two_steps().load(tmp_path_factory.mktemp("vocabulary"))


def test_the_glossary_has_each_cause_of_idle_time() -> None:
    for word in {*IDLE_CAUSES, *USE_CAUSES, *GAP_CAUSES}:
        assert f"`{word}`" in GLOSSARY, word


def test_all_limits_are_work_or_causes_of_idle_time() -> None:
    assert set(LIMITS) == set(get_args(Limit)) > set(USE_CAUSES)


def test_causes_are_combined_in_one_way() -> None:
    """Devices and charts ask the macro, the critical path the mapping; no other file combines causes."""
    words = [*IDLE_CAUSES, "nothing"]
    with duckdb.connect() as connection:
        install_macros(connection, ["use_cause"])
        combined = [connection.execute("select use_cause(?)", [word]).fetchall()[0][0] for word in words]
    assert combined == [COMBINED_CAUSES.get(word, word) for word in words]
    assert set(combined) == set(USE_CAUSES)
    root = Path(__file__).parents[1]
    files = [*(root / "queries").rglob("*.sql"), *(root / "hotline_analysis").rglob("*.py")]
    places = {file.name for file in files if re.search("""then ['"]launching|['"]: ['"]launching""", file.read_text())}
    # The largest part of a phase, among columns that are combined already.
    assert places == {"causes.sql", "vocabulary.py", "device_use.sql"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu_gap", set(IDLE_CAUSES)),
        ("device_use", set(USE_CAUSES)),
        ("idle_gap", {*GAP_CAUSES} - QUEUED | {"queued"}),
        ("idle_gaps", {*GAP_CAUSES} - QUEUED | {"queued"}),
        ("idle_breakdown", {*GAP_CAUSES} - QUEUED | {"queued"}),
    ],
)
def test_a_cause_is_a_column_of_the_same_name(name: str, words: set[str], trace: Trace) -> None:
    """The columns of the causes add up to the idle time of each row."""
    frame = trace.table(name) if name in TABLES else trace.query(name)
    assert {f"{word}_ns" for word in words} <= set(frame.columns)
    whole = next((each for each in ("gpu_idle_ns", "idle_ns", "dur_ns") if each in frame.columns), None)
    idle = frame[whole] if whole else frame["end_ns"] - frame["start_ns"]
    assert idle.sum() > 0
    assert frame.select(f"{word}_ns" for word in words).sum_horizontal().to_list() == idle.to_list()


def test_columns_of_causes_say_what_they_can_be() -> None:
    """A column with one of these lists as its type has the list in its description, and its values are in it."""
    described = {
        (query.name, column.name): column.description
        for query in catalog.queries()
        for column in query.columns
        if column.name in ("cause", "idle_cause") and query.name.startswith(("idle", "device_use"))
    }
    assert len(described) == 7
    for where, description in described.items():
        assert any(description.endswith(f"({', '.join(each[:-1])} or {each[-1]})") for each in WORDS.values()), where


# Columns of these names with other values: `phase` may be a bucket, `device` a word, and `class` also mixed.
OTHER = {
    ("phase", "VARCHAR"): {
        *("homed_slice", "level_of_detail", "overview", "shown_node", "tree_slice", "tree_work", "viewed_work"),
    },
    ("device", "VARCHAR"): {"level_of_detail", "node_side", "track_name"},
    ("class", "VARCHAR"): {"kernel_breakdown", "kernel_duration_distribution"},
}


def test_columns_of_one_name_have_one_type_and_description() -> None:
    by_name = {name: (kind, sentence) for name, kind, sentence in COLUMN_TYPES.values()}
    others: dict[tuple[str, str], set[str]] = {}
    for query in catalog.queries():
        for each in (*query.steps, query):
            for column in each.columns if each.kind != "advice" else ():
                kind, sentence = by_name.get(column.name, (column.type, ""))
                words = next((WORDS.get(name) for name, entry in COLUMN_TYPES.items() if entry[0] == column.name), None)
                ending = f"({', '.join(words[:-1])} or {words[-1]})" if words else ""
                if (column.type, column.description[: len(sentence)], column.description.endswith(ending)) != (
                    kind,
                    sentence,
                    True,
                ):
                    others.setdefault((column.name, column.type), set()).add(each.name)
    assert others == OTHER


def test_a_part_that_may_be_no_idle_time_is_not_called_idle() -> None:
    assert [idle_title(cause) for cause in ("sync", "unobserved")] == [
        "idle: CPU in a synchronising call",
        "unobserved: launched work waits, unexplained",
    ]


def test_tables_for_people_have_words_for_all_devices() -> None:
    """Calls of HIP, of an XPU or of CANN have the category of CUDA's; who writes SQL needs the stored words."""
    frame = pl.DataFrame({"category": ["cuda_runtime", "cuda_driver", "kernel", None, "own words"], "count": range(5)})
    shown = _format_frame(frame, "table", None, "longest_events")
    assert "runtime call" in shown
    assert "driver call" in shown
    assert "own words" in shown
    assert "cuda" not in shown
    assert "cuda_runtime" in _format_frame(frame, "table", None, "sql")
    assert "cuda_runtime" in _format_frame(frame, "csv", None, "longest_events")
    assert catalog.rules()["event_categories"]["category"].to_pylist().count("cuda_runtime") > 1
    assert CATEGORY_WORDS.keys() <= set(catalog.rules()["event_categories"]["category"].to_pylist())
