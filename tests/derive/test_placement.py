"""What a model is placed on and by what: parts of types, evidence of names, ops of forward, and calls from matches."""

from pathlib import Path

import duckdb

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import parse_model
from tests.derive.tables import Row, derived
from tests.trace_builder import TraceBuilder

ENGINE = "autograd::engine::evaluate_function: "


def asked(name: str, ops: list[str], table: str, columns: str, given: list[Row]) -> list[Row]:
    """The rows of a query that reads one table of types and the names of ops."""
    with duckdb.connect() as connection:
        for rules, lines in catalog.rules().items():
            connection.register(rules, lines)
        connection.execute("create table forward_item (name varchar)")
        connection.executemany("insert into forward_item values (?)", [[op] for op in ops])
        connection.execute(f"create table {table} ({columns})")
        marks = ", ".join("?" * len(given[0]))
        connection.executemany(f"insert into {table} values ({marks})", given)
        return connection.sql(catalog.get(name).sql).fetchall()


def test_a_type_is_made_of_parts(tmp_path: Path) -> None:
    """`type_part`: a container computes nothing, a parametrized one what it was made from."""
    types = [("Linear", False), ("SiLU", False), ("Sequential", True), ("ParametrizedConv2d", True)]
    found = asked("type_part", ["aten::linear"], "module_type", "type varchar, has_children boolean", types)
    assert found == [
        ("Linear", False, 1, "Linear"),
        ("ParametrizedConv2d", True, 1, "Conv2d"),
        ("SiLU", False, 1, "Sigmoid"),
        ("SiLU", False, 2, "Mul?"),
    ]


def test_what_has_an_op_in_the_trace_is_not_written_by_hand() -> None:
    """`type_part` again: nor is a layer in parts where it runs as one op, which stands for all in it."""
    ops = ["aten::silu", "aten::_transformer_encoder_layer_fwd"]
    types = [("SiLU", False), ("TransformerEncoderLayer", True), ("MultiheadAttention", False)]
    found = asked("type_part", ops, "module_type", "type varchar, has_children boolean", types)
    assert [row for row in found if row[0] != "MultiheadAttention"] == [
        ("SiLU", False, 1, "SiLU"),
        ("TransformerEncoderLayer", True, 0, "TransformerEncoderLayer!"),
    ]
    attention = ["Linear", "Linear?", "Linear?", "ScaledDotProductAttention", "Linear"]
    assert [row[3] for row in found if row[0] == "MultiheadAttention"] == attention


def test_a_name_fits_a_type_by_rule_or_by_likeness() -> None:
    """`type_evidence`: dimensions and a last `_` do not matter."""
    ops = ["aten::conv2d", "aten::cudnn_convolution", "aten::relu_", "aten::clamp_min", "mine::gate"]
    found = asked("type_evidence", ops, "leaf_type", "type varchar", [("Conv2d",), ("ReLU",), ("MyGate",), ("Gate",)])
    assert found == [
        ("Conv2d", "aten::conv2d", 8),
        ("Conv2d", "aten::cudnn_convolution", 4),
        ("Gate", "mine::gate", 8),
        ("MyGate", "mine::gate", 4),
        ("ReLU", "aten::clamp_min", 4),
        ("ReLU", "aten::relu_", 8),
    ]


def test_forward_is_the_outermost_ops_without_those_of_an_optimizer(tmp_path: Path) -> None:
    """`forward_item`: a python function is looked through, and so is a node, whose ops say in which call they are."""
    trace = TraceBuilder().on(1).op("aten::linear", 10, 20).op("aten::addmm", 12, 18)
    trace.op("MyFunction", 30, 40).op("aten::mul", 32, 35).annotation("Optimizer.step#SGD.step", 50, 60)
    trace.op("aten::add_", 52, 55).on(2).op(f"{ENGINE}MmBackward0", 70, 80).op("aten::mm", 72, 75)
    found = derived(
        trace,
        tmp_path,
        "select forward_item.name, depth, around.name from forward_item"
        " left join event as around on call_id = around.event_id order by forward_item.start_ns",
        "engine_call",
        "engine_segment",
        "forward_item",
    )
    assert found == [("aten::linear", 0, None), ("aten::mul", 1, None), ("aten::mm", 1, f"{ENGINE}MmBackward0")]


def test_calls_are_runs_of_matched_ops_at_each_level(tmp_path: Path) -> None:
    """`module_call_matched`, `model_op_given`: a module that did not run has no call, and one that is missing."""
    ops = [{"name": name, "type": kind} for name, kind in (("a", "Linear"), ("b", "ReLU"), ("c", "Linear"))]
    model = parse_model([{"name": "net", "type": "Net", "ops": [*ops, {"name": "d", "type": "Dropout"}]}], "the test")
    trace = TraceBuilder().op("aten::linear", 10, 15).op("aten::view", 16, 18).op("aten::relu", 20, 25)
    trace.op("aten::linear", 30, 35)
    found = derived(
        trace,
        tmp_path,
        "select path, start_ns // 1000, end_ns // 1000, module_call.depth, tree_depth, event_id, parent_call_id,"
        " parent_key, pass_number from module_call inner join model_op using (module_key) order by event_id desc",
        model=model,
    )
    assert found == [
        ("net", 10, 35, 0, -0.999, -1, None, None, 0),
        ("net.a", 10, 15, 1, -0.998, -2, -1, "0", 0),
        ("net.b", 20, 25, 1, -0.998, -3, -1, "0", 0),
        ("net.c", 30, 35, 1, -0.998, -4, -1, "0", 0),
    ]
    (tmp_path / "again").mkdir()
    sql = "select path, module_key, parent_id, type, missing_call_count from model_op order by module_id"
    assert derived(trace, tmp_path / "again", sql, model=model) == [
        ("net", "0", None, "Net", 0),
        ("net.a", "1", 0, "Linear", 0),
        ("net.b", "2", 0, "ReLU", 0),
        ("net.c", "3", 0, "Linear", 0),
        ("net.d", "4", 0, "Dropout", 1),
    ]
