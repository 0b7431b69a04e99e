"""The answer `ranks` and the table that it reads, by hand: five ranks, one of which takes half as long again."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

STEPS_US = (1000, 1010, 1020, 1030, 1500)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("five")
    for rank, end in enumerate(STEPS_US):
        built = TraceBuilder(rank=rank, world_size=5).step(0, 0, end)
        built.op("aten::mm", 10, 30).launches("gemm", 40, 140, at=15, until=20)
        built.op("aten::copy_", 150, 170).launches("ncclDevKernel_AllReduce_Sum_f32", 300, 350, at=155, until=160)
        built.write(folder / f"{rank}.json")
    return ha.load(folder)


def test_each_rank_has_a_row(trace: Trace) -> None:
    found = ha.ranks(trace)
    assert found["rank"].to_list() == [0, 1, 2, 3, 4]
    assert found["step_count"].to_list() == [1] * 5
    assert found["step_ns"].to_list() == [1000 * end for end in STEPS_US]
    assert found["computation_ns"].to_list() == [100_000] * 5
    assert found["communication_ns"].to_list() == [50_000] * 5
    assert found["copy_ns"].to_list() == [0] * 5
    assert found["gpu_busy_ns"].to_list() == [150_000] * 5
    assert found["gpu_idle_ns"].to_list() == [1000 * end - 150_000 for end in STEPS_US]
    assert found["gpu_busy_pct"].to_list() == pytest.approx([100 * 150 / end for end in STEPS_US])


def test_the_odd_rank_is_an_outlier(trace: Trace) -> None:
    def scores(values: list[float]) -> list[float]:
        off = [abs(value - median(values)) for value in values]
        return [each / (1.4826 * median(off)) for each in off]

    found = ha.ranks(trace)
    of_steps, of_busy = scores(list(STEPS_US)), scores([15_000 / end for end in STEPS_US])
    assert of_steps[4] == pytest.approx(480 / 14.826)
    assert found["oddity"].to_list() == pytest.approx([max(pair) for pair in zip(of_steps, of_busy, strict=True)])
    assert found["is_outlier"].to_list() == [False] * 4 + [True]


def test_equal_ranks_are_no_outliers(tmp_path: Path) -> None:
    for rank in range(3):
        TraceBuilder(rank=rank).step(0, 0, 100).op("mm", 1, 9).launches("gemm", 20, 30).write(tmp_path / f"{rank}.json")
    found = ha.ranks(ha.load(tmp_path))
    assert found["oddity"].to_list() == [None] * 3
    assert not found["is_outlier"].any()


def test_the_largest_cause_is_that_of_device_use(trace: Trace) -> None:
    found = ha.ranks(trace).select("rank", "gpu_busy_ns", "communication_ns", "copy_ns", "gpu_idle_ns", "idle_cause")
    use = trace.query("device_use").filter(scope="run")
    assert found.rows() == use.select(found.columns).rows()
    causes = dict(zip(use["rank"], use.rows(named=True), strict=True))
    for rank, cause, idle in ha.ranks(trace).select("rank", "idle_cause", "idle_cause_ns").iter_rows():
        assert causes[rank][f"{cause}_ns"] == idle


def test_the_summary_adds_up(trace: Trace) -> None:
    rows = trace.sql(
        "select step, class, sum(event_count)::bigint, sum(time_ns)::bigint, sum(busy_ns)::bigint from rank_summary"
        " where rank = 1 and cause is null group by all order by all"
    )
    assert rows.rows() == [(0, "communication", 1, 50_000, 50_000), (0, "computation", 1, 100_000, 100_000)]
    idle = trace.sql("select sum(time_ns)::bigint, sum(event_count)::bigint from rank_summary where cause is not null")
    assert idle.row(0) == (1000 * (sum(STEPS_US) - 5 * 150), 0)
