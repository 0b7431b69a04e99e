from pathlib import Path
from typing import Any

import pytest

from hotline_analysis import Trace
from tests.answer.ranks_of_a_job import ranks
from tests.rule.loop import found
from tests.trace_builder import TraceBuilder

RULE = "late_rank"


def job(rank: int, *, start: int, end: int = 400) -> TraceBuilder:
    """A step of 500 us: a kernel until the all-reduce begins, which ends on all ranks at 400; then a wait for it."""
    built = TraceBuilder(rank=rank, world_size=2).step(0, 0, 500)
    args: dict[str, Any] = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1000}
    args |= {"Out msg nelems": 1000, "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    built.op("aten::mm", 0, 10).launches("gemm", 20, start)
    built.op("c10d::allreduce_", 10, 20)
    built.launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end, **args)
    return built.runtime("cudaDeviceSynchronize", 20, 500, correlation=99)


def together(folder: Path, first: int, second: int) -> Trace:
    return ranks(folder, job(0, start=first), job(1, start=second))


@pytest.mark.slow
def test_all_ranks_come_at_the_same_time(tmp_path: Path) -> None:
    """Rank 0 comes at 100 and waits for rank 1 until 300; the all-reduce takes 300 us of rank 0's GPU."""
    trace = together(tmp_path, 100, 300)
    assert found(trace, RULE) == (1, 300, 200)


@pytest.mark.slow
def test_ranks_that_come_together_do_not_wait(tmp_path: Path) -> None:
    assert found(together(tmp_path, 300, 300), RULE) is None


def test_a_run_of_one_rank_does_not_tell(tmp_path: Path) -> None:
    assert found(job(0, start=100).load(tmp_path), RULE) is None
