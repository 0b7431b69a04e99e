"""How much of the GPU is used, on real traces: sums that have to add up, and no figure over the peak unexplained."""

from __future__ import annotations

import polars as pl
import pytest

import hotline_analysis as ha
from tests.real_traces import NAMES, opened

pytestmark = pytest.mark.traces


WITH_WORK = (
    "inference/bert_small_h100.json.gz",
    "inference/qwen_h100.json.gz",
    "inference/vllm_b200.json.gz",
    "training/dlrm_a100_rank3.json.gz",
    "training/resnet18_ddp_checkpoint_mi300.json.gz",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_the_time_add_up(name: str) -> None:
    trace = opened(name)
    window = ha.temporal_breakdown(trace).group_by("rank", "device").agg(pl.col("window_ns").sum())
    loss = ha.peak_loss(trace)
    assert (loss["ns"] > 0).all()
    told = loss.group_by("rank", "device").agg(pl.col("ns").sum())
    assert sorted(told.rows()) == sorted(window.rows())
    if name in WITH_WORK:
        assert ha.peak_loss(trace, by="phase")["ns"].sum() == loss["ns"].sum()
        assert ha.peak_loss(trace, by="step")["ns"].sum() == loss["ns"].sum()
        assert ha.utilisation(trace)["wall_ns"].sum() == loss["ns"].sum()
        assert ha.utilisation(trace, by="step")["wall_ns"].sum() == loss["ns"].sum()


@pytest.mark.parametrize("name", WITH_WORK)
def test_the_work_of_ops_is_shared_out_completely(name: str) -> None:
    unequal = opened(name).sql(
        """
        select work.event_id
        from op_work as work
        inner join (
            select rank, work_id, sum(matrix_flop) as matrix_flop, sum(vector_flop) as vector_flop, sum(bytes) as bytes,
                bool_or(time_ns < 0) as is_negative
            from op_claim group by all
        ) as claim on work.rank = claim.rank and work.event_id = claim.work_id
        where (work.matrix_flop, work.vector_flop, work.bytes)
            is distinct from (claim.matrix_flop, claim.vector_flop, claim.bytes) or claim.is_negative
        """
    )
    assert unequal.is_empty()


@pytest.mark.parametrize("name", WITH_WORK)
def test_no_efficiency_over_100_is_without_a_reason(name: str) -> None:
    """Least bytes can come from the cache, and those of elementwise kernels do; products have no such excuse."""
    trace = opened(name)
    for by in ("op", "shape", "module", "kernel", "phase", "step"):
        over = ha.roofline(trace, by=by, limit=None).filter(pl.col("efficiency_pct") > 100)
        assert set(over["over_reason"]) <= {"cache", "fewer_flop"}, by
        assert set(over["bound"]) <= {"memory"}, by
    row = ha.utilisation(trace).row(0, named=True)
    assert 0 < row["mfu_pct"] < 100
    assert row["model_flop"] > 0


def test_figures_that_were_found_before() -> None:
    """By a prototype in plain Python on the same traces: useful time, FLOP per step, samples."""
    qwen = opened("inference/qwen_h100.json.gz")
    useful = ha.peak_loss(qwen).filter(part="useful")["ns"].item()
    assert useful == pytest.approx(5_822_000, abs=1_000)
    assert ha.throughput(qwen)["samples"].to_list() == [16]
    resnet = opened("training/resnet18_ddp_checkpoint_mi300.json.gz")
    parts = dict(ha.peak_loss(resnet).select("part", "ns").rows())
    assert parts["useful"] == pytest.approx(244_000, abs=1_000)
    assert parts["recompute"] == pytest.approx(78_000, abs=1_000)
    by_step = ha.utilisation(resnet, by="step").filter(pl.col("step").is_not_null())
    # 36.28 forward, 70.20 backward and 33.91 recomputed GFLOP in each step
    assert by_step["model_flop"].to_list() == [pytest.approx(106.48e9, rel=1e-4)] * 3
    assert by_step["hardware_flop"].to_list() == [pytest.approx(140.39e9, rel=1e-4)] * 3
    assert ha.throughput(resnet)["samples"].to_list() == [10]
    assert ha.throughput(opened("training/dlrm_a100_rank3.json.gz"))["samples"].to_list() == [1024]
    assert ha.throughput(opened("inference/bert_small_h100.json.gz"))["samples"].to_list() == [1]
