"""Stages of a pipeline: what is sent and received is waiting for another stage, beside the least of a schedule."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.answers.rules import find_advice
from tests.trace_builder import TraceBuilder

CASE = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases" / "11_pipeline_recv.json"


def stage(rank: int, stages: int, micro_batches: int, *, wait: int, work: int, words: str = "mesh_pp") -> TraceBuilder:
    """A stage that, for each micro-batch of a step, waits in a receive and then computes; it sends beside that.

    A step takes (wait + work) times the micro-batches, and 10 us more.
    """
    built = TraceBuilder(rank=rank, world_size=stages)
    args: dict[str, Any] = {"Group size": stages, "Process Group Description": words, "dtype": "BFloat16"}
    args |= {"Process Group Ranks": str(list(range(stages))), "Process Group Name": "3"}
    length = micro_batches * (wait + work) + 10
    for number in range(1, 4):
        at = length * number
        built.step(number, at, at + length)
        for call in range(micro_batches):
            own, begin = at + 4 * call + 1, at + call * (wait + work)
            built.op(f"nccl:recv {rank}<-{rank - 1}", own, own + 1)
            built.launches(
                "ncclDevKernel_SendRecv", begin + 5, begin + wait, stream=20, **args, **{"Collective name": "recv"}
            )
            built.op("aten::mm", own + 1, own + 2).launches("gemm", begin + wait, begin + wait + work)
            built.op(f"nccl:send {rank}->{rank + 1}", own + 2, own + 3)
            sent = begin + wait + work // 2
            built.launches("ncclDevKernel_SendRecv", sent, sent + 5, stream=21, **args, **{"Collective name": "send"})
        built.runtime("cudaDeviceSynchronize", at + 4 * micro_batches + 2, at + length - 2, correlation=10_000 + number)
    return built


@pytest.mark.parametrize(
    ("rank", "stages", "micro_batches", "wait", "work", "words"),
    [
        (3, 4, 4, 300, 200, "PIPELINE_MODEL_PARALLEL_GROUP"),
        (1, 2, 1, 650, 340, "mesh_pp"),
        (1, 4, 8, 105, 100, "pp"),
        (7, 8, 8, 205, 300, "pipe_parallel"),
        (1, 3, 2, 505, 100, ""),
        (2, 16, 12, 105, 50, "mesh_pp"),
    ],
)
@pytest.mark.sampled
def test_bubbles_by_hand(
    tmp_path: Path, rank: int, stages: int, micro_batches: int, wait: int, work: int, words: str
) -> None:
    """Receives begin 5 us into a turn; sends run beside computation and count nothing."""
    trace = stage(rank, stages, micro_batches, wait=wait, work=work, words=words).load(tmp_path)
    bubble = micro_batches * (wait - 5)
    length = micro_batches * (wait + work) + 10
    for number, row in enumerate(ha.pipeline_bubbles(trace).iter_rows(named=True), 1):
        assert (row["rank"], row["step"], row["stage"], row["stage_count"]) == (rank, number, rank, stages)
        assert (row["micro_batch_count"], row["bubble_ns"]) == (micro_batches, 1000 * bubble)
        assert row["bubble_pct"] == pytest.approx(100 * bubble / length)
        assert row["ideal_pct"] == pytest.approx(100 * (stages - 1) / (micro_batches + stages - 1))
    rules = [each.rule for each in find_advice(trace)]
    assert "pipeline_bubble" in rules
    assert not {"exposed_communication", "exposed_collectives", "many_small_collectives"} & set(rules)
    limits = dict(ha.step_limits(trace).select("limit", "path_pct").rows())
    assert limits["other_stage"] == pytest.approx(100 * bubble / length, abs=3)
    assert limits.get("communication", 0) < 1


def test_the_report_says_so(tmp_path: Path) -> None:
    text = ha.report(stage(1, 4, 4, wait=300, work=200).load(tmp_path)).to_text(width=400)
    assert "waiting for another pipeline stage" in text
    assert "a schedule leaves 42.9 % at least" in text  # 3 of 7
    assert "no_sync()" not in text
    assert "bucket_cap_mb" not in text


def test_without_sends_and_receives_there_is_no_pipeline(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 0, 10).launches("gemm", 10, 90).load(tmp_path)
    assert ha.pipeline_bubbles(trace).is_empty()
    assert "other stages" not in ha.report(trace).to_text(width=400)


@pytest.mark.skipif(not CASE.exists(), reason="HOTLINE_TRACES is not set")
def test_the_case_of_a_receive() -> None:
    """6.5 of 9.9 ms in a receive of one micro-batch, in a pipeline of two stages."""
    trace = ha.load(CASE)
    row = ha.pipeline_bubbles(trace).row(0, named=True)
    assert (row["stage"], row["stage_count"], row["micro_batch_count"], row["bubble_ns"]) == (1, 2, 1, 6_500_000)
    assert (round(row["bubble_pct"], 1), row["ideal_pct"]) == (65.7, 50)
    first = find_advice(trace)[0]
    assert first.rule == "pipeline_bubble"
    text = ha.report(trace).to_text(width=400)
    assert "waiting for another pipeline stage" in text
    for word in ("no_sync()", "bf16_compress_hook", "bucket_cap_mb", "The network is faster"):
        assert word not in text
