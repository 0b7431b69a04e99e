"""The queries that predictions read, each on a few events that were worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hotline_analysis import Trace
from tests.answer.sent_gradients import training as sends_gradients
from tests.answer.shaped import shaped
from tests.trace_builder import TraceBuilder

US = 1000
GRID: dict[str, Any] = {"grid": [8, 1, 1], "block": [256, 1, 1]}


def two_steps() -> TraceBuilder:
    """The kernel of each step runs when the next one has begun."""
    trace = TraceBuilder(rank=0)
    for number, start in enumerate((0, 100)):
        trace.step(number, start, start + 100).module("Linear", 0, start + 5, start + 40)
        shapes: dict[str, Any] = {
            "Input Dims": [[4, 8], [8, 2]],
            "Input type": ["float", "float"],
            "Input Strides": [[8, 1], [2, 1]],
        }
        trace.op("aten::mm", start + 10, start + 30, **shapes)
        trace.launches("sgemm", start + 110, start + 150, at=start + 12, until=start + 15, **GRID)
    return trace


def in_first(trace: Trace, name: str, **given: object) -> list[dict[str, Any]]:
    """The rows of a query about the first step."""
    return trace.query(name, rank=0, start_ns=0, end_ns=100 * US, **given).to_dicts()


def test_editable_event_has_the_work_that_the_steps_launch(tmp_path: Path) -> None:
    with two_steps().load(tmp_path) as trace:
        found = {row["name"]: row for row in in_first(trace, "editable_event")}
        second = trace.query("editable_event", rank=0, start_ns=100 * US, end_ns=200 * US)
    assert set(found) == {"ProfilerStep#0", "nn.Module: Linear_0", "aten::mm", "cudaLaunchKernel", "sgemm"}
    kernel = {key: found["sgemm"][key] for key in ("start_ns", "step", "op", "module_path", "class", "stream")}
    assert kernel == {
        **{"start_ns": 110 * US, "step": 0, "op": "aten::mm", "module_path": "Linear_0", "class": "computation"},
        "stream": 7,
    }
    call = {key: found["sgemm"][key] for key in ("runtime_id", "call_track_id", "call_start_ns", "call_end_ns")}
    on_cpu = found["cudaLaunchKernel"]
    assert call == {
        **{"runtime_id": on_cpu["event_id"], "call_track_id": on_cpu["track_id"]},
        **{"call_start_ns": 12 * US, "call_end_ns": 15 * US},
    }
    assert on_cpu["class"] is on_cpu["call_start_ns"] is None
    # The kernel that runs then was launched before.
    assert second.filter(second["name"] == "sgemm")["start_ns"].to_list() == [210 * US]


def test_kernel_trait_tells_what_a_kernel_computes_and_how_it_is_cut(tmp_path: Path) -> None:
    with two_steps().load(tmp_path) as trace:
        (row,) = in_first(trace, "kernel_trait")
    assert row["dur_ns"] == row["busy_ns"] == 40 * US
    assert (row["family"], row["matrix_flop"], row["vector_flop"]) == ("gemm", 2 * 4 * 8 * 2, 0)
    assert row["bytes"] == 4 * (4 * 8 + 8 * 2 + 4 * 2)
    assert (row["grid"], row["block"], row["blocks"]) == ("[8,1,1]", "[256,1,1]", 8)


def test_kernel_limit_is_the_least_time_in_each_precision(tmp_path: Path) -> None:
    """An FP32 product and an addition on an H100, by its vendor's peaks: 66.9, 494.7 and 989.4 TFLOP/s, 3,352 GB/s."""
    gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}
    trace = TraceBuilder(rank=0, deviceProperties=[gpu]).step(0, 0, 1000)
    square = [512, 512]
    trace.op("aten::mm", 10, 20, **shaped("float", square, square))
    trace.launches("ampere_sgemm_128x64_nn", 100, 200)
    wide = [1000, 1000]
    trace.op("aten::add", 30, 40, **shaped("float", wide, wide, []))
    trace.launches("vectorized_elementwise_kernel", 200, 220)
    with trace.load(tmp_path) as opened:
        product, added = opened.query("kernel_limit", rank=0, start_ns=0, end_ns=1000 * US).to_dicts()
    flop, moved = 2 * 512**3, 3 * 4 * 512 * 512
    assert (product["dtype"], product["bytes"], added["bytes"]) == ("fp32", moved, 12_000_000)
    assert product["memory_ns"] == pytest.approx(moved / 3.352e3)
    assert product["now_ns"] == pytest.approx(flop / 66.9e3)
    assert product["tf32_ns"] == pytest.approx(max(flop / 494.7e3, moved / 3.352e3))
    assert product["half_ns"] == pytest.approx(max(flop / 989.4e3, moved / 2 / 3.352e3))
    assert added["now_ns"] == pytest.approx(12e6 / 3.352e3)
    assert (added["half_ns"], added["tf32_ns"]) == (pytest.approx(6e6 / 3.352e3), None)


