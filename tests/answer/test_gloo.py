"""The four captured ranks of a gloo job (docs/traces.md), in which rank 2 sleeps 50 ms in each call of `Head`."""

from __future__ import annotations

import gzip
import json
import shutil
from decimal import Decimal
from functools import cache
from pathlib import Path
from statistics import median_low
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace

DATA = Path(__file__).parents[1] / "data" / "gloo"
SLOW, SLEEP_NS = 2, 50_000_000


@pytest.fixture(scope="module")
def trace() -> Trace:
    return ha.load(DATA)


@cache
def file(rank: int) -> dict[str, Any]:
    with gzip.open(DATA / f"rank{rank}.json.gz", "rt", encoding="utf-8") as stream:
        content: dict[str, Any] = json.load(stream, parse_float=Decimal)
    return content


def spans(rank: int, prefix: str) -> list[tuple[int, int, int]]:
    """Number, start and end of the events whose name begins so, in order of time, on the clock of 1970."""
    base = file(rank)["baseTimeNanoseconds"]
    found = []
    for number, event in enumerate(file(rank)["traceEvents"]):
        if event.get("name", "").startswith(prefix) and event["ph"] == "X":
            start = int(Decimal(event["ts"]) * 1000)
            found.append((number, base + start, base + start + int(Decimal(event["dur"]) * 1000)))
    return sorted(found, key=lambda span: span[1:])


def expected() -> dict[tuple[int, int], dict[str, int]]:
    """By rank and event: start on the clock of rank 0, waiting, transfer and bytes, found by plain loops.

    The n-th all-reduce of one size in a step is the n-th on every rank.
    """
    calls: dict[tuple[int, int, int], dict[int, tuple[int, int, int]]] = {}
    for rank in range(4):
        steps = spans(rank, "ProfilerStep#")
        seen: dict[tuple[int, int], int] = {}
        for number, start, end in spans(rank, "gloo:all_reduce"):
            step = max(place for place, step in enumerate(steps) if step[1] <= start)
            elements = file(rank)["traceEvents"][number]["args"]["Input Dims"][0][0]
            turn = seen[step, elements] = seen.get((step, elements), -1) + 1
            calls.setdefault((step, elements, turn), {})[rank] = (number, start, end)
    assert len(calls) == 6
    assert all(len(call) == 4 for call in calls.values())
    offset = [median_low(call[rank][2] - call[0][2] for call in calls.values()) for rank in range(4)]
    found = {}
    for (_, elements, _), call in calls.items():
        starts = {rank: start - offset[rank] for rank, (_, start, _) in call.items()}
        for rank, (number, start, end) in call.items():
            wait = min(max(starts.values()) - starts[rank], end - start)
            found[rank, number] = {
                "wait_ns": wait,
                "transfer_ns": end - start - wait,
                "bytes": 4 * elements,
                "is_last": starts[rank] == max(starts.values()),
                "offset_ns": offset[rank],
            }
    return found


@pytest.mark.long
def test_collectives_are_those_of_plain_loops(trace: Trace) -> None:
    rows = {(row["rank"], row["event_id"]): row for row in ha.collectives(trace).iter_rows(named=True)}
    wanted = expected()
    assert rows.keys() == wanted.keys()
    for key, values in wanted.items():
        assert {name: rows[key][name] for name in values if name != "offset_ns"} == {
            name: value for name, value in values.items() if name != "offset_ns"
        }
    assert {row["name"] for row in rows.values()} == {"allreduce"}
    for match in {row["match_id"] for row in rows.values()}:
        own = [row for row in rows.values() if row["match_id"] == match]
        rate = own[0]["bytes"] / min(row["transfer_ns"] for row in own)
        assert own[0]["algorithm_gb_per_s"] == pytest.approx(rate)
        assert own[0]["bus_gb_per_s"] == pytest.approx(rate * 2 * 3 / 4)


