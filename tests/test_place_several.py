"""Several models placed on a trace that does not tell its modules: which pass is which model's, by hand.

The levels of a pass are the table `pass_level`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis.annotation.model_file import parse_model
from tests.trace_builder import TraceBuilder

Models = dict[str, Sequence[str]]
"""The ops that a capture saw of each model, by its name."""

LINEAR, RELU, TANH, NORM, ADD = (f"aten::{name}" for name in ("linear", "relu", "tanh", "batch_norm", "add"))
PLAIN = [LINEAR, RELU, LINEAR]


def captured(models: Models, calls: Sequence[tuple[str, bool]] = ()) -> dict[str, Any]:
    """The table of a capture: each model is one module, and the calls of a step with whether they were trained."""
    names = list(models)
    ops: list[dict[str, Any]] = []
    rows = []
    for number, (name, own) in enumerate(models.items()):
        begin = len(ops)
        ops += [{"name": op, "module_id": number, "call": 0} for op in own]
        rows.append({"name": name, "module_id": number, "order": "execution", "ops": [begin, len(ops)]})
    return {
        "version": 1,
        "order": "execution",
        "notes": [],
        "modules": [
            {"module_id": number, "parent_id": None, "name": name, "path": name, "type": "Net"}
            for number, name in enumerate(names)
        ],
        "ops": ops,
        "parameters": [],
        "models": rows,
        "calls": [[names.index(name), int(is_trained)] for name, is_trained in calls],
    }


def spans(ops: Sequence[Sequence[str]], table: dict[str, Any], tmp_path: Path) -> list[tuple[str, int, int, float]]:
    """Model, place of the first and the last op, and confidence of each pass, for the ops of each step.

    Ops are 8 us long, one every 10 us, and a step has 100 places.
    """
    trace = TraceBuilder(rank=0)
    trace.top["hotline_model"] = table
    for step, names in enumerate(ops):
        trace.on(1).step(step, 1000 * step, 1000 * step + 990)
        for place, name in enumerate(names):
            trace.op(name, 1000 * step + 10 * place, 1000 * step + 10 * place + 8)
    with trace.load(tmp_path) as run:
        rows: list[tuple[str, int, int, float]] = run.sql(
            "select path, (start_ns - origin) // 10_000, (end_ns - origin) // 10_000, confidence_pct"
            " from module_span inner join model_op using (rank, module_id)"
            " cross join (select min(start_ns) as origin from step) order by start_ns"
        ).rows()
    return rows


def test_models_that_look_alike_follow_each_other_as_in_the_step_that_was_seen(tmp_path: Path) -> None:
    table = captured({"a": PLAIN, "b": PLAIN}, [("b", True), ("b", True), ("a", True)])
    step = [*PLAIN, *PLAIN, ADD, *PLAIN]
    assert spans([step, step], table, tmp_path) == [
        ("b", 0, 2, 100.0),
        ("b", 3, 5, 100.0),
        ("a", 7, 9, 100.0),
        ("b", 100, 102, 100.0),
        ("b", 103, 105, 100.0),
        ("a", 107, 109, 100.0),
    ]


def test_without_an_order_models_that_look_alike_are_a_guess(tmp_path: Path) -> None:
    rows = spans([[*PLAIN, TANH]], captured({"a": PLAIN, "b": PLAIN, "c": [TANH, LINEAR]}), tmp_path)
    assert rows == [("a", 0, 2, 50.0)]


def test_the_longer_model_counts_where_it_holds_the_ops_of_another(tmp_path: Path) -> None:
    table = captured({"small": PLAIN, "large": [*PLAIN, RELU, LINEAR]})
    assert spans([[*PLAIN, RELU, LINEAR, *PLAIN]], table, tmp_path) == [("large", 0, 4, 100.0), ("small", 5, 7, 100.0)]


def test_a_pass_that_took_another_way_is_found_where_its_turn_is(tmp_path: Path) -> None:
    """Half of the ops of the first model are there, and the second model's could be found among them."""
    usual = [LINEAR, NORM, RELU, LINEAR, TANH, LINEAR]
    table = captured({"first": usual, "second": PLAIN}, [("first", True), ("second", True)])
    other = [LINEAR, NORM, RELU, LINEAR, ADD, ADD]
    assert spans([[*usual, *PLAIN], [*other, *PLAIN]], table, tmp_path) == [
        ("first", 0, 5, 100.0),
        ("second", 6, 8, 100.0),
        ("first", 100, 103, 100.0),
        ("second", 106, 108, 100.0),
    ]


def test_a_single_layer_is_a_model_only_where_its_turn_is(tmp_path: Path) -> None:
    table = captured({"net": [*PLAIN, TANH], "head": [LINEAR]}, [("net", True), ("head", True)])
    step = [*PLAIN, TANH, ADD, LINEAR, ADD, LINEAR, LINEAR]
    assert spans([step, step], table, tmp_path) == [
        ("net", 0, 3, 100.0),
        ("head", 5, 5, 100.0),
        ("net", 100, 103, 100.0),
        ("head", 105, 105, 100.0),
    ]


def test_a_model_that_does_not_run_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    table = captured({"net": [*PLAIN, TANH], "unused": [NORM, NORM, RELU]})
    assert spans([[*PLAIN, TANH]], table, tmp_path) == [("net", 0, 3, 100.0)]


def test_a_frozen_model_is_not_trained(tmp_path: Path) -> None:
    """The order alone would take the first pass for the model that the step begins with; its weight has a gradient."""
    table = captured({"frozen": PLAIN, "model": PLAIN}, [("frozen", False), ("model", True)])
    trace = TraceBuilder(rank=0)
    trace.top["hotline_model"] = table
    trace.on(1).step(0, 0, 990)
    for place, name in enumerate(PLAIN):
        trace.op(name, 10 * place, 10 * place + 8, seq=place)
    trace.on(2)
    for place in range(len(PLAIN)):
        begin = 100 + 20 * place
        trace.backward(f"{PLAIN[-1 - place]}Backward0", begin, begin + 8, seq=len(PLAIN) - 1 - place)
        trace.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", begin + 9, begin + 15)
        trace.op("torch::autograd::AccumulateGrad", begin + 10, begin + 14)
    with trace.load(tmp_path) as run:
        paths = run.sql(
            "select distinct path from module_span inner join model_op using (rank, module_id) where pass = 'forward'"
        )
    assert paths["path"].to_list() == ["model"]


@pytest.mark.parametrize(
    "damage",
    [
        {"models": [{"name": "a"}]},
        {"models": [{"name": "a", "module_id": 9, "ops": [0, 3]}]},
        {"models": [{"name": "a", "module_id": 0, "ops": [2, 1]}]},
        {"models": [{"name": "a", "module_id": 0, "ops": [0, 99]}]},
        {"models": [{"name": 1, "module_id": 0, "ops": [0, 1]}]},
        {"models": [None]},
    ],
)
def test_a_damaged_table_is_one_sentence(damage: dict[str, Any]) -> None:
    with pytest.raises(ha.ModelMismatchError, match="is not a model description: it is wrong at model 0"):
        parse_model(captured({"a": PLAIN}) | damage, "the test")


def test_a_damaged_order_is_left_out() -> None:
    for calls in ([[0]], [[5, 1]], ["a"], {"a": 1}, [[0, 1], None]):
        assert parse_model(captured({"a": PLAIN}) | {"calls": calls}, "the test").order == []
