"""Predictions on real traces: the loop as recorded, and what another recording of the same program took."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.gpu_models import named_gpu
from hotline_analysis.prediction.engine.edits import Pace
from hotline_analysis.prediction.engine.loop import LOW, MID, loop_of
from hotline_analysis.prediction.engine.other_gpu import Move, move_to
from hotline_analysis.prediction.engine.predict import edited
from hotline_analysis.prediction.scenarios import KNOWN
from hotline_analysis.prediction.scenarios.known import GPU
from tests.real_traces import opened

pytestmark = pytest.mark.traces

# Each with the most that the time of a step in the loop may be off, in percent of the mean step.
SEVERAL_STEPS = {
    "loader_pairs/1_workers0": 1.0,
    "loader_pairs/1_workers4": 1.0,
    "loader_pairs/2_workers0": 1.0,
    "loader_pairs/2_workers4": 1.0,
    "multi_rank/rank-0": 1.0,
    "multi_rank/rank-1": 1.0,
    "training/ddp_a100_annotated": 1.0,
    "training/ddp_v100_memory": 1.0,
    "training/dlrm_a100_rank3": 1.0,
    "training/dlrm_v100_cudagraph": 3.0,  # its own marks differ from 82 to 166 ms
    "training/resnet18_ddp_checkpoint_mi300": 1.0,
}
# On one stream, what the GPU and the CPU always do explains all but a little.
ONE_STREAM = (
    "inference/bert_small_h100",
    "inference/qwen_h100",
    "inference/vllm_b200",
    "labelled/resnet50/trace",
    "labelled/transformer/trace",
    "loader_pairs/1_workers0",
    "loader_pairs/1_workers4",
    "loader_pairs/2_workers0",
    "loader_pairs/2_workers4",
    "verdicts/owlv2_mi300",
    "verdicts/qwen_mi300",
    "verdicts/sd35_compiled_mi300",
    "verdicts/timesformer_h100",
)
PAIRS = ("1", "2")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most_pct"), SEVERAL_STEPS.items(), ids=SEVERAL_STEPS)
def test_the_loop_takes_as_long_as_the_mean_step(name: str, most_pct: float) -> None:
    trace = opened(f"{name}.json.gz")
    loop = loop_of(trace)
    mean = loop.steps["length_ns"].mean()
    assert loop.baseline_ns == pytest.approx(mean, rel=most_pct / 100)
    assert loop.explained_pct > 90


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("verdicts/vllm_graph_execution_mi300", "the step waited for something else"),
        ("verdicts/sglang_graph_capture_mi300", "records the capture of a CUDA graph, not a run"),
        ("verdicts/normalization_mi300", "is about first launches, not training"),
        ("robustness/gpu_only_mi210", "the trace shows no steps"),
        ("counters/alexnet_cupti_a100", "the file has no GPU work"),
    ],
)
def test_what_cannot_be_predicted_is_refused(name: str, said: str) -> None:
    with pytest.raises(ha.HotlineError) as error:
        ha.whatif(opened(f"{name}.json.gz"))
    assert said in error.value.message


@pytest.mark.parametrize("name", ONE_STREAM)
def test_mechanisms_explain_a_single_stream(name: str) -> None:
    assert loop_of(opened(f"{name}.json.gz")).explained_pct > 95


@pytest.mark.parametrize("name", list(SEVERAL_STEPS)[:8:3])
def test_twice_the_weights_are_twice_the_period(name: str) -> None:
    loop = loop_of(opened(f"{name}.json.gz"))
    assert loop.table.replay.changed_ns(2 * pl.col("weight_ns")) == 2 * loop.observed.period_ns


@pytest.mark.parametrize("pair", PAIRS)
def test_loader_pairs(pair: str) -> None:
    """From the recording without workers, what the one with four workers took: another run on another day."""
    found = ha.whatif(opened(f"loader_pairs/{pair}_workers0.json.gz"), "loader", workers=4)
    measured = float(loop_of(opened(f"loader_pairs/{pair}_workers4.json.gz")).steps["length_ns"].mean())  # type: ignore[arg-type]
    assert found.low_ns <= measured <= found.high_ns
    assert found.predicted_ns == pytest.approx(measured, rel=0.08)
    with pytest.raises(ha.HotlineError, match="not in the trace"):
        ha.whatif(opened(f"loader_pairs/{pair}_workers4.json.gz"), "loader", workers=0)


def test_kernels_of_dlrm_on_another_gpu() -> None:
    """The same model and batch on an A100 and a V100: kernels of one name, grid and block, by the rules alone.

    The total is within 10 % and single kernels within 25 % on average, weighted by their time.
    """
    question = (
        "select gpu_event.event_id, gpu_event.name, gpu_event.dur_ns, kernel_shape.grid, kernel_shape.block"
        " from gpu_event inner join kernel_shape using (rank, event_id) where gpu_event.class = 'computation'"
    )
    before, after = opened("training/dlrm_a100_rank3.json.gz"), opened("training/dlrm_v100_cudagraph.json.gz")
    found = move_to(loop_of(before), named_gpu("Tesla V100 SXM2 16GB"), [])
    assert isinstance(found, Move)
    key = ["name", "grid", "block"]
    ours = before.sql(question).join(found.parts, on="event_id").group_by(key)
    ours_by_kind = ours.agg(count=pl.len(), ns=(pl.col("dur_ns") * pl.col("part_1")).sum())
    theirs = after.sql(question).group_by(key).agg(each_ns=pl.col("dur_ns").mean())
    met = ours_by_kind.join(theirs, on=key).with_columns(true=pl.col("count") * pl.col("each_ns"))
    assert met.height > 200
    assert met["ns"].sum() == pytest.approx(met["true"].sum(), rel=0.10)
    assert (met["ns"] - met["true"]).abs().sum() <= 0.25 * float(met["true"].sum())


def test_gradients_of_resnet50() -> None:
    """It has 25,557,032 parameters (torchvision's table of weights), and every gradient is accumulated once a step."""
    trace = opened("loader_pairs/1_workers0.json.gz")
    found = trace.sql("select step, sum(bytes)::bigint as bytes from gradient group by step order by step")
    assert found["bytes"].to_list() == [4 * 25_557_032] * 6


def test_what_is_reduced_is_what_is_accumulated() -> None:
    """`ddp_a100_annotated` trains the same model on two GPUs: each step reduces as many floats, in 25 MiB buckets."""
    trace = opened("training/ddp_a100_annotated.json.gz")
    reduced = trace.sql(
        "select label.step, collective.in_elements from collective inner join event using (rank, event_id)"
        " inner join label using (rank, event_id)"
        " where event.category = 'kernel' and collective.name = 'allreduce' and label.step is not null"
    )
    assert set(reduced.group_by("step").agg(pl.col("in_elements").sum())["in_elements"]) == {25_557_032}


def test_buckets_of_one_rank_are_those_that_two_ranks_send() -> None:
    """The same ResNet-50, in a trace of one rank and in one of two: what is predicted of the one is in the other."""
    alone, both = opened("loader_pairs/1_workers0.json.gz"), opened("training/ddp_a100_annotated.json.gz")
    predicted, seen = alone.query("network_by_module", ranks=2), both.query("network_by_module")
    assert not predicted["is_measured"].any()
    assert seen["is_measured"].all()
    key = ["bucket", "gradient_count", "bucket_bytes"]
    assert predicted.select(key).rows() == seen.select(key).rows()
    assert predicted["bytes"].sum() == seen["bucket_bytes"].sum() == 102_228_128


def test_a_better_network_or_gpu_never_makes_a_step_longer() -> None:
    """Of a real trace of one rank: over bandwidths, and on the same GPU with all figures so many times as large."""
    loop = loop_of(opened("loader_pairs/1_workers0.json.gz"))

    def between(scenario: object) -> list[int]:
        assert isinstance(scenario, ha.Scenario), scenario
        return [loop.per_step(loop.ended(edited(loop, scenario, level))) for level in (LOW, MID)]

    networks = [between(KNOWN["ddp"].made(loop, {"gb_per_s": speed})) for speed in (0.3, 1.0, 3.0, 30.0)]
    plain = [loop.plain_ns(level) for level in (LOW, MID)]
    assert all(
        later <= earlier + 1 for slow, fast in pairwise(networks) for later, earlier in zip(fast, slow, strict=True)
    )
    assert all(ns >= alone - 1 for ns, alone in zip(networks[-1], plain, strict=True))
    known = dict(named_gpu("Tesla V100 SXM2 16GB"))
    figures = [key for key in known if key.endswith("_per_s") or key in ("boost_mhz", "sm_count")]
    gpus = []
    for factor in (1, 2, 4):
        better = {**known, **{key: factor * float(str(known[key])) for key in figures if known[key] is not None}}
        found = move_to(loop, {**better, "sm_count": factor * int(str(known["sm_count"]))}, [])
        assert isinstance(found, Move)
        gpus.append(between(ha.Scenario("gpu", [Pace(GPU, found.parts)])))
    assert all(later <= earlier + 1 for slow, fast in pairwise(gpus) for later, earlier in zip(fast, slow, strict=True))
    # Whatever is done to the GPU, the CPU needs what it needs.
    assert gpus[-1][1] >= loop.gpu_free_ns - 1
