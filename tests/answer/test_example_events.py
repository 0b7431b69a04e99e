"""Rows that sum up events name one of them, the longest, so that each figure can be followed to the trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def training(rank: int) -> TraceBuilder:
    """Two steps of unlike length; what is longest in the second rank takes one more microsecond there."""
    trace = TraceBuilder(rank=rank, world_size=2)
    for step, start in enumerate((0, 200)):
        trace.step(step, start, start + 150 + 20 * step)
        trace.annotation("## forward ##", start + 1, start + 50 + step)
        trace.op("aten::linear", start + 5, start + 40).op("aten::addmm", start + 6, start + 30 + step + rank)
        trace.launches("gemm", start + 60, start + 80 - 5 * step + rank)
        trace.op("aten::relu", start + 42, start + 48).launches("relu", start + 85, start + 90)
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    folder = tmp_path_factory.mktemp("ranks")
    for rank in (0, 1):
        training(rank).write(folder / f"rank{rank}.json")
    with ha.load(folder) as opened:
        yield opened


def named(trace: Trace, rank: int, event: int | None) -> str:
    frame = trace.sql("select name from event where rank = $rank and event_id = $event", rank=rank, event=event)
    return str(frame.item())


def longest(trace: Trace, name: str, rank: int | None = None) -> tuple[int, int]:
    """Rank and event of the longest event of a name, by a plain reading."""
    rows = trace.sql("select rank, event_id, name, dur_ns from event").rows()
    found = max((dur, -of, -event) for of, event, called, dur in rows if called == name and rank in (None, of))
    return -found[1], -found[2]


def test_ops_and_kernels_name_their_longest_call(trace: Trace) -> None:
    for frame in (ha.slowest_ops(trace), ha.slowest_kernels(trace)):
        for row in frame.iter_rows(named=True):
            assert (row["example_rank"], row["example_event_id"]) == longest(trace, row["name"]), row["name"]
    assert ha.slowest_ops(trace).filter(pl.col("name") == "aten::addmm")["example_rank"].to_list() == [1]


def test_the_longest_of_what_is_asked_for(trace: Trace) -> None:
    first = ha.slowest_kernels(trace, step=0).filter(pl.col("name") == "gemm").row(0, named=True)
    second = ha.slowest_kernels(trace, step=1).filter(pl.col("name") == "gemm").row(0, named=True)
    assert (first["max_ns"], second["max_ns"]) == (21_000, 16_000)
    assert first["example_event_id"] < second["example_event_id"]


def test_a_breakdown_by_rank_names_an_event_of_the_rank(trace: Trace) -> None:
    found = ha.kernel_breakdown(trace, by="name")
    assert found.height == 4
    for row in found.iter_rows(named=True):
        assert (row["rank"], row["example_event_id"]) == longest(trace, row["key"], row["rank"])


def test_steps_and_phases_name_what_shows_them(trace: Trace) -> None:
    for row in ha.steps(trace).iter_rows(named=True):
        assert named(trace, row["rank"], row["example_event_id"]) == f"ProfilerStep#{row['step']}"
    phases = {(row["rank"], row["phase"]): row["example_event_id"] for row in ha.phases(trace).iter_rows(named=True)}
    assert phases[0, "forward"] == longest(trace, "## forward ##", 0)[1]
    assert phases[0, "other"] is None


def test_idle_time_names_the_work_that_ends_the_longest_gap(trace: Trace) -> None:
    found = ha.idle_breakdown(trace, rank=0).row(0, named=True)
    ends = {start + 60 for start in (0, 200)}
    frame = trace.sql("select start_ns // 1000 as at from event where rank = 0 and event_id = $event",
                      event=found["example_event_id"])  # fmt: skip
    assert found["cause"] == "host"
    assert frame.item() in ends
    gap = ha.idle_gaps(trace, 1, rank=0).row(0, named=True)
    assert gap["next_id"] == found["example_event_id"]


def test_modules_and_places_name_the_longest_event_of_their_own(tmp_path: Path) -> None:
    """The GPU work of `Linear_0` is in two steps; `ReLU_1` launches nothing; the root has nothing but modules."""
    trace = TraceBuilder()
    for step, start in enumerate((0, 200)):
        trace.step(step, start, start + 150).module("Net", 0, start + 1, start + 100)
        trace.module("Linear", 0, start + 2, start + 50).op("aten::addmm", start + 3, start + 40)
        trace.launches("gemm", start + 60, start + 70 + step, at=start + 5)
        trace.module("ReLU", 0, start + 52, start + 90).op("aten::relu", start + 53, start + 80 + step)
    opened = trace.load(tmp_path)
    gemm = longest(opened, "gemm")
    relu = longest(opened, "nn.Module: ReLU_0")
    for frame in (ha.slowest_modules(opened), ha.slowest_modules(opened, by="type")):
        found = {row["type"]: (row["example_rank"], row["example_event_id"]) for row in frame.iter_rows(named=True)}
        assert (found["Linear"], found["ReLU"]) == (gemm, relu)
    tree = {row["type"]: row["example_event_id"] for row in ha.modules(opened).iter_rows(named=True)}
    assert (tree["Linear"], tree["ReLU"]) == (gemm[1], relu[1])
    (first,) = ha.slowest_sources(opened, limit=1).iter_rows(named=True)
    assert (first["example_rank"], first["example_event_id"]) == gemm
    # of one step, its own
    frame = ha.slowest_modules(opened, step=0).filter(pl.col("type") == "Linear")
    assert frame["example_event_id"].item() < gemm[1]
