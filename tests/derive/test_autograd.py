"""Autograd: nodes and their modules, calls of the engine, first uses of parameters, closures of optimizers."""

from pathlib import Path

from hotline_analysis import catalog
from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder

ENGINE = "autograd::engine::evaluate_function: "


def unnumbered() -> TraceBuilder:
    """Two ops on one thread; on another, a node and a checkpoint that runs a node of its own, all without numbers."""
    trace = TraceBuilder().on(1).op("aten::addmm", 10, 15).op("aten::relu", 20, 25).on(2)
    trace.op(f"{ENGINE}ReluBackward0", 60, 65).op("ReluBackward0", 61, 64)
    trace.op(f"{ENGINE}CheckpointFunctionBackward", 70, 120).op("aten::mul", 75, 80)
    return trace.op(f"{ENGINE}AddmmBackward0", 90, 100)


def test_a_node_has_the_module_of_its_forward_op_or_of_the_node_before(tmp_path: Path) -> None:
    """`node_module`: only a node that adds a gradient up takes the module of the node before it."""
    trace = TraceBuilder().module("Net", 0, 0, 50).module("Linear", 0, 5, 20).op("aten::addmm", 10, 15, seq=1)
    trace.op("aten::relu", 25, 30, seq=2).on(2).backward("ReluBackward0", 60, 65, seq=2)
    trace.backward("AddmmBackward0", 70, 80, seq=1).op(f"{ENGINE}torch::autograd::AccumulateGrad", 80, 90)
    trace.backward("LostBackward0", 95, 99, seq=7)
    found = derived(
        trace,
        tmp_path,
        "select event.name, model_op.name, node_module.evidence from node_module"
        " inner join event using (event_id) inner join model_op using (module_id) order by event_id",
    )
    assert found == [
        (f"{ENGINE}ReluBackward0", "Net_0", "sequence_number"),
        ("ReluBackward0", "Net_0", "sequence_number"),
        (f"{ENGINE}AddmmBackward0", "Linear_0", "sequence_number"),
        ("AddmmBackward0", "Linear_0", "sequence_number"),
        (f"{ENGINE}torch::autograd::AccumulateGrad", "Linear_0", "autograd_order"),
    ]


def test_a_call_of_the_engine_may_stand_in_another(tmp_path: Path) -> None:
    """`engine_call` has no row for the bare `ReluBackward0`, which is a part of the engine's call."""
    found = derived(
        unnumbered(),
        tmp_path,
        "select event.name, token, around.name from engine_call inner join event using (event_id)"
        " left join event as around on engine_call.container_id = around.event_id order by engine_call.start_ns",
    )
    assert found == [
        (f"{ENGINE}ReluBackward0", "relu", None),
        (f"{ENGINE}CheckpointFunctionBackward", "checkpointfunction", None),
        (f"{ENGINE}AddmmBackward0", "addmm", f"{ENGINE}CheckpointFunctionBackward"),
    ]


def test_time_of_a_thread_belongs_to_the_innermost_call_of_the_engine(tmp_path: Path) -> None:
    found = derived(
        unnumbered(),
        tmp_path,
        "select engine_segment.start_ns // 1000, token from engine_segment"
        " left join engine_call on engine_segment.call_id = engine_call.event_id order by 1",
    )
    outer = "checkpointfunction"
    assert found == [(60, "relu"), (65, None), (70, outer), (90, "addmm"), (100, outer), (120, None)]


def test_only_ops_whose_name_a_node_has_can_have_created_one(tmp_path: Path) -> None:
    """`autograd_item`: `aten::mul` has no node; the count of batches before a batch norm has no gradient."""
    trace = unnumbered().on(1).op("aten::add_", 30, 32).op("aten::batch_norm", 33, 40).op("aten::add_", 41, 42)
    trace.on(2).op(f"{ENGINE}AddBackward0", 130, 140)
    found = derived(
        trace,
        tmp_path,
        "select event.name, is_node, is_unlikely, token, around.name from autograd_item inner join event using"
        " (event_id) left join event as around on container_id = around.event_id order by autograd_item.start_ns",
    )
    assert found == [
        ("aten::addmm", False, False, "addmm", None),
        ("aten::relu", False, False, "relu", None),
        ("aten::add_", False, True, "add", None),
        ("aten::add_", False, False, "add", None),
        (f"{ENGINE}ReluBackward0", True, False, "relu", None),
        (f"{ENGINE}CheckpointFunctionBackward", True, False, "checkpointfunction", None),
        (f"{ENGINE}AddmmBackward0", True, False, "addmm", f"{ENGINE}CheckpointFunctionBackward"),
        (f"{ENGINE}AddBackward0", True, False, "add", None),
    ]


def test_alignment_gives_a_node_and_the_function_in_it_their_forward_op(tmp_path: Path) -> None:
    """`node_fitted`: the node in the checkpoint has its forward there, and nothing stands there."""
    found = derived(
        unnumbered(),
        tmp_path,
        "select event.name, forward.name, node.evidence from node inner join event using (event_id)"
        " left join event as forward on node.forward_id = forward.event_id order by node.start_ns",
    )
    assert found == [
        (f"{ENGINE}ReluBackward0", "aten::relu", "alignment"),
        ("ReluBackward0", "aten::relu", "alignment"),
        (f"{ENGINE}CheckpointFunctionBackward", None, None),
        (f"{ENGINE}AddmmBackward0", None, None),
    ]


def test_a_gradient_is_added_up_after_the_node_of_the_first_use(tmp_path: Path) -> None:
    """`first_use`: two ops use one weight; its gradient follows the node of the first one."""
    trace = TraceBuilder().on(1).op("aten::addmm", 10, 15, seq=1)
    first = trace.last_id
    trace.op("aten::addmm", 20, 25, seq=2).op("aten::ones_like", 50, 52).on(2)
    trace.backward("AddmmBackward0", 60, 65, seq=2).backward("AddmmBackward0", 70, 75, seq=1)
    trace.op(f"{ENGINE}torch::autograd::AccumulateGrad", 75, 80)
    made = ("engine_call", "engine_segment", "forward_item")
    assert derived(trace, tmp_path, catalog.get("first_use").sql, *made) == [(first, 50_000)]


def test_an_optimizer_calls_its_closure_twice(tmp_path: Path) -> None:
    """`closure_call`: the second one begins after the update between both, and is the second of this run."""
    trace = TraceBuilder().on(1).annotation("Optimizer.step#LBFGS.step", 0, 100)
    trace.op("aten::linear", 10, 15, seq=1).op("aten::add_", 40, 45).op("aten::linear", 50, 55, seq=2)
    trace.op("aten::add_", 80, 85).on(2).backward("AddmmBackward0", 20, 30, seq=1)
    trace.backward("AddmmBackward0", 60, 70, seq=2)
    sql = "select start_ns // 1000, end_ns // 1000, is_again from closure_call order by start_ns"
    assert derived(trace, tmp_path, sql) == [(0, 30, False), (45, 70, True)]
