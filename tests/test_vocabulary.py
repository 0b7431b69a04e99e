"""Words with a fixed meaning: the causes of idle time are the same words wherever a user meets them."""

from pathlib import Path
from typing import get_args

import pytest

from hotline_analysis import Trace, catalog
from hotline_analysis.answers.verdicts import LIMITS, Limit
from hotline_analysis.schema import TABLES
from hotline_analysis.vocabulary import GAP_CAUSES, IDLE_CAUSES, USE_CAUSES, WORDS, idle_title
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
    assert len(described) == 6
    for where, description in described.items():
        assert any(description.endswith(f"({', '.join(each[:-1])} or {each[-1]})") for each in WORDS.values()), where


def test_a_part_that_may_be_no_idle_time_is_not_called_idle() -> None:
    assert [idle_title(cause) for cause in ("sync", "unobserved")] == [
        "idle: CPU in a synchronise",
        "unobserved: launched work waits, unexplained",
    ]
