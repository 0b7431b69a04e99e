"""What each module sends over the network: by hand, and the buckets that DistributedDataParallel makes itself."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from tests.answer.memory_traces import captured
from tests.answer.sent_gradients import accumulate, training
from tests.answer.steps import step_frame
from tests.trace_builder import TraceBuilder

US = 1000
ROOT = Path(__file__).parents[2]


def by_key(frame: pl.DataFrame, *columns: str) -> dict[tuple[int, str], tuple[object, ...]]:
    rows = frame.select("bucket", pl.col("module_path").str.split(".").list.last(), *columns).rows()
    return {row[:2]: row[2:] for row in rows}


@pytest.mark.slow
def test_the_steps_show_buckets_or_predict_them(tmp_path: Path) -> None:
    """Gradients 1 and 2 are sent from 405 to 500 us, while the GPU computes; gradient 3 after backward, for 40 us."""
    sends, alone = tmp_path / "sends", tmp_path / "alone"
    for folder in (sends, alone):
        folder.mkdir()
    columns = ("place", "bucket", "bucket_bytes", "transfer_ns", "exposed_ns")
    with training(sends=True).load(sends) as trace:
        seen = step_frame(trace, "network_by_module", "seen_bucket").select(columns).sort("place")
        assert step_frame(trace, "network_by_module", "predicted_bucket").is_empty()
        owned = trace.sql(
            "select start_ns, dur_ns, owned_ns from owned_time join gpu_event using (rank, event_id) order by all"
        ).rows()
    assert seen.rows() == [
        (1, 0, 4 * 263168, 95 * US, 0),
        (2, 0, 4 * 263168, 95 * US, 0),
        (3, 1, 4000, 40 * US, 40 * US),
    ]
    # Of a moment in which the GPU computes and communicates, the computation is the owner.
    assert owned == [
        (20 * US, 20 * US, 20 * US),
        (60 * US, 20 * US, 20 * US),
        (300 * US, 10 * US, 0),
        (300 * US, 100 * US, 100 * US),
        (400 * US, 200 * US, 200 * US),
        (405 * US, 95 * US, 0),
        (610 * US, 40 * US, 40 * US),
    ]
    with training().load(alone) as trace:
        predicted = step_frame(trace, "network_by_module", "predicted_bucket").sort("place")
        assert step_frame(trace, "network_by_module", "seen_bucket").is_empty()
    # The first bucket of DistributedDataParallel ends at 1 MiB, which the first gradient is.
    assert predicted.select("place", "bucket", "bucket_bytes").rows() == [
        (1, 0, 4 * 262144),
        (2, 1, 4096 + 4000),
        (3, 1, 4096 + 4000),
    ]


@pytest.mark.slow
def test_gradients_wait_for_their_bucket_and_for_the_one_before(tmp_path: Path) -> None:
    """Two ranks at 1 GB/s: 1 MiB takes 20 + 1,048.576 us from 400 us on, and the rest 20 + 8.096 after it.

    Backward begins at 300 us, and ends at 600.
    """
    found = ha.network_by_module(training().load(tmp_path), ranks=2, gb_per_s=1)
    assert by_key(found, "gradient_count", "bytes", "ready_ns", "slack_ns") == {
        (0, "Linear_1"): (1, 1048576, 100 * US, 200 * US),
        (1, "Linear_1"): (1, 4096, 100 * US, 200 * US),
        (1, "Linear_0"): (1, 4000, 300 * US, 0),
    }
    assert by_key(found, "bucket_bytes", "transfer_ns", "exposed_ns") == {
        (0, "Linear_1"): (1048576, 1_068_576, 868_576),
        (1, "Linear_1"): (8096, 28_096, round(28_096 * 4096 / 8096)),
        (1, "Linear_0"): (8096, 28_096, round(28_096 * 4000 / 8096)),
    }
    assert not found["is_measured"].any()
    # Very many ranks move the bytes twice.
    many = ha.network_by_module(training().load(tmp_path, "many.json"), ranks=10**9, gb_per_s=1)
    assert many["transfer_ns"].max() == 20 * US + 2 * 1048576


@pytest.mark.slow
def test_a_fast_network_leaves_the_last_bucket(tmp_path: Path) -> None:
    found = ha.network_by_module(training().load(tmp_path), ranks=2, gb_per_s=1000)
    # 8.096 ns are 8
    assert by_key(found, "exposed_ns")[0, "Linear_1"] == (0,)
    assert found["exposed_ns"].sum() == pytest.approx(20_008, abs=1)
    one = ha.network_by_module(training().load(tmp_path, "one.json"), ranks=2, gb_per_s=1000, bucket_mb=25)
    assert set(one["bucket"]) == {0}


@pytest.mark.slow
def test_what_is_reduced_is_measured(tmp_path: Path) -> None:
    """The second bucket is reduced beside nothing, and the first one beside the gradient of the other layer."""
    found = ha.network_by_module(training(sends=True).load(tmp_path))
    assert found["is_measured"].all()
    assert by_key(found, "bytes", "bucket_bytes", "transfer_ns", "exposed_ns") == {
        (0, "Linear_1"): (1052672, 1052672, 95 * US, 0),
        (1, "Linear_0"): (4000, 4000, 40 * US, 40 * US),
    }
    unknown = ha.network_by_module(training(shapes=False, sends=True).load(tmp_path, "unknown.json"))
    assert by_key(unknown, "bytes", "evidence", "bucket_bytes", "exposed_ns") == {
        (0, "Linear_1"): (None, None, 1052672, 0),
        (1, "Linear_0"): (None, None, 4000, 40 * US),
    }


def test_what_cannot_be_known(tmp_path: Path) -> None:
    found = ha.network_by_module(training(shapes=False).load(tmp_path))
    unknown = found.select("bucket", "bytes", "evidence", "bucket_bytes", "transfer_ns", "exposed_ns")
    assert unknown.null_count().row(0) == (2,) * 6
    assert found["slack_ns"].to_list() == [200 * US, 0]
    nothing = ha.network_by_module(TraceBuilder(rank=0).step(0, 0, 10).op("aten::mm", 1, 5).load(tmp_path, "none.json"))
    assert nothing.is_empty()


def test_only_some_modules(tmp_path: Path) -> None:
    trace = training().load(tmp_path)
    some = ha.network_by_module(trace, module="Net_0.Linear_0", ranks=2, gb_per_s=1)
    whole = ha.network_by_module(trace, ranks=2, gb_per_s=1)
    assert some.rows() == whole.filter(pl.col("module_path") == "Net_0.Linear_0").rows()


def test_the_table_of_a_capture_tells_sizes(tmp_path: Path) -> None:
    """Module a has 300 bytes in three gradients, and b 390 in one: what is in no shape is in the model's table."""
    trace = TraceBuilder(rank=0, hotline_model=captured()).step(0, 0, 900).annotation("## forward ##", 0, 300)
    trace.op("aten::relu", 20, 90, seq=0).op("aten::relu", 120, 280, seq=1)
    trace.backward("ReluBackward0", 400, 420, seq=1)
    accumulate(trace, 425)
    trace.backward("ReluBackward0", 450, 470, seq=0)
    for at in (475, 485, 495):
        accumulate(trace, at)
    found = ha.network_by_module(trace.load(tmp_path))
    assert found.select("module_path", "bytes", "evidence", "gradient_count", "slack_ns").rows() == [
        ("net.b", 390, "model", 1, 70 * US),
        ("net.a", 300, "model", 3, 0),
    ]