def test_backward_node_has_the_shapes_on_both_sides(tmp_path: Path) -> None:
    """The nodes of two layers, in the order of backward; the gradient of a parameter is added behind the first."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.op("aten::mm", 10, 20, seq=0, **shaped("float", [4, 8], [8, 2]))
    trace.op("aten::relu", 30, 40, seq=1, **shaped("float", [4, 2]))
    trace.on(2).op("autograd::engine::evaluate_function: ReluBackward0", 200, 240, seq=1, forward_thread=1)
    trace.op("ReluBackward0", 201, 239, seq=1, forward_thread=1, **shaped("float", [4, 2])).launches("k", 300, 330)
    trace.op("autograd::engine::evaluate_function: MmBackward0", 250, 290, seq=0, forward_thread=1)
    trace.op("MmBackward0", 251, 289, seq=0, forward_thread=1, **shaped("float", [4, 2])).launches("k", 330, 350)
    accumulates = "torch::autograd::AccumulateGrad"
    trace.op(f"autograd::engine::evaluate_function: {accumulates}", 291, 299, seq=2**62, forward_thread=1)
    trace.op(accumulates, 292, 298, seq=2**62, forward_thread=1, **shaped("float", [8, 2]))
    with trace.load(tmp_path) as opened:
        found = opened.query("backward_node", rank=0, step=0).drop("event_id", "read_types").rows()
    assert found == [
        (0, "ReluBackward0", "[[4,2]]", "[[4,2]]", None, 38 * US, 30 * US),
        (0, "MmBackward0", "[[4,2]]", "[[4,8],[8,2]]", "[[8,2]]", 38 * US, 20 * US),
    ]


def test_the_innermost_of_ops_that_start_together_makes_the_node(tmp_path: Path) -> None:
    """`linear` transposes its weight at once: the first node is of `t`, and both ops have its number."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.op("aten::linear", 10, 40, seq=0, **shaped("float", [4, 8], [2, 8], [2]))
    trace.op("aten::t", 10, 15, seq=0, **shaped("float", [2, 8]))
    trace.on(2).op("autograd::engine::evaluate_function: TBackward0", 250, 290, seq=0, forward_thread=1)
    trace.op("TBackward0", 251, 289, seq=0, forward_thread=1, **shaped("float", [8, 2]))
    with trace.load(tmp_path) as opened:
        assert opened.query("backward_node", rank=0, step=0)["read_dims"].to_list() == ["[[2,8]]"]


