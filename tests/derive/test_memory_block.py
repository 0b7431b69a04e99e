"""What each block of memory is, by where it is allocated and released, with every block by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.derive.tables import step_rows
from tests.runs import opened
from tests.trace_builder import TraceBuilder

REAL = Path(os.environ.get("HOTLINE_TRACES", "nowhere"))


def told(trace: Trace) -> dict[int, tuple[str, str]]:
    """Category and evidence by address."""
    rows = trace.sql("select address, category, evidence from memory_block order by block_id").rows()
    return {address: (category, evidence) for address, category, evidence in rows}


def training() -> TraceBuilder:
    """A step on a GPU: the batch is copied, two layers, a loss, two nodes of autograd, the optimizer."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)

    def block(address: int, start: int, end: int | None) -> None:
        trace.memory(64, start, total=64, device=0, address=address)
        if end is not None:
            trace.memory(-64, end, total=64, device=0, address=address)

    trace.annotation("enumerate(DataLoader)#_Iter.__next__", 0, 100)
    block(1, 50, 990)
    block(2, 51, 60)
    trace.annotation("## forward ##", 100, 300)
    trace.op("aten::to", 101, 110).launches("Memcpy HtoD (Pageable -> Device)", 103, 105, category="gpu_memcpy")
    block(3, 102, 520)
    trace.op("aten::conv2d", 120, 150).op("aten::convolution", 121, 149).op("aten::empty", 122, 123)
    block(4, 122, 445)  # saved: released in the second node
    block(5, 130, 140)  # inside the convolution
    trace.op("aten::relu", 160, 170)
    block(6, 161, 390)  # released between the loss and the first node, where the label says backward
    block(7, 162, 980)  # the program holds the result
    trace.op("c10d::allreduce_", 200, 240)
    block(8, 210, 350)
    trace.annotation("## loss ##", 300, 350)
    trace.op("aten::nll_loss", 310, 340)
    block(9, 320, 420)
    trace.annotation("## backward ##", 350, 600)
    trace.op("autograd::engine::evaluate_function: NllLossBackward0", 400, 430)
    block(10, 405, 412)
    block(11, 406, 450)
    trace.op("autograd::engine::evaluate_function: ConvolutionBackward0", 440, 500)
    trace.op("aten::convolution_backward", 441, 499)
    block(12, 460, 470)
    block(13, 461, 850)
    trace.annotation("Optimizer.step#Adam.step", 600, 700).op("aten::zeros", 610, 690)
    block(14, 620, None)
    block(15, 621, 650)
    trace.annotation("Optimizer.zero_grad#Adam.zero_grad", 800, 900)
    trace.memory(-64, 870, total=0, device=0, address=16)
    return trace


def test_both_ends_tell_what_a_block_is(tmp_path: Path) -> None:
    assert told(training().load(tmp_path)) == {
        1: ("input", "outlives_load_data"),
        2: ("temporary", "same_phase"),
        3: ("input", "copied_to_device"),
        4: ("activation", "forward_to_backward"),
        5: ("workspace", "same_op"),
        6: ("temporary", "before_backward"),
        7: ("activation", "held_past_backward"),
        8: ("communication_buffer", "communicates"),
        9: ("activation", "forward_to_backward"),
        10: ("temporary", "same_node"),
        11: ("gradient_map", "between_nodes"),
        12: ("workspace", "same_op"),
        13: ("gradient", "released_in_zero_grad"),
        14: ("optimizer_state", "outlives_optimizer"),
        15: ("temporary", "same_phase"),
        16: ("gradient", "released_in_zero_grad"),
    }


def test_where_a_block_is_allocated_and_released(tmp_path: Path) -> None:
    builder = training()
    trace = builder.load(tmp_path)
    row = trace.sql("select * from memory_block where address = 4").row(0, named=True)
    conv, second = (
        builder.ids("aten::conv2d")[0],
        builder.ids("autograd::engine::evaluate_function: ConvolutionBackward0")[0],
    )
    assert (row["phase"], row["op_id"], row["node_id"]) == ("forward", conv, None)
    assert (row["released_phase"], row["released_node_id"]) == ("backward", second)
    assert (row["start_ns"], row["end_ns"]) == (122_000, 445_000)
    # inside a node, the op is the one that the node calls
    row = trace.sql("select * from memory_block where address = 12").row(0, named=True)
    assert (row["op_id"], row["node_id"]) == (builder.ids("aten::convolution_backward")[0], second)