def test_each_backward_pass_has_buckets_of_its_own(tmp_path: Path) -> None:
    """Gradients are accumulated over two batches: each pass fills a bucket of 1 MiB and another one."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    for at in (0, 500):
        trace.annotation("## forward ##", at, at + 50).op("aten::relu", at + 10, at + 40)
        trace.annotation("## backward ##", at + 100, at + 200)
        for place, elements in enumerate((262144, 10)):
            accumulate(trace, at + 110 + 20 * place, elements)
    found = ha.network_by_module(trace.load(tmp_path))
    # Means over passes.
    assert found.select("bucket", "gradient_count", "bytes").rows() == [(0, 1, 1048576), (1, 1, 40)]


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_buckets_are_those_of_distributed_data_parallel(tmp_path: Path) -> None:
    """Of a trace of one process, against what DDP says of two: bytes in all, and the size of each bucket.

    The order of buckets that are full is DDP's; what is left of several types at the end has no order there.
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.ddp_truth", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    truth = json.loads((tmp_path / "truth.json").read_text())
    names = {key.partition(" ")[0] for key in truth}
    assert len(names) == 3
    for name in names:
        with ha.load(tmp_path / f"{name}.json") as trace:
            assert ha.network_by_module(trace)["bytes"].sum() == truth.pop(f"{name} parameters")
            for key in [key for key in truth if key.startswith(f"{name} ")]:
                cap = key.partition(" ")[2]
                found = ha.network_by_module(trace, bucket_mb=None if cap == "None" else float(cap))
                sizes = found.unique("bucket").sort("bucket")["bucket_bytes"].to_list()
                expected = [int(size) for size in truth[key].split(", ")]
                if name == "both":
                    sizes, expected = sorted(sizes), sorted(expected)
                assert sizes == expected, key
