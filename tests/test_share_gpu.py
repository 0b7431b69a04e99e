"""Copies of a program on one GPU: bounds worked out by hand, and that they never promise more than there is."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotline_analysis as ha
from hotline_analysis import charts
from tests.command import Result, hotline
from tests.gpu_steps import A100, HALF_GEMM, POINTWISE, shaped, steps
from tests.trace_builder import TraceBuilder

US = 1000
# The GPU of the traces has 108 multiprocessors, each of which holds 8 blocks of these kernels at a time.
LESS, MORE = 0.96, 1.04  # how much GPU times differ from run to run


def shared(trace: ha.Trace, copies: int) -> dict[str, dict[str, object]]:
    return {row["way"]: row for row in ha.share_gpu(trace, copies=[copies]).to_dicts()}


def test_half_a_wave_is_filled_by_the_second_copy(tmp_path: Path) -> None:
    """432 blocks are half of what runs at once: fused, two copies take as long as one, and four twice as long.

    The op is one that HFTA fuses. With MPS, all multiprocessors have a block of each kernel, so it cannot be told
    to gain anything.
    """
    trace = steps(tmp_path, POINTWISE, 100, op="aten::relu", **shaped(432))
    two, four = shared(trace, 2), shared(trace, 4)
    assert two["fused"]["low_ns"] == pytest.approx(LESS * 100 * US, rel=0.01)
    assert two["fused"]["high_ns"] == pytest.approx(MORE * 200 * US, rel=0.01)
    assert two["fused"]["gain_high"] == 2  # not 2 / LESS: no copy is faster than alone
    assert four["fused"]["gain_high"] == pytest.approx(2 / LESS, rel=0.01)
    assert four["fused"]["low_ns"] == pytest.approx(LESS * 200 * US, rel=0.01)
    assert two["mps"]["low_ns"] == pytest.approx(LESS * 200 * US, rel=0.01)
    assert two["mps"]["high_ns"] == pytest.approx(MORE * 200 * US, rel=0.01)
    assert {row["limit"] for row in two.values()} == {"GPU"}


def test_few_blocks_leave_multiprocessors_to_others(tmp_path: Path) -> None:
    """54 blocks are on half of the multiprocessors, so with MPS two kernels run beside each other."""
    trace = steps(tmp_path, POINTWISE, 100, op="aten::relu", **shaped(54))
    assert shared(trace, 2)["mps"]["low_ns"] == pytest.approx(LESS * 100 * US, rel=0.01)
    assert shared(trace, 4)["mps"]["low_ns"] == pytest.approx(LESS * 200 * US, rel=0.01)
    # taking turns, they do not
    assert shared(trace, 2)["time_sliced"]["low_ns"] == pytest.approx(LESS * 200 * US, rel=0.01)


def test_where_the_cpu_is_the_limit_copies_are_free(tmp_path: Path) -> None:
    """The GPU works for 5 of 40 us: processes with CPUs of their own do not meet until there are eight."""
    trace = steps(tmp_path, POINTWISE, 5, op="aten::relu", **shaped(10_000))
    sliced = {number: shared(trace, number)["time_sliced"] for number in (1, 4, 16)}
    assert sliced[4]["low_ns"] == sliced[1]["low_ns"]
    assert (sliced[4]["limit"], sliced[16]["limit"]) == ("CPU", "GPU")
    assert sliced[16]["low_ns"] == pytest.approx(LESS * 16 * 5 * US, rel=0.01)


def test_what_hfta_does_not_fuse_runs_for_each_copy(tmp_path: Path) -> None:
    trace = steps(tmp_path, POINTWISE, 100, op="aten::cumsum", **shaped(54))
    assert shared(trace, 2)["fused"]["low_ns"] == pytest.approx(LESS * 200 * US, rel=0.02)


def test_memory_ends_it(tmp_path: Path) -> None:
    """One copy holds 15 of 40 GiB."""
    trace = steps(tmp_path, POINTWISE, 100, allocated=15 << 30, **shaped(54))
    found = ha.share_gpu(trace)
    fits = dict(found.group_by("copies").agg(pl.col("fits").all()).rows())
    assert fits == {1: True, 2: True, 4: False, 8: False}
    assert found.filter(~pl.col("fits")).select("low_ns", "gain_high").null_count().row(0) == (6, 6)
    assert set(found.filter(~pl.col("fits"))["limit"]) == {"memory"}


def test_a_larger_batch_beside_copies(tmp_path: Path) -> None:
    """A step has 16 samples: a batch of 32 stands beside two copies, as `batch` predicts it; 64 times is too far."""
    trace = TraceBuilder(rank=0, deviceProperties=[A100], hotline_metadata={"batch_size": 16})
    for number in range(5):
        at = 100 * number
        trace.step(number, at, at + 100).annotation("## forward ##", at, at + 30).op("aten::relu", at + 2, at + 20)
        trace.launches(POINTWISE, at + 5, at + 85, at=at + 3, until=at + 4, **shaped(5000))
    loaded = trace.annotation("the end", 500, 501).load(tmp_path)
    larger = shared(loaded, 2)["larger_batch"]
    batch = ha.whatif(loaded, "batch", to=32)
    assert batch.low_ns < batch.high_ns
    assert (larger["low_ns"], larger["high_ns"]) == (batch.low_ns, batch.high_ns)
    assert larger["gain_low"] == pytest.approx(2 * batch.baseline_ns / batch.high_ns)
    assert "larger_batch" not in shared(loaded, 64)


def test_the_command_and_the_chart(tmp_path: Path) -> None:
    trace = steps(tmp_path, POINTWISE, 100, op="aten::relu", **shaped(432))
    file = tmp_path / "trace.json"
    text = hotline("whatif", file, "share_gpu", "-p", "copies=2,4")
    assert "time sliced" in text
    assert "2.00×" in text
    rows = json.loads(hotline("whatif", file, "share_gpu", "-p", "copies=2,4", "--json"))["rows"]
    assert rows == ha.share_gpu(trace, copies=[2, 4]).to_dicts()
    refused = Result("whatif", file, "share_gpu", "-p", "copies=two")
    assert "copies of share_gpu must be numbers separated by commas, not 'two'" in " ".join(refused.err.split())
    assert "has no parameter 'count'" in " ".join(Result("whatif", file, "share_gpu", "-p", "count=2").err.split())
    drawn = charts.copies(trace).to_dict()
    assert drawn["title"]["text"] == "4 copies on this GPU get at most 2.1 times as much done as one"
    bars = {(row["copies"], row["way"]) for part in drawn["datasets"].values() for row in part if "way" in row}
    assert len(bars) == 12
    unknown = steps(tmp_path, HALF_GEMM, 100, op="aten::mm")
    assert "kernels' grids" in str(charts.copies(unknown).to_dict()["title"])


def test_what_cannot_be_told(tmp_path: Path) -> None:
    trace = steps(tmp_path, HALF_GEMM, 100, op="aten::mm")
    with pytest.raises(ha.HotlineError, match=r"known for 0\.0 % of the time"):
        ha.share_gpu(trace)
    with pytest.raises(ha.QueryParameterError, match="whole numbers from 1 on"):
        ha.share_gpu(trace, copies=[0])
    (tmp_path / "b").mkdir()
    unknown = steps(tmp_path / "b", POINTWISE, 100, device={"id": 0, "name": "a GPU"}, **shaped(54))
    with pytest.raises(ha.HotlineError, match="multiprocessors"):
        ha.share_gpu(unknown)


@pytest.mark.long
@settings(max_examples=8, deadline=None, database=None)
@given(blocks=st.integers(1, 5000), length=st.integers(1, 200), copies=st.integers(1, 16))
def test_no_more_is_promised_than_there_is(
    tmp_path_factory: pytest.TempPathFactory, blocks: int, length: int, copies: int
) -> None:
    """Neither than the copies, nor than the GPU's multiprocessors can do in the time, nor than the CPU allows."""
    trace = steps(tmp_path_factory.mktemp("t"), POINTWISE, length, op="aten::relu", **shaped(blocks))
    for row in ha.share_gpu(trace, copies=[copies]).to_dicts():
        assert row["low_ns"] <= row["high_ns"]
        # one copy alone may be faster by as much as runs differ
        assert row["gain_high"] <= copies
        # the blocks of all copies need as much room as they take, and the last round of each need not be full
        room = 108 * 8 * -(-blocks // (108 * 8))
        assert row["low_ns"] >= 0.95 * copies * length * US * blocks / room
        assert row["low_ns"] >= 0.89 * 40 * US or row["limit"] == "GPU"
