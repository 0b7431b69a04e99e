"""The answers `ranks` and `uneven_kernels`, and the tables that they read, by hand: five ranks, one of them odd."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

pytestmark = pytest.mark.slow  # what its tests share takes 10 seconds or more

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


# --- kernels ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Five ranks. The last one takes 150 us for each of two matrix products instead of 100 us for one, and 12 us for
    relu instead of 11; the first one waits longest in a collective, and copies alone.
    """
    folder = tmp_path_factory.mktemp("uneven")
    for rank in range(5):
        built = TraceBuilder(rank=rank, world_size=5).step(0, 0, 1000)
        odd = rank == 4
        for number in range(1 + odd):
            at = 200 * number
            built.op("aten::mm", at + 1, at + 9).launches("gemm", at + 10, at + (160 if odd else 110), at=at + 2)
        built.op("aten::relu", 401, 409).launches("relu", 410, 422 if odd else 421, at=402)
        built.op("c10d::allreduce_", 501, 509).launches("ncclDevKernel_AllReduce", 510, 700 - 10 * rank, at=502)
        if not rank:
            built.op("aten::copy_", 801, 809).launches("Memcpy HtoD", 810, 990, at=802, category="gpu_memcpy")
        built.write(folder / f"{rank}.json")
    return ha.load(folder)


def test_kernels_are_summed_up_at_import(uneven: Trace) -> None:
    found = uneven.sql(
        "select class, category, name, event_count, time_ns, busy_ns, min_ns, median_ns, max_ns from kernel_summary"
        " where rank = 4 order by name"
    )
    assert found.rows() == [
        ("computation", "kernel", "gemm", 2, 300_000, 300_000, 150_000, 150_000, 150_000),
        ("communication", "kernel", "ncclDevKernel_AllReduce", 1, 150_000, 150_000, 150_000, 150_000, 150_000),
        ("computation", "kernel", "relu", 1, 12_000, 12_000, 12_000, 12_000, 12_000),
    ]
    longest = "select name, longest_id from kernel_summary where rank = 4 and name = 'gemm'"
    first = "select name, min(event_id) from event where rank = 4 and name = 'gemm' group by name"
    assert uneven.sql(longest).rows() == uneven.sql(first).rows()


def test_a_rank_whose_kernels_take_longer_is_named(uneven: Trace) -> None:
    found = ha.uneven_kernels(uneven)
    shown = found.select("rank", "name", "rank_count", "usual_ns", "event_count", "mean_ns", "slower", "excess_ns")
    assert shown.rows() == [
        (4, "gemm", 5, 100_000.0, 2, 150_000.0, 1.5, 100_000),
        (4, "relu", 5, 11_000.0, 1, 12_000.0, pytest.approx(12 / 11), 1000),
    ]
    # Four of five distances are 0, so that the mean distance counts: a fifth of the one.
    assert found["oddity"].to_list() == pytest.approx([5 / 1.2533] * 2, rel=1e-4)
    assert found["is_outlier"].to_list() == [True, True]
    assert ha.uneven_kernels(uneven, limit=1).height == 1


def test_one_rank_is_compared_with_none(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("mm", 1, 9).launches("gemm", 20, 30).load(tmp_path)
    assert ha.uneven_kernels(trace).is_empty()
