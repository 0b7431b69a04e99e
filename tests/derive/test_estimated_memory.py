"""What autograd saves by the shapes of ops, on a trace whose tensors are counted by hand."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import catalog
from tests.derive.tables import Row, step_rows
from tests.trace_builder import TraceBuilder

ENGINE = "autograd::engine::evaluate_function: "


def rows(trace: TraceBuilder, folder: Path) -> list[dict[str, Any]]:
    """The rows of the table."""
    with trace.load(folder) as loaded:
        return loaded.sql("from estimated_memory").to_dicts()


def op(trace: TraceBuilder, name: str, start: int, end: int, *dims: list[int], **more: Any) -> None:
    """An op whose arguments are all tensors of four-byte numbers, but for those of eight in `types`."""
    types = more.pop("types", ["float"] * len(dims))
    trace.op(name, start, end, **{"Input Dims": list(dims), "Input type": types, **more})


def node(trace: TraceBuilder, name: str, start: int, end: int, seq: int, *gradients: list[int]) -> None:
    """A call of the engine, with the node in it, which is given gradients."""
    trace.op(ENGINE + name, start, end, seq=seq, forward_thread=1)
    given = {"Input Dims": list(gradients), "Input type": ["float"] * len(gradients)}
    trace.op(name, start + 1, end - 1, seq=seq, forward_thread=1, **given)


def accumulate(trace: TraceBuilder, start: int, *shapes: list[int]) -> None:
    """Gradients of parameters are added up, 20 us each."""
    for number, sizes in enumerate(shapes):
        at = start + 20 * number
        trace.op(ENGINE + "torch::autograd::AccumulateGrad", at, at + 15)
        op(trace, "torch::autograd::AccumulateGrad", at + 1, at + 14, sizes)


def training() -> TraceBuilder:
    """A linear layer from 3 to 5, ReLU, another from 5 to 2, for 4 samples; the first needs no gradient of its input.

    Saved: the input (4 x 3), the result of ReLU (4 x 5), once for both that need it. Weights are no activations.
    """
    trace = TraceBuilder(rank=0).step(0, 0, 1000).annotation("## forward ##", 0, 300)
    op(trace, "aten::addmm", 10, 50, [5], [4, 3], [3, 5], seq=1)
    op(trace, "aten::relu", 60, 90, [4, 5], seq=2)
    op(trace, "aten::addmm", 100, 150, [2], [4, 5], [5, 2], seq=3)
    trace.annotation("## backward ##", 300, 700)
    node(trace, "AddmmBackward0", 310, 400, 3, [4, 2])
    op(trace, "aten::mm", 320, 340, [4, 2], [2, 5])  # of the input, by the weight
    op(trace, "aten::mm", 350, 370, [2, 4], [4, 5])  # of the weight, by the input
    accumulate(trace, 401, [2], [5, 2])
    node(trace, "ReluBackward0", 450, 500, 2, [4, 5])
    op(trace, "aten::threshold_backward", 460, 480, [4, 5], [4, 5])
    node(trace, "AddmmBackward0", 510, 600, 1, [4, 5])
    op(trace, "aten::mm", 520, 540, [5, 4], [4, 3])
    accumulate(trace, 601, [5], [3, 5])
    trace.annotation("Optimizer.step#Adam.step", 700, 800)
    return trace


def test_what_two_layers_save(tmp_path: Path) -> None:
    found = rows(training(), tmp_path)
    tensors = {(row["category"], row["bytes"], row["start_ns"], row["end_ns"]) for row in found}
    assert tensors == {
        ("parameter", 4 * (2 + 10 + 5 + 15), None, None),
        ("input", 4 * 12, 10_000, 600_000),
        ("activation", 4 * 20, 60_000, 500_000),
    }
    assert {row["step"] for row in found if row["category"] != "parameter"} == {0}


# --- the steps on the way to it --------------------------------------------------------------------------------------


def steps(folder: Path, sql: str) -> list[Row]:
    """Rows of a step for the two layers; times are in microseconds."""
    return step_rows(training().load(folder), "estimated_memory", sql)


def test_accumulated_gradients_are_those_of_one_pass(tmp_path: Path) -> None:
    sql = "select pass_number, sizes, item_bytes, module_id from accumulated_gradient order by sizes"
    assert steps(tmp_path, sql) == [(1, sizes, 4, None) for sizes in ([2], [3, 5], [5], [5, 2])]


def test_sized_nodes_have_the_shape_of_the_result_of_their_op(tmp_path: Path) -> None:
    sql = "select token, place, sizes, item_bytes, start_ns // 1000, end_ns // 1000 from sized_node"
    assert steps(tmp_path, f"{sql} where forward_id is not null order by start_ns") == [
        ("addmm", 0, [4, 2], 4, 310, 400),
        ("relu", 0, [4, 5], 4, 450, 500),
        ("addmm", 0, [4, 5], 4, 510, 600),
    ]


def test_tensor_makers_are_numbered_among_results_of_their_size(tmp_path: Path) -> None:
    """The first layer and ReLU make 20 elements each, the second layer 8."""
    sql = "select start_ns // 1000, elements, number, place, node_ns // 1000 from tensor_maker order by start_ns"
    assert steps(tmp_path, sql) == [(10, 20, 1, 0, 510), (60, 20, 2, 0, 450), (100, 8, 1, 0, 310)]


def test_saved_arguments_are_neither_gradients_nor_parameters(tmp_path: Path) -> None:
    """Of the product at 320 both operands are: a gradient of 4 x 2, and a weight, of which there is a gradient."""
    sql = (
        "select event.start_ns // 1000, position, origin, elements, item_bytes"
        " from saved_argument inner join event using (event_id) order by 1"
    )
    assert steps(tmp_path, sql) == [(350, 1, "argument", 20, 4), (460, 1, "result", 20, 4), (520, 1, "argument", 12, 4)]


def test_saved_tensors_are_kept_until_the_last_node_that_needs_them(tmp_path: Path) -> None:
    """The second layer's node, until 400, and that of ReLU, until 500, need the result of ReLU."""
    sql = (
        "select event.name, event.start_ns // 1000, is_input, bytes, saved_tensor.end_ns // 1000"
        " from saved_tensor inner join event using (event_id) order by 2"
    )
    assert steps(tmp_path, sql) == [("aten::addmm", 10, True, 48, 600), ("aten::relu", 60, False, 80, 500)]


