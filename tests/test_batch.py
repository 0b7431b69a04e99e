"""What other batch sizes need, against captures of other batch sizes, and by hand."""

# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import loop_of
from hotline_analysis.prediction.studies.batch import _edits as edits_of_works
from hotline_analysis.prediction.studies.batch import batch_scaling, blocks_of, largest_batch, peak_of
from tests.trace_builder import TraceBuilder


def blocks(*rows: tuple[int, int, int | None, bool], older: int = 0) -> pl.DataFrame:
    """Blocks of (bytes, start, end, grows)."""
    frame = pl.DataFrame(rows, ["bytes", "start_ns", "end_ns", "grows"], orient="row")
    return frame.with_columns(start_id="start_ns", end_id="end_ns", older_bytes=pl.lit(older))


def test_the_peak_is_where_it_moves_to() -> None:
    """100 fixed bytes from 0 to 5; 60 that grow from 6 to 9, over 10 older: 110, and 130 with twice as many samples."""
    found = blocks((100, 0, 5, False), (60, 6, 9, True), older=10)
    assert peak_of(found, 1) == 110
    assert peak_of(found, 2) == 130
    assert peak_of(found, 0.5) == 110
    # At 8 samples, a sample needs 7.5 bytes: 990 fit 132 of them.
    assert largest_batch(found, 8, 1000) == 132
    assert largest_batch(found, 8, 109) == 0


def training(samples: int, length: int = 100) -> TraceBuilder:
    """Three steps on a GPU of 10,000 bytes that is always busy: 50 bytes saved per sample, 400 older."""
    device = {"id": 0, "name": "X", "totalGlobalMem": 10_000, "numSms": 1}
    trace = TraceBuilder(rank=0, deviceProperties=[device], hotline_metadata={"batch_size": samples})
    for step in (1, 2, 3):
        at = step * length
        saved = 50 * samples
        trace.step(step, at, at + length).annotation("## forward ##", at, at + 30).op("aten::relu", at + 1, at + 20)
        trace.memory(saved, at + 5, total=400 + saved, device=0, address=1)
        trace.launches("relu", at + 6, at + 6 + length)
        trace.annotation("## backward ##", at + 30, at + 90)
        trace.op("autograd::engine::evaluate_function: ReluBackward0", at + 40, at + 60)
        trace.memory(-saved, at + 50, total=400, device=0, address=1)
    return trace


def test_lines_through_several_traces(tmp_path: Path) -> None:
    """Steps of 20 us and 10 us per sample; memory of 400 bytes and 50 per sample."""
    traces = [training(samples, 20 + 10 * samples).load(tmp_path, f"{samples}.json") for samples in (8, 16)]
    found = batch_scaling(traces)
    assert found.frame["batch"].to_list() == [8, 16]
    assert found.frame["peak_bytes"].to_list() == [800, 1200]
    assert found.peak_bytes(32) == 400 + 50 * 32
    assert found.frame["step_ns"].to_list() == [100_000, 180_000]
    assert found.step_ns(32) == 340_000
    assert found.most_samples_per_s == pytest.approx(1e9 / 10_000)
    # b / (20 + 10 b) is nine tenths of 1 / 10 at 18.
    assert found.knee == 18
    # 95 % of 10,000 bytes
    assert found.largest == (9500 - 400) // 50
    assert found.frame["off_bytes_pct"].to_list() == pytest.approx([0, 0])
    with pytest.raises(ha.QueryParameterError, match="two batch sizes"):
        batch_scaling(traces[:1])
    assert ha.charts.draw("batch", *traces).to_dict()["title"]


def test_one_trace_tells_of_another_batch(tmp_path: Path) -> None:
    trace = training(8).load(tmp_path)
    found = ha.whatif(trace, "batch", to=16)
    assert found.low_ns <= found.predicted_ns <= found.high_ns
    assert any("The peak of memory is 1.17 KiB, instead of 800 B" in said for said in found.assumptions)
    assert any("Up to 182 samples fit" in said for said in found.assumptions)
    with pytest.raises(ha.HotlineError, match="too far away"):
        ha.whatif(trace, "batch", to=64)
    with pytest.raises(ha.HotlineError, match="number of samples per step"):
        ha.whatif(trace, "batch")
    assert peak_of(blocks_of(loop_of(trace), 8), 2) == 1200


def test_what_the_shortest_calls_of_an_op_take_may_not_grow(tmp_path: Path) -> None:
    """Steps of the CPU: layers of 20 us and 100 us, and 10 us of an op that is always as long, twice the batch."""
    trace = TraceBuilder(rank=0, hotline_metadata={"batch_size": 8})
    for step in (1, 2, 3):
        at = 200 * step
        trace.step(step, at, at + 200).annotation("## forward ##", at, at + 190)
        trace.op("aten::linear", at + 5, at + 25).op("aten::linear", at + 30, at + 130).op(
            "aten::relu", at + 140, at + 150
        )
    loop = loop_of(trace.load(tmp_path))
    factors = {}
    for edit in edits_of_works(loop, 2.0):
        chosen = edit.chosen(loop)
        assert isinstance(edit, ha.Scale)
        factors[chosen["name"][0], int(chosen["dur_ns"][0])] = edit.factor
    # Of 100 us, 20 are also those of the shorter calls, and 10 are the shortest of all; what is shorter may not grow.
    assert factors["aten::linear", 100_000] == pytest.approx((1.8, 1.9, 2.0))
    assert factors["aten::linear", 20_000] == pytest.approx((1.0, 1.5, 2.0))
    assert factors["aten::relu", 10_000] == pytest.approx((1.0, 1.0, 2.0))


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet50", "transformer"])
def test_the_peak_of_a_batch_that_was_not_captured(tmp_path: Path, name: str) -> None:
    """From one capture within 5 %, from two within 1 %.

    What the allocator counts beyond the blocks is left out: on the CPU, it is what was recorded before in this process.
    """
    pytest.importorskip("torch")
    from tests import memory_truth

    found = {}
    for size in (8, 16, 32):
        switches = (name, "--size", "tiny", "--batch-size", str(size), "--optimizer", "adam")
        made = memory_truth.train(tmp_path / f"{size}.json.gz", *switches, steps=3, warmup=1, frames=False, hooks=False)
        with ha.load(made.path) as trace:
            found[size] = blocks_of(loop_of(trace), size)
    peaks = {size: peak_of(each, 1) - each["older_bytes"][0] for size, each in found.items()}
    assert peaks[16] + 2 * (peaks[16] - peaks[8]) == pytest.approx(peaks[32], rel=0.01)
    assert peak_of(found[8], 4) - found[8]["older_bytes"][0] == pytest.approx(peaks[32], rel=0.05)
    assert peak_of(found[32], 0.25) - found[32]["older_bytes"][0] == pytest.approx(peaks[8], rel=0.05)
