"""Whole reports as text, compared with those in `tests/golden`.

A change of words or figures shows as a difference of lines. If it is meant, write the files again and read the
difference before committing it:

    python -m tests.test_golden
"""

import difflib
import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
WRITE = "python -m tests.test_golden"


def training_loop() -> TraceBuilder:
    """Two steps of 1 ms with every phase, on one GPU; the third of the three kernels is a collective."""
    builder = TraceBuilder(rank=0, world_size=2)
    for number in (0, 1):
        base = 1000 * number
        builder.on(1).step(number + 1, base, base + 1000)
        builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", base, base + 200)
        builder.module("Net", 0, base + 200, base + 400)
        builder.module("Linear", 0, base + 250, base + 350)
        builder.op("aten::addmm", base + 260, base + 340, seq=number)
        builder.launches("ampere_sgemm_128x64_tn", base + 300, base + 500)
        builder.op("aten::mse_loss", base + 400, base + 450)
        builder.op("aten::_fused_sgd_", base + 720, base + 880).launches("multi_tensor_sgd", base + 850, base + 900)
        builder.annotation("Optimizer.step#SGD.step", base + 700, base + 900)
        builder.on(2).backward("AddmmBackward0", base + 460, base + 600, seq=number)
        builder.launches("ampere_sgemm_64x32_nn", base + 550, base + 700)
        builder.op("c10d::allreduce_", base + 610, base + 690)
        builder.launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", base + 700, base + 800, stream=20)
    return builder


def copied(name: str) -> Callable[[Path], Path]:
    """A trace that we captured ourselves."""
    return lambda folder: HERE / "data" / f"{name}.json.gz"


TRACES: dict[str, Callable[[Path], Path]] = {
    "training_loop": lambda folder: training_loop().write(folder / "training_loop.json"),
    "no_steps_no_shapes": lambda folder: (
        TraceBuilder().op("aten::mm", 0, 10).launches("gemm", 12, 20).write(folder / "no_steps_no_shapes.json")
    ),
    "cnn_checkpoint": copied("cnn_checkpoint"),
    "dlrm": copied("dlrm"),
}


def written(name: str) -> dict[str, str]:
    """The first screen in a pipe and the whole report, by the name of the golden file."""
    with TemporaryDirectory() as folder, ha.load(TRACES[name](Path(folder))) as trace:
        # What code is at hand is another on every machine.
        report = ha.report(trace, source_lines=False)
    return {f"{name}.txt": report.to_text(), f"{name}.screen.txt": report.to_screen(width=80)}


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.sampled
def test_report_is_the_golden_one(name: str) -> None:
    for file, text in written(name).items():
        golden = (GOLDEN / file).read_text(encoding="utf-8")
        lines = difflib.unified_diff(golden.splitlines(), text.splitlines(), "golden", "now", lineterm="")
        difference = "\n".join(lines)
        assert not difference, f"{file} has changed; if that is meant: {WRITE}\n{difference}"


def test_every_golden_report_is_compared() -> None:
    assert {path.name.partition(".")[0] for path in GOLDEN.iterdir()} == set(TRACES)
    assert len(list(GOLDEN.iterdir())) == 2 * len(TRACES)


def lines_of(name: str) -> list[str]:
    """The lines of a golden report, each with single spaces."""
    return [" ".join(line.split()) for line in (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()]


def test_figures_of_the_training_loop_by_hand() -> None:
    """Each step: kernels at 300-500, 550-700, 700-800 and 850-900 µs, so the GPU is busy for 500 and idle for 500."""
    lines = lines_of("training_loop")
    assert "steps 2, mean 1.00 ms (1.00 ms to 1.00 ms)" in lines
    text = " ".join(lines)
    # Nothing waits for the GPU: the step is as long as what the CPU does. The loader has 200 of 1,000 µs, the loss 50
    # on CPU tensors, ops and calls 460, and python the rest.
    assert "The CPU, for 100.0 % of the step" in text
    assert "loading data 20.0 % and arithmetic on CPU tensors 5.0 %" in text
    assert "1. 20.0 %: Batches that the DataLoader makes in the main process: once, 200 µs." in text
    # The optimizer takes 200 of the 1,000 µs of a step: 1 / (1 - 0.2).
    assert "Without the optimizer, a step would be at most 20.0 % shorter (1.25 times faster)" in text
    # Idle: 200 while the loader runs, 100 in the forward pass and 50 + 50 + 100 later, in each of the two.
    assert "1 1.00 ms 4 500 µs 50.0 % 500 µs" in lines
    assert "2 1.00 ms 4 500 µs 50.0 % 500 µs" in lines
    # Of both steps. CPU: 200, 200, 50, 240 (from backward's start at 460 to the optimizer's), 200 and 110 µs each.
    # GPU: 200 forward, 250 backward with its collective, 50 optimizer.
    assert [
        line for line in lines if line.startswith(("load_data ", "forward ", "loss ", "backward ", "opt", "other "))
    ][:6] == [
        "load_data 400 µs 20.0 % 0 ns 0 ns 0.0 % 400 µs",
        "forward 400 µs 20.0 % 0 ns 400 µs 40.0 % 200 µs",
        "loss 100 µs 5.0 % 0 ns 0 ns 0.0 % 0 ns",
        "backward 480 µs 24.0 % 0 ns 500 µs 50.0 % 100 µs",
        "optimizer 400 µs 20.0 % 0 ns 100 µs 10.0 % 100 µs",
        "other 220 µs 11.0 % 0 ns 0 ns 0.0 % 200 µs",
    ]
    # 2 x 200 µs forward and 2 x 150 µs backward belong to the linear layer.
    assert "Net_0.Linear_0 700 µs 100.0 % 700 µs 400 µs 300 µs" in lines
    assert "GPU time in the file: 1.00 ms = module 70.0 %, communication 20.0 %, optimizer 10.0 %." in lines


def test_figures_of_a_captured_trace_by_plain_loops() -> None:
    with gzip.open(HERE / "data" / "cnn_checkpoint.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    lines = lines_of("cnn_checkpoint")
    assert any(line.startswith(f"events {len(events):,} in ") for line in lines)
    steps = [event["dur"] for event in events if str(event["name"]).startswith("ProfilerStep#")]
    mean = sum(steps) / len(steps) / 1000
    assert any(line.startswith(f"steps {len(steps)}, mean {mean:.1f} ms") for line in lines)
    inside: dict[str, list[float]] = defaultdict(list)
    reached: dict[tuple[str, int], float] = {}
    calls: dict[str, int] = defaultdict(int)
    for event in sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: (e["ts"], -e["dur"])):
        calls[event["name"]] += 1
        place = event["name"], event["tid"]
        if event["ts"] >= reached.get(place, 0):  # not inside an op of the same name
            inside[event["name"]].append(event["dur"])
            reached[place] = event["ts"] + event["dur"]
    table = lines[lines.index("Slowest ops") + 2 :]
    rows = table[: next(number for number, line in enumerate(table) if line.startswith("Self:"))]
    assert len(rows) == 8
    for row in rows:
        name, count, *_, total, unit = row.split()
        assert int(count.replace(",", "")) == calls[name]
        assert float(total) == pytest.approx(sum(inside[name]) / {"µs": 1, "ms": 1000}[unit], rel=0.006)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for each in TRACES:
        for file, text in written(each).items():
            (GOLDEN / file).write_text(text, encoding="utf-8")