# --- what is made of it ----------------------------------------------------------------------------------------------


def test_memory_breakdown_is_an_estimate(tmp_path: Path) -> None:
    """Parameters 128 bytes, as many of gradients, two of each for Adam, and 128 that are saved."""
    frame = ha.memory_breakdown(training().load(tmp_path), by="category")
    assert frame["is_estimated"].all()
    assert set(frame.select("category", "evidence", "bytes").rows()) == {
        ("parameter", "gradient_shapes", 128),
        ("gradient", "gradient_shapes", 128),
        ("optimizer_state", "optimizer_class", 256),
        ("activation", "backward_shapes", 80),
        ("input", "backward_shapes", 48),
        ("unknown", "not_estimated", None),
    }
    assert set(frame["peak_bytes"]) == {640}
    assert frame["bytes_pct"].sum() == pytest.approx(100)
    # 60 us to 500 us of the result, of the 590 us from the first op on
    activation = frame.filter(category="activation").row(0, named=True)
    assert activation["byte_seconds"] == pytest.approx(80 * 440e-6)
    assert "as shapes tell" in str(ha.charts.memory_breakdown(frame).to_dict()["title"])


def test_allocations_are_not_mixed_with_an_estimate(tmp_path: Path) -> None:
    trace = training()
    trace.memory(64, 65, total=64, device=0, address=1)
    trace.memory(-64, 470, total=0, device=0, address=1)
    assert rows(trace, tmp_path) == []
    frame = ha.memory_breakdown(trace.load(tmp_path, "memory.json"))
    assert not frame["is_estimated"].any()
    assert set(frame["peak_bytes"]) == {64}


def test_sgd_has_state_where_it_multiplies_in_place(tmp_path: Path) -> None:
    for number, name in enumerate(("aten::_foreach_add_", "aten::_foreach_mul_")):
        trace = training()
        trace.annotation("Optimizer.step#SGD.step", 810, 900).op(name, 820, 830)
        # one class alone tells
        written = trace.text().replace("Optimizer.step#Adam.step", "Optimizer.zero_grad#SGD.zero_grad")
        path = tmp_path / f"sgd{number}.json"
        path.write_text(written)
        with ha.load(path) as loaded:
            state = loaded.query("memory_breakdown").filter(category="optimizer_state")["bytes"].to_list()
        assert state == ([128] if number else [])


def test_several_backward_passes_of_a_step(tmp_path: Path) -> None:
    """The gradients of the second pass are of the same parameters."""
    trace = training()
    op(trace, "aten::addmm", 710, 720, [2], [4, 5], [5, 2], seq=4)
    node(trace, "AddmmBackward0", 730, 760, 4, [4, 2])
    accumulate(trace, 761, [2], [5, 2])
    parameters = [row["bytes"] for row in rows(trace, tmp_path) if row["category"] == "parameter"]
    assert parameters == [128]


def test_positions_are_those_of_torch() -> None:
    """Every argument that a rule names is a tensor in torch's schema, and neither a gradient nor a weight."""
    torch = pytest.importorskip("torch")
    text = catalog.shipped_folder().joinpath("rules/saved_arguments.csv").read_text()
    named = 0
    for rule in csv.DictReader(text.splitlines()):
        space, name = rule["name"].split("::")
        packet = getattr(torch.ops.aten, name, None) if space == "aten" else None
        if packet is None:
            continue
        first = next(each for each in ("Tensor", "default", *packet.overloads()) if hasattr(packet, each))
        arguments = getattr(packet, first)._schema.arguments
        for place in [*rule["inputs"].split(), *rule["results"].split()]:
            argument = arguments[int(place)]
            named += 1
            assert "Tensor" in str(argument.type), rule
            assert not argument.name.startswith(("grad", "weight")), rule
    assert named > 100
