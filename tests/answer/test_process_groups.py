"""The answer `process_groups`, by hand: eight ranks in pairs of neighbours and in pairs four apart, one slow."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

pytestmark = pytest.mark.slow  # what its tests share takes 10 seconds or more

PAIRS_US = (50, 52, 54, 150)
"""How long the all-reduce of ranks 0 and 1, 2 and 3, … takes once both have started."""
FAR_US = 100
BYTES = 4_000_000


def reduced(
    built: TraceBuilder, members: list[int], start: int, end: int, size: int | None = None, name: str = "allreduce"
) -> None:
    args: dict[str, Any] = {
        "Collective name": name,
        "dtype": "Float",
        "In msg nelems": BYTES // 4,
        "Out msg nelems": BYTES // 4,
        "Group size": size or len(members),
        "Process Group Name": str(members[0] + 10 * members[-1]),
        "Process Group Ranks": str(members),
    }
    built.op("c10d::allreduce_", start - 90, start - 80)
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    built.launches(name, start, end, at=start - 88, until=start - 82, stream=9, **args)


def job(folder: Path, pairs_us: tuple[int, ...] = PAIRS_US, size: int | None = None) -> Trace:
    """Each second rank of a pair starts 20 us after the first, which waits; pairs four apart start together."""
    for rank in range(8):
        near, far = rank - rank % 2, rank % 4
        built = TraceBuilder(rank=rank, world_size=8).step(0, 0, 1000)
        reduced(built, [near, near + 1], 200 + 20 * (rank % 2), 220 + pairs_us[rank // 2], size)
        reduced(built, [far, far + 4], 600, 600 + FAR_US, size)
        built.write(folder / f"{rank}.json")
    return ha.load(folder)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return job(tmp_path_factory.mktemp("eight"))


def test_groups_alike_are_compared(trace: Trace) -> None:
    found = {tuple(json.loads(row["group_ranks"])): row for row in ha.process_groups(trace).iter_rows(named=True)}
    assert set(found) == {(0, 1), (2, 3), (4, 5), (6, 7), (0, 4), (1, 5), (2, 6), (3, 7)}
    usual = 52  # of four, the second
    slower = [each / usual for each in PAIRS_US]
    off = [abs(each - median(slower)) for each in slower]
    for pair, took, times, apart in zip([(0, 1), (2, 3), (4, 5), (6, 7)], PAIRS_US, slower, off, strict=True):
        row = found[pair]
        assert (row["name"], row["collective_count"], row["bytes"], row["group_size"]) == ("allreduce", 1, BYTES, 2)
        assert (row["transfer_ns"], row["compared_ns"], row["usual_ns"]) == (1000 * took, 1000 * took, 1000 * usual)
        assert row["bus_gb_per_s"] == pytest.approx(BYTES / (1000 * took))  # 2 (n - 1) / n is 1
        assert row["alike_count"] == 4
        assert row["slower"] == pytest.approx(times)
        assert row["oddity"] == pytest.approx(apart / (1.4826 * median(off)))
        assert row["is_slow"] == (pair == (6, 7))
    for pair in [(0, 4), (1, 5), (2, 6), (3, 7)]:
        row = found[pair]
        assert (row["transfer_ns"], row["slower"], row["oddity"], row["is_slow"]) == (1000 * FAR_US, 1.0, None, False)


def test_the_worst_comes_first_with_its_event(trace: Trace) -> None:
    row = ha.process_groups(trace).row(0, named=True)
    assert (row["rank"], row["group_ranks"]) == (6, "[6,7]")
    event = trace.sql(f"select name, dur_ns from event where rank = 6 and event_id = {row['example_event_id']}").row(0)
    assert event == ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 170_000)


def test_those_of_a_rank(trace: Trace) -> None:
    found = ha.process_groups(trace, rank=5)["group_ranks"].to_list()
    assert sorted(found) == ["[1,5]", "[4,5]"]
    row = ha.process_groups(trace, rank=7).row(0, named=True)
    assert (row["group_ranks"], row["alike_count"], row["is_slow"]) == ("[6,7]", 4, True)


def test_a_group_that_lacks_a_rank_is_compared_with_none(tmp_path: Path) -> None:
    found = ha.process_groups(job(tmp_path, size=3))
    assert found["transfer_ns"].max() == 150_000
    assert found["alike_count"].to_list() == [0] * 8
    assert found["slower"].null_count() == 8
    assert not found["is_slow"].any()


def test_the_report_names_the_slow_group(trace: Trace) -> None:
    report = ha.report(trace).to_text().split()
    said = " ".join(report)
    assert (
        "Process group 76 (ranks 6 to 7): allreduce takes 2.9 times as long as in the 3 groups alike"
        " (26.7 instead of 76.9 GB/s); 98.0 µs of each step (9.8 %)." in said
    )


def test_a_group_that_is_slow_in_two_ways_is_one(tmp_path: Path) -> None:
    for rank in range(8):
        near = rank - rank % 2
        built = TraceBuilder(rank=rank, world_size=8).step(0, 0, 1000)
        for start, name in ((200, "allgather"), (600, "reduce_scatter")):
            reduced(built, [near, near + 1], start, start + PAIRS_US[rank // 2], name=name)
        built.write(tmp_path / f"{rank}.json")
    trace = ha.load(tmp_path)
    assert ha.process_groups(trace).filter("is_slow").select("group_ranks", "name").rows() == [
        ("[6,7]", "allgather"),
        ("[6,7]", "reducescatter"),
    ]
    said = " ".join(ha.report(trace).to_text().split())
    assert "Process group 76 (ranks 6 to 7): allgather takes 2.9 times" in said
    assert "more group" not in said


def test_a_slow_group_that_costs_little_is_not_named(tmp_path: Path) -> None:
    trace = job(tmp_path, (50, 52, 54, 90))
    assert ha.process_groups(trace).row(0, named=True)["is_slow"]
    assert "slow link" not in ha.report(trace).to_text()


def test_what_many_answers_read_is_made_once(trace: Trace) -> None:
    ha.process_groups(trace)
    found = trace._run.connection.execute(
        "select table_name from duckdb_tables() where table_name = 'collective_match'"
    )
    assert found.fetchall() == [("collective_match",)]
    assert trace.sql("select count(*) from collective_match").item() == 16
