"""What checkpointing saves and costs, by hand and against captures with and without it."""

# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.prediction.engine.loop import loop_of
from hotline_analysis.prediction.studies.batch import blocks_of, peak_of
from hotline_analysis.prediction.studies.checkpoint import _blocks, without
from tests.checkpointed import training
from tests.trace_builder import TraceBuilder


def test_what_modules_save_and_how_long_they_take(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    frame = ha.recompute(trace)
    rows = {row["module_path"]: row for row in frame.iter_rows(named=True)}
    first, second, net = rows["Net_0.Layer_0"], rows["Net_0.Layer_1"], rows["Net_0"]
    assert (first["saved_bytes"], first["output_bytes"], first["net_bytes"]) == (700, 100, 600)
    assert (second["saved_bytes"], second["net_bytes"]) == (350, 300)
    assert (net["saved_bytes"], net["output_bytes"], net["net_bytes"]) == (1050, 50, 1000)
    assert first["forward_ns"] == 100_000
    assert first["bytes_per_ms"] == pytest.approx(6000)
    assert frame["module_path"].to_list() == ["Net_0.Layer_0", "Net_0", "Net_0.Layer_1"]
    assert not frame["has_matrix_op"].any()
    assert not frame["is_random"].any()


def test_one_module_after_the_other_until_the_peak_is_low_enough(tmp_path: Path) -> None:
    """The peak is 1,050 bytes. Without Layer_0's 600, 450 are left, until 700 are computed again: 100 + 600."""
    trace = training().load(tmp_path)
    curve = ha.recomputation(trace)
    assert curve["module_path"].to_list() == ["Net_0.Layer_0", "Net_0.Layer_1"]
    assert curve["saved_bytes"].to_list() == [600, 900]
    assert curve["added_ns"].to_list() == [100_000, 200_000]
    assert curve["peak_bytes"].to_list() == [700, 700]
    assert ha.recomputation(trace, budget="1 KiB").height == 1
    assert ha.recomputation(trace, budget="2 KiB").is_empty()
    with pytest.raises(ha.QueryParameterError, match="not an amount of memory"):
        ha.recomputation(trace, budget="much")


def test_the_scenario_computes_forward_twice(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    found = ha.whatif(trace, "checkpoint", modules="Net_0.Layer_0")
    assert found.predicted_ns - found.baseline_ns == pytest.approx(100_000, rel=0.01)
    assert any("600 bytes fewer" in said for said in found.assumptions)
    assert any("The peak of memory is 700 B, instead of 1.03 KiB" in said for said in found.assumptions)
    with pytest.raises(ha.HotlineError, match="saves nothing"):
        ha.whatif(trace, "checkpoint", modules="Net_0.Nobody")
    with pytest.raises(ha.HotlineError, match="ame the modules"):
        ha.whatif(trace, "checkpoint")


def test_without_memory_events_or_modules_it_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder().step(1, 0, 10).op("aten::mm", 1, 9).step(2, 10, 20).op("aten::mm", 11, 19)
    with pytest.raises(ha.HotlineError, match="no memory events"):
        ha.recomputation(builder.load(tmp_path))


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("cnn", ["layer1", "layer2"]),
        ("transformer", ["layers.0", "layers.1"]),
    ],
)
def test_the_peak_is_that_of_a_capture_with_checkpoints(tmp_path: Path, name: str, modules: list[str]) -> None:
    """Within 2 %. What the allocator counts beyond the blocks is left out, as in `test_batch`."""
    pytest.importorskip("torch")
    from tests import memory_truth

    peaks: list[int] = []
    for extra in ((), ("--checkpoint",)):
        switches = (name, "--size", "tiny", "--batch-size", "16", "--optimizer", "adam", *extra)
        made = memory_truth.train(tmp_path / f"{len(peaks)}.json.gz", *switches, steps=3, warmup=1, hooks=False)
        with ha.load(made.path) as trace:
            blocks, saved = _blocks(loop_of(trace))
            if not extra:
                peaks.append(peak_of(without(blocks, saved, modules), 1) - blocks["older_bytes"][0])
            else:
                real = blocks_of(loop_of(trace), 1)
                peaks.append(peak_of(real, 1) - real["older_bytes"][0])
    assert peaks[0] == pytest.approx(peaks[1], rel=0.02)