def test_the_steps_of_blocks(tmp_path: Path) -> None:
    """The ops that allocate for themselves are the outermost ones; both ends of a block have a place each."""
    builder = training()
    names = {number: event["name"] for number, event in enumerate(builder.events)}
    trace = builder.load(tmp_path)
    ops = step_rows(trace, "memory_block", "select event_id, is_matrix_op, copies_in, communicates from allocating_op")
    assert {names[event]: tuple(kinds) for event, *kinds in ops} == {
        "aten::to": (False, True, False),
        "aten::conv2d": (True, False, False),
        "aten::relu": (False, False, False),
        "c10d::allreduce_": (False, False, True),
        "aten::nll_loss": (False, False, False),
        "aten::convolution_backward": (True, False, False),
        "aten::zeros": (False, False, False),
    }
    ends = step_rows(
        trace,
        "memory_block",
        "select is_release, phase, op_id, node_id from block_end join block using (block_id) where address = 4",
    )
    assert {release: (phase, names.get(op), names.get(node)) for release, phase, op, node in ends} == {
        False: ("forward", "aten::conv2d", None),
        True: (
            "backward",
            "aten::convolution_backward",
            "autograd::engine::evaluate_function: ConvolutionBackward0",
        ),
    }


def test_forward_that_is_computed_again_keeps_what_it_allocates(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 1000)
    trace.annotation("## forward ##", 0, 100).module("Net", 0, 1, 99).op("aten::mm", 10, 20, seq=1)
    trace.annotation("## backward ##", 100, 900)
    trace.op("autograd::engine::evaluate_function: MmBackward0", 200, 500)
    trace.backward("MmBackward0", 201, 499, seq=1).module("Net", 0, 210, 300).op("aten::mm", 220, 240, seq=2)
    trace.memory(64, 230, total=64, address=1).memory(8, 231, total=72, address=2).memory(-8, 235, total=64, address=2)
    trace.op("autograd::engine::evaluate_function: MmBackward0", 600, 700)
    trace.memory(-64, 650, total=0, address=1)
    assert told(trace.load(tmp_path)) == {1: ("activation", "recomputed"), 2: ("workspace", "same_op")}


def test_each_pass_of_a_step_has_its_own_first_node(tmp_path: Path) -> None:
    """Two batches add to the same gradients. What the second forward releases before its own nodes is not saved."""
    trace = TraceBuilder().step(0, 0, 1000)
    for at in (0, 400):
        trace.annotation("## forward ##", at, at + 100).op("aten::mm", at + 10, at + 60)
        trace.memory(64, at + 20, total=64, address=at + 1).memory(8, at + 30, total=72, address=at + 2)
        trace.memory(-8, at + 150, total=64, address=at + 2)
        trace.annotation("## backward ##", at + 120, at + 300)
        trace.op("autograd::engine::evaluate_function: MmBackward0", at + 200, at + 250)
        trace.memory(-64, at + 220, total=0, address=at + 1)
    found = told(trace.load(tmp_path))
    assert {found[1], found[401]} == {("activation", "forward_to_backward")}
    assert {found[2], found[402]} == {("temporary", "before_backward")}


def test_damaged_sizes_are_no_blocks(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10**15, 1, total=5, address=1).memory(5, 2, total=5, address=2)
    assert set(told(trace.load(tmp_path))) == {2}


@pytest.mark.traces
@pytest.mark.parametrize("name", ["training/ddp_v100_memory", "inference/bert_small_h100", "inference/qwen_h100"])
def test_rows_of_real_traces_add_up_to_what_the_allocator_says(name: str) -> None:
    trace = opened(REAL / f"{name}.json.gz")
    told_by_allocator = dict(
        trace.sql("select device, max(allocated_bytes) from memory_change group by device").iter_rows()
    )
    for by in ("module", "type", "phase", "category"):
        frame = ha.memory_breakdown(trace, by=by)
        for (device,), rows in frame.group_by("device"):
            assert rows["bytes"].sum() == told_by_allocator[device] == rows["peak_bytes"][0]
            assert rows["bytes_pct"].sum() == pytest.approx(100)
            assert rows["byte_seconds_pct"].sum() == pytest.approx(100)
    assert frame.filter(evidence="inconsistent").is_empty()


@pytest.mark.traces
def test_what_no_event_of_a_real_trace_tells_has_a_row_of_its_own() -> None:
    """The allocator's total and the sum of all events differ by the same number of bytes after every one of them."""
    trace = opened(REAL / "training/ddp_v100_memory.json.gz")
    events = trace.sql(
        "select bytes, total_allocated_bytes as total from memory_event join event using (rank, event_id)"
        " where device_type = 1 order by start_ns, event_id"
    )
    beyond = set((events["total"] - events["bytes"].cum_sum()).to_list())
    assert len(beyond) == 1
    frame = ha.memory_breakdown(trace, by="category", device=1)
    assert set(frame.filter(evidence="held_throughout")["bytes"]) == beyond