def once(rank: int, wanted: dict[tuple[int, int], dict[str, int]]) -> tuple[int, int]:
    """How long a rank waits, and how long it is in all-reduces beside that: each moment once, the first call first."""
    waits = calls = waited_to = called_to = 0
    for number, start, end in spans(rank, "gloo:all_reduce"):
        until = start + wanted[rank, number]["wait_ns"]
        waits += max(0, until - max(start, waited_to))
        calls += max(0, end - max(start, called_to))
        waited_to, called_to = max(waited_to, until), max(called_to, end)
    return waits, calls - waits


@pytest.mark.slow
def test_the_slow_rank_is_named_with_its_module(trace: Trace) -> None:
    wanted = expected()
    found = ha.stragglers(trace)
    assert found["rank"][0] == SLOW
    for row in found.iter_rows(named=True):
        own = [values for (rank, _), values in wanted.items() if rank == row["rank"]]
        waits, transfer = once(row["rank"], wanted)
        # Of the first call, the time by which ranks began to record later is apart.
        assert row["wait_ns"] + row["start_wait_ns"] == waits
        assert row["transfer_ns"] == transfer
        assert row["last_count"] == sum(values["is_last"] for values in own)
        assert row["clock_offset_ns"] == own[0]["offset_ns"]
    assert found["caused_wait_ns"].sum() == found["wait_ns"].sum()
    cause = ha.straggler_causes(trace, rank=SLOW).row(0, named=True)
    assert (cause["phase"], cause["module_path"].rpartition(".")[2]) == ("forward", "Head_0")
    # The sleep of the second and third step, as nothing ends before the first; calls in flight together count once.
    assert cause["excess_ns"] == pytest.approx(2 * SLEEP_NS, rel=0.02)
    inside = pl.col("module_path").str.starts_with(cause["module_path"])
    assert ha.straggler_causes(trace, rank=SLOW, module=cause["module_path"]).equals(
        ha.straggler_causes(trace, rank=SLOW).filter(inside)
    )
    assert "Rank 2 is last to reach" in ha.report(trace).to_text(width=400)


def test_a_rank_may_be_missing(tmp_path: Path) -> None:
    for rank in (0, SLOW, 3):
        shutil.copy(DATA / f"rank{rank}.json.gz", tmp_path)
    with ha.load(tmp_path) as trace:
        assert ha.stragglers(trace)["rank"].to_list()[0] == SLOW
        assert set(ha.collectives(trace)["rank_count"]) == {3}
        assert set(ha.collectives(trace)["group_size"]) == {4}


def test_two_ranks_differ_by_the_sleep(trace: Trace) -> None:
    """Each step of rank 2 has the sleep in forward, where rank 0 has none; rank 0 waits for it in backward."""
    rows = ha.diff(trace, trace, rank_a=0, rank_b=SLOW, timeline="cpu", by="phase")
    delta = dict(rows.select("phase", "delta_ns").rows())
    assert delta["forward"] >= SLEEP_NS
    assert delta["backward"] <= -SLEEP_NS // 2
    mean = []
    for rank in (0, SLOW):
        steps = spans(rank, "ProfilerStep#")
        mean.append(sum(end - start for _, start, end in steps) // len(steps))
    assert rows["delta_ns"].sum() == mean[1] - mean[0]
    modules = ha.diff(trace, trace, rank_a=0, rank_b=SLOW, timeline="cpu", by="module", phase="forward")
    assert modules.sort("delta_ns", descending=True)["module_path"][0].endswith("Head_0")


def test_every_answer_without_a_gpu_runs(trace: Trace) -> None:
    assert ha.temporal_breakdown(trace).is_empty()
    assert ha.gpu_parts(trace).is_empty()
    wall = ha.step_time_breakdown(trace)
    parts = [name for name in wall.columns if name.endswith("_ns") and name != "wall_ns"]
    assert wall.height == 12
    assert (wall.select(pl.sum_horizontal(parts)).to_series() == wall["wall_ns"]).all()
