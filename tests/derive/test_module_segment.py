"""Calls of modules and who is at work when: the tables behind `module_span` and `label`."""

from pathlib import Path

from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder


def test_a_parametrized_module_takes_the_number_of_its_list(tmp_path: Path) -> None:
    """`module_call`: all parametrized modules have number 0, as each has a class of its own."""
    trace = TraceBuilder().module("ParametrizedLinear", 0, 0, 30).module("ParametrizationList", 3, 2, 8)
    trace.op("aten::mul", 3, 5)
    found = derived(
        trace,
        tmp_path,
        "select module_key, depth, tree_depth, evidence, pass_number, parent_key, around.name from module_call"
        " left join event as around on parent_call_id = around.event_id order by module_call.start_ns",
    )
    assert found == [
        ("ParametrizedLinear_3", 0, 0.0, "nn_module", None, None, None),
        ("ParametrizationList_3", 1, 1.0, "nn_module", None, "ParametrizedLinear_3", "nn.Module: ParametrizedLinear_0"),
    ]


def test_time_belongs_to_the_innermost_module(tmp_path: Path) -> None:
    """`frame_segment`: a call without duration holds nothing."""
    trace = TraceBuilder().module("Net", 0, 0, 50).module("ReLU", 0, 10, 20).module("Identity", 0, 30, 30)
    sql = "select start_ns // 1000, end_ns // 1000, module_key from frame_segment order by start_ns"
    assert derived(trace, tmp_path, sql) == [(0, 10, "Net_0"), (10, 20, "ReLU_0"), (20, 50, "Net_0")]


def test_a_node_hides_the_module_around_it_and_a_module_in_a_node_is_recomputed(tmp_path: Path) -> None:
    """`module_segment`: nothing tells the module of `LostBackward0`."""
    trace = TraceBuilder().module("Net", 0, 0, 50).module("Linear", 0, 5, 20).op("aten::addmm", 10, 15, seq=1)
    trace.backward("LostBackward0", 30, 40, seq=9).backward("AddmmBackward0", 60, 80, seq=1)
    trace.module("Linear", 0, 65, 75)
    found = derived(
        trace,
        tmp_path,
        "select start_ns // 1000, end_ns // 1000, name, pass, evidence, is_node from module_segment"
        " left join model_op using (module_id) order by start_ns",
    )
    assert found == [
        (0, 5, "Net_0", "forward", "nn_module", False),
        (5, 20, "Linear_0", "forward", "nn_module", False),
        (20, 30, "Net_0", "forward", "nn_module", False),
        (30, 40, None, None, None, True),
        (40, 50, "Net_0", "forward", "nn_module", False),
        (60, 65, "Linear_0", "backward", "sequence_number", True),
        (65, 75, "Linear_0", "recompute", "nn_module", False),
        (75, 80, "Linear_0", "backward", "sequence_number", True),
    ]


def test_compiled_code_starts_with_its_look_up(tmp_path: Path) -> None:
    """`compiled_region`: a region in another one is a part of it, and a look-up alone is none."""
    trace = TraceBuilder().op("TorchDynamo Cache Lookup", 2, 4).op("aten::mul", 5, 6)
    trace.op("TorchDynamo Cache Lookup", 10, 12).op("Torch-Compiled Region: 0/0", 12, 40)
    trace.op("Torch-Compiled Region: 1/0", 20, 30).op("Torch-Compiled Region: 2/0", 50, 60)
    found = derived(
        trace,
        tmp_path,
        "select event.name, compiled_region.start_ns // 1000, compiled_region.end_ns // 1000, depth"
        " from compiled_region inner join event using (event_id) order by 2",
    )
    assert found == [("Torch-Compiled Region: 0/0", 10, 40, 0), ("Torch-Compiled Region: 2/0", 50, 60, 0)]