def test_the_backward_nodes_of_a_step_have_its_gradients(tmp_path: Path) -> None:
    """Of each of two steps, one node; that of the first has not the gradient that the second one adds."""
    trace = TraceBuilder(rank=0)
    accumulates = "torch::autograd::AccumulateGrad"
    for step in (0, 1):
        start = 1000 * step
        trace.on(1).step(step, start, start + 1000)
        trace.op("aten::mm", start + 10, start + 20, seq=2 * step, **shaped("float", [4, 8], [8, 2]))
        backward = {"seq": 2 * step, "forward_thread": 1}
        trace.on(2).op("autograd::engine::evaluate_function: MmBackward0", start + 250, start + 290, **backward)
        trace.op("MmBackward0", start + 251, start + 289, **backward, **shaped("float", [4, 2]))
        if step:
            trace.op(f"autograd::engine::evaluate_function: {accumulates}", 1291, 1299, seq=2**62, forward_thread=1)
            trace.op(accumulates, 1292, 1298, seq=2**62, forward_thread=1, **shaped("float", [8, 2]))
    with trace.load(tmp_path) as opened:
        found = opened.query("backward_node", rank=0).select("step", "parameter_dims").rows()
        assert found == [(0, None), (1, "[[8,2]]")]
        assert opened.query("backward_node", rank=0, step=0).select("step", "parameter_dims").rows() == found[:1]


def test_kernel_like_sums_up_kernels_of_one_name_and_shape(tmp_path: Path) -> None:
    """Ten of 1 to 10 us: the tenth part of them lies between the first and the second, at 1.9 us."""
    trace = TraceBuilder(rank=0)
    for dur in range(1, 11):
        trace.kernel("relu", 20 * dur, 21 * dur, **GRID)
    trace.kernel("relu", 500, 502, grid=[9, 1, 1], block=[256, 1, 1])
    trace.kernel("without a grid", 510, 512).copy(520, 530)
    with trace.load(tmp_path) as opened:
        found = opened.query("kernel_like", rank=0)
    assert found.rows() == [
        ("relu", "[8,1,1]", "[256,1,1]", 10, 5500.0, 1900.0, 9100.0),
        ("relu", "[9,1,1]", "[256,1,1]", 1, 2000.0, 2000.0, 2000.0),
    ]


def test_gradient_bucket_is_full_with_the_gradient_that_brings_it_to_its_size(tmp_path: Path) -> None:
    """Gradients of 1 MiB, 4,096 and 4,000 bytes, which the CPU has added at 233, 248 and 283 us."""
    columns = ("bucket", "bytes", "gradient_count", "end_ns")
    with sends_gradients().load(tmp_path) as trace:

        def buckets(**given: object) -> list[tuple[Any, ...]]:
            found = trace.query("gradient_bucket", rank=0, start_ns=0, end_ns=1000 * US, **given)
            return found.select(columns).rows()

        by_default, all_apart, twice = buckets(), buckets(bucket_mb=0), buckets(total_bytes=2 * (2**20 + 8096))
    assert by_default == [(0, 2**20, 1, 233 * US), (1, 8096, 2, 283 * US)]
    assert all_apart == [(0, 2**20, 1, 233 * US), (1, 4096, 1, 248 * US), (2, 4000, 1, 283 * US)]
    assert [row[1] for row in twice] == [2**21, 2 * 8096]


