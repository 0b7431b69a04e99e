"""Views of modules: those around each, and those whose place is in doubt."""

from pathlib import Path

from tests.derive.tables import rows
from tests.placed_model import WHOLE, placed
from tests.trace_builder import TraceBuilder


def test_a_module_stands_below_all_around_it_and_itself(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 0, 90).module("Sequential", 0, 5, 80)
    trace.module("Linear", 0, 10, 40).op("aten::linear", 15, 35).module("ReLU", 0, 50, 60).op("aten::relu", 52, 58)
    sql = (
        "select module.name, around.name, module_ancestor.depth from module_ancestor"
        " join model_op as module on module_ancestor.module_id = module.module_id"
        " join model_op as around on module_ancestor.ancestor_id = around.module_id order by all"
    )
    with trace.load(tmp_path) as opened:
        assert rows(opened, sql) == [
            ("Linear_0", "Linear_0", 2),
            ("Linear_0", "Net_0", 0),
            ("Linear_0", "Sequential_0", 1),
            ("Net_0", "Net_0", 0),
            ("ReLU_0", "Net_0", 0),
            ("ReLU_0", "ReLU_0", 2),
            ("ReLU_0", "Sequential_0", 1),
            ("Sequential_0", "Net_0", 0),
            ("Sequential_0", "Sequential_0", 1),
        ]


def test_a_module_that_fits_two_ops_is_doubtful_and_one_without_an_op_missing(tmp_path: Path) -> None:
    """Two dropouts take 8 us each, and the second launches 5 us of work; in the second step the relu is missing."""
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900)
    for number, name in enumerate([*WHOLE[:3], "aten::dropout", "aten::add", "aten::dropout", "aten::linear"]):
        trace.op(name, 10 + 10 * number, 18 + 10 * number)
    trace.launches("work of the last linear", 300, 340).step(1, 1000, 1900)
    for number, name in enumerate([WHOLE[0], *WHOLE[2:]]):
        trace.op(name, 1010 + 10 * number, 1018 + 10 * number)
    with placed(trace, tmp_path) as opened:
        columns = "doubtful_call_count, doubt.missing_call_count, cpu_ns, gpu_ns, event_id"
        sql = f"select path, {columns} from module_doubt as doubt join model_op using (module_id) order by path"
        assert rows(opened, sql) == [
            ("block[0].relu", 0, 1, 0, 0, None),
            ("block[1].dropout", 2, 0, 16_000, 0, trace.ids("aten::dropout")[0]),
        ]


def test_modules_at_one_place_of_blocks_that_repeat_have_one_pattern(tmp_path: Path) -> None:
    """`module_pattern`: both layers have two linears, and a sequence of one linear and one relu does not repeat."""
    trace = TraceBuilder().step(0, 0, 400).module("Net", 0, 0, 390)
    for layer, linear in ((0, 0), (1, 2)):
        at = 100 * layer
        trace.module("Layer", layer, at + 5, at + 95)
        trace.module("Linear", linear, at + 10, at + 20).module("Linear", linear + 1, at + 30, at + 40)
        trace.module("ReLU", layer, at + 50, at + 60)
    trace.module("Linear", 4, 250, 260).module("Linear", 5, 270, 280)
    sql = "select path, pattern from module_pattern inner join model_op using (rank, module_id) order by path"
    with trace.load(tmp_path) as opened:
        assert rows(opened, sql) == [
            ("Net_0", "Net_0"),
            ("Net_0.Layer_0", "Net_0.Layer_*"),
            ("Net_0.Layer_0.Linear_0", "Net_0.Layer_*.Linear_0"),
            ("Net_0.Layer_0.Linear_1", "Net_0.Layer_*.Linear_1"),
            ("Net_0.Layer_0.ReLU_0", "Net_0.Layer_*.ReLU"),
            ("Net_0.Layer_1", "Net_0.Layer_*"),
            ("Net_0.Layer_1.Linear_2", "Net_0.Layer_*.Linear_0"),
            ("Net_0.Layer_1.Linear_3", "Net_0.Layer_*.Linear_1"),
            ("Net_0.Layer_1.ReLU_1", "Net_0.Layer_*.ReLU"),
            ("Net_0.Linear_4", "Net_0.Linear_4"),
            ("Net_0.Linear_5", "Net_0.Linear_5"),
        ]


def test_the_pattern_of_names_that_a_capture_stored(tmp_path: Path) -> None:
    """A list of layers repeats, and a sequence of unlike modules does not."""
    modules = [("Net", "Net", None), ("0", "layers.0", 0), ("fc", "layers.0.fc", 1), ("1", "layers.1", 0)]
    modules += [("fc", "layers.1.fc", 3), ("0", "head.0", 0), ("1", "head.1", 0)]
    kinds = ("Net", "Layer", "Linear", "Layer", "Linear", "Linear", "ReLU")
    listed = [
        {"module_id": number, "parent_id": parent, "name": name, "path": path, "type": kind}
        for number, ((name, path, parent), kind) in enumerate(zip(modules, kinds, strict=True))
    ]
    ops = [{"name": "aten::linear", "module_id": module, "call": 0} for module in (2, 4, 5)]
    trace = TraceBuilder().step(0, 0, 100)
    trace.top["hotline_model"] = {"version": 1, "modules": listed, "ops": ops}
    for number in range(3):
        trace.op("aten::linear", 10 * number, 10 * number + 8)
    sql = "select pattern from module_pattern order by module_id"
    with trace.load(tmp_path) as opened:
        found = [pattern for (pattern,) in rows(opened, sql)]
    assert found == ["Net", "layers.*", "layers.*.fc", "layers.*", "layers.*.fc", "head.0", "head.1"]