def saves() -> TraceBuilder:
    """A net of two layers: the first saves blocks 1 and 2, the second block 3 (and a smaller one of the same op)."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000).module("Net", 0, 5, 205)

    def block(address: int, nbytes: int, start: int, end: int) -> None:
        trace.memory(nbytes, start, total=nbytes, device=0, address=address)
        trace.on(2).memory(-nbytes, end, total=0, device=0, address=address).on(1)

    trace.annotation("## forward ##", 0, 210).annotation("## backward ##", 300, 600)
    trace.module("Linear", 0, 10, 100).op("aten::linear", 20, 40, seq=0)
    block(1, 512, 21, 550)
    trace.op("aten::gelu", 50, 60, seq=1)
    block(2, 512, 51, 540)
    trace.module("Linear", 1, 110, 200).op("aten::linear", 120, 140, seq=2)
    block(3, 1024, 121, 440)
    block(4, 512, 122, 441)
    trace.on(2)
    trace.backward("AddmmBackward0", 400, 480, seq=2).backward("GeluBackward0", 500, 580, seq=1)
    return trace.on(1)


def test_saved_block_stands_for_each_module_around_it(tmp_path: Path) -> None:
    with saves().load(tmp_path) as trace:
        address = dict(trace.sql("select block_id, address from memory_block").rows())
        found = {
            (address[row["block_id"]], row["module_path"].rpartition(".")[2]): (
                *(row["call_ns"] // US, row["is_output"], row["needed_until_ns"] // US, row["again_ns"] // US),
            )
            for row in trace.query("saved_block", rank=0, start_ns=0, end_ns=1000 * US).to_dicts()
        }
    assert found == {
        # The last op of the layer is the gelu. Without a second next block, a block is needed until the call ends.
        (1, "Linear_0"): (10, False, 100, 500),
        (2, "Linear_0"): (10, True, 100, 500),
        (3, "Linear_1"): (110, True, 200, 400),
        (4, "Linear_1"): (110, False, 200, 400),
        # Of the net, its last op is that of the second layer, and the backward of this layer comes first.
        (1, "Net_0"): (5, False, 121, 400),
        (2, "Net_0"): (5, False, 122, 400),
        (3, "Net_0"): (5, True, 205, 400),
        (4, "Net_0"): (5, False, 205, 400),
    }


def test_step_block_says_which_blocks_grow_with_the_batch(tmp_path: Path) -> None:
    with saves().load(tmp_path) as trace:
        address = dict(trace.sql("select block_id, address from memory_block").rows())

        def blocks(samples: int) -> dict[int, tuple[Any, ...]]:
            found = trace.query("step_block", rank=0, start_ns=0, end_ns=1000 * US, samples=samples)
            columns = ("bytes", "start_ns", "end_ns", "grows", "device_type", "device")
            return {address[row["block_id"]]: tuple(row[each] for each in columns) for row in found.to_dicts()}

        few, many = blocks(2), blocks(600)
    assert few == {
        1: (512, 21 * US, 550 * US, True, "cuda", 0),
        2: (512, 51 * US, 540 * US, True, "cuda", 0),
        3: (1024, 121 * US, 440 * US, True, "cuda", 0),
        4: (512, 122 * US, 441 * US, True, "cuda", 0),
    }
    # With 600 samples, a block of 512 bytes has less than one for each.
    assert {number: row[3] for number, row in many.items()} == {1: False, 2: False, 3: True, 4: False}


def test_span_event_is_a_part_of_the_trace_with_what_it_launches(tmp_path: Path) -> None:
    trace = two_steps().process_name("python").flow("ac2g", 1, (12, 1), (110, 7), target_pid=0)
    trace.flow("ac2g", 2, (112, 1), (210, 7), target_pid=0)
    asked = trace.ids("aten::mm")[0]
    with trace.load(tmp_path) as opened:
        found = opened.query("span_event", span=asked).select("event_id", "role").rows()
        whole_step = opened.query("span_event", span=trace.ids("ProfilerStep#0")[0])
    first_arrow = trace.ids("ac2g")[:2]
    assert found == sorted(
        [
            *((trace.ids(name)[0], "inside") for name in ("aten::mm", "cudaLaunchKernel")),
            (trace.ids("sgemm")[0], "launched"),
            *((event, "arrow") for event in first_arrow),
            (trace.ids("process_name")[0], "name"),
        ]
    )
    inside = whole_step.filter(whole_step["role"] == "inside")["event_id"].to_list()
    assert inside == [trace.ids(name)[0] for name in ("ProfilerStep#0", "nn.Module: Linear_0", "aten::mm")] + [
        trace.ids("cudaLaunchKernel")[0]
    ]
