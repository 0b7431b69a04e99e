"""A model placed on a trace that does not tell its modules: which op belongs to which module, by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import HotlineWarning, ModelMismatchError, Trace
from hotline_analysis.annotation.model_file import parse_model
from tests.placed_model import MODEL, WHOLE, placed
from tests.trace_builder import TraceBuilder

PATHS = ["block[0].linear", "block[0].relu", "block[1].linear", "block[1].dropout", "head"]


def forward(ops: Sequence[str], *, steps: int = 1, rank: int = 0) -> TraceBuilder:
    """Steps of one forward pass: ops of 8 us, one every 10 us; all differ in nothing but their names."""
    trace = TraceBuilder(rank=rank)
    for step in range(steps):
        begin = 1000 * step
        trace.on(1).step(step, begin, begin + 900)
        for number, name in enumerate(ops):
            trace.op(name, begin + 10 + 10 * number, begin + 18 + 10 * number)
    return trace


def modules(trace: Trace) -> list[tuple[str, str | None]]:
    """Each op of the first step with the path of its module, in order."""
    rows: list[tuple[str, str | None]] = trace.sql(
        "select event.name, model_op.path from event inner join label using (rank, event_id)"
        " left join model_op using (rank, module_id)"
        " where event.category = 'cpu_op' and label.step = 0 order by event.start_ns"
    ).rows()
    return rows


def test_every_op_has_its_module(tmp_path: Path) -> None:
    with placed(forward(WHOLE), tmp_path) as trace:
        assert modules(trace) == list(zip(WHOLE, PATHS, strict=True))
        spans = trace.sql(
            "select path, call, pass, (start_ns - (select min(start_ns) from step)) // 1000, confidence_pct,"
            " module_span.evidence from module_span inner join model_op using (rank, module_id)"
            " order by module_span.start_ns, module_span.depth"
        ).rows()
    assert spans == [
        ("block[0]", 0, "forward", 10, 100.0, "alignment"),
        ("block[0].linear", 0, "forward", 10, 100.0, "alignment"),
        ("block[0].relu", 0, "forward", 20, 100.0, "alignment"),
        ("block[1]", 0, "forward", 30, 100.0, "alignment"),
        ("block[1].linear", 0, "forward", 30, 100.0, "alignment"),
        ("block[1].dropout", 0, "forward", 40, 100.0, "alignment"),
        ("head", 0, "forward", 50, 100.0, "alignment"),
    ]


@pytest.mark.parametrize("kind", ["aten::cat", "torch.cat", "Concat"])
def test_a_listed_op_between_two_modules(kind: str, tmp_path: Path) -> None:
    """It is listed by its own name; another op beside it is none of it, and without it nothing else is taken."""
    model = [{"name": "wide", "type": "Linear"}, {"name": "joined", "type": kind}, {"name": "head", "type": "Linear"}]
    ops = ["aten::linear", "aten::mul", "aten::cat", "aten::linear"]
    with placed(forward(ops), tmp_path, model) as trace:
        assert modules(trace) == list(zip(ops, ["wide", None, "joined", "head"], strict=True))
        assert trace.sql("select distinct confidence_pct from module_span").rows() == [(100.0,)]
    with placed(forward([*ops[:2], ops[3]]), tmp_path, model, "without.json") as trace:
        assert modules(trace) == [("aten::linear", "wide"), ("aten::mul", None), ("aten::linear", "head")]


@pytest.mark.parametrize(
    ("ops", "paths"),
    [
        # a module that did not run shifts nothing
        ([*WHOLE[:3], WHOLE[4]], [*PATHS[:3], PATHS[4]]),
        # an op between two modules of a block is the block's, and none of theirs
        ([WHOLE[0], "aten::add", *WHOLE[1:]], [PATHS[0], "block[0]", *PATHS[1:]]),
        # an op between the blocks may be anybody's
        ([*WHOLE[:2], "aten::view", *WHOLE[2:]], [*PATHS[:2], None, *PATHS[2:]]),
        # what comes before and after the model is not the model's
        (["aten::gt", *WHOLE, "aten::sum"], [None, *PATHS, None]),
        # two ops of one name, one after the other, are two parts of a module with parameters
        ([*WHOLE, "aten::linear"], [*PATHS, "head"]),
        # older spellings of the same work
        (["aten::addmm", "aten::clamp_min", *WHOLE[2:]], PATHS),
    ],
    ids=["missing", "extra", "between", "around", "two slices", "other names"],
)
@pytest.mark.sampled
def test_missing_and_extra_ops(ops: list[str], paths: list[str | None], tmp_path: Path) -> None:
    with placed(forward(ops), tmp_path) as trace:
        assert modules(trace) == list(zip(ops, paths, strict=True))


def test_what_cannot_be_told_apart_is_marked(tmp_path: Path) -> None:
    """One dropout in the model, two in the trace with an op between: either may be the module's."""
    ops = [*WHOLE[:3], "aten::dropout", "aten::add", "aten::dropout", "aten::linear"]
    with placed(forward(ops), tmp_path) as trace:
        sure = dict(
            trace.sql("select path, confidence_pct from module_span inner join model_op using (rank, module_id)").rows()
        )
    assert sure["block[1].dropout"] == 50.0
    assert sure["block[0].relu"] == 100.0
    assert sure["block[1]"] == pytest.approx(200 / 3)  # the mean of its linear and of two that may be its dropout


def sure_of(trace: Trace) -> dict[str, bool]:
    """By path: whether all calls of a module are sure."""
    return dict(
        trace.sql(
            "select path, min(confidence_pct) = 100 from module_span inner join model_op using (rank, module_id)"
            " where pass = 'forward' group by path order by path"
        ).rows()
    )


def listed(*kinds: str) -> list[dict[str, Any]]:
    return [{"name": f"{number}", "type": kind} for number, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("ops", "kinds", "doubtful"),
    [
        # one of four tables is missing: any may be; the last one does not belong to the linear because it is beside it
        (["embedding_bag"] * 4 + ["linear"], ["EmbeddingBag"] * 3 + ["Linear"], "012"),
        # of three projections one is missing; what the dropout is beside may be none of those listed
        (
            ["layer_norm", "dropout", "linear", "view", "linear", "view", "linear", "view", "layer_norm", "linear"],
            ["LayerNorm", "Dropout", "Linear", "Linear", "LayerNorm", "Linear"],
            "23",
        ),
        # a linear and the relu before it are missing: the relu beside the linear before is not surely the one listed
        (
            ["layer_norm", "linear", "relu", "linear", "relu", "layer_norm"],
            ["LayerNorm", "Linear", "ReLU", "LayerNorm"],
            "12",
        ),
        # norms tell which convolution is missing
        (
            ["conv2d", "batch_norm", "conv2d", "batch_norm", "conv2d", "batch_norm"],
            ["Conv2d", "BatchNorm2d", "BatchNorm2d", "Conv2d", "BatchNorm2d"],
            "",
        ),
        # another way round: two convolutions are listed and one ran
        (["conv2d", "batch_norm", "batch_norm"], ["Conv2d", "Conv2d", "BatchNorm2d", "BatchNorm2d"], "1"),
        # a transposed convolution is none of those that are listed
        (["conv2d", "conv_transpose2d", "conv2d", "linear"], ["Conv2d", "Conv2d", "Linear"], ""),
    ],
    ids=["table", "projection", "linear and relu", "norms", "too many", "transposed"],
)
@pytest.mark.sampled
def test_a_list_may_lack_layers(ops: list[str], kinds: list[str], doubtful: str, tmp_path: Path) -> None:
    """What is sure is right whichever layers are missing."""
    with placed(forward([f"aten::{name}" for name in ops]), tmp_path, listed(*kinds)) as trace:
        assert "".join(path for path, is_sure in sure_of(trace).items() if not is_sure) == doubtful


def test_parts_of_a_call_may_change_places(tmp_path: Path) -> None:
    """The attention of a decoder has a projection for its query, and one for key and value: both are its own."""
    ops = ["layer_norm", "linear", "linear", "view", "scaled_dot_product_attention", "linear", "layer_norm"]
    kinds = ("LayerNorm", "MultiheadAttention", "LayerNorm")
    with placed(forward([f"aten::{name}" for name in ops]), tmp_path, listed(*kinds)) as trace:
        assert [path for _, path in modules(trace)] == ["0", "1", "1", "1", "1", "1", "2"]
        assert ha.doubtful_modules(trace).is_empty()


def test_what_is_written_out_does_not_reach_over_a_layer(tmp_path: Path) -> None:
    """The sum behind the linear, which the list lacks, is no part of the norm before it."""
    norm = ["aten::mean", "aten::rsqrt", "aten::mul"]
    ops = ["aten::linear", *norm, "aten::linear", "aten::add", *norm, "aten::linear", "aten::linear"]
    with placed(forward(ops), tmp_path, listed("Linear", "LayerNorm", "LayerNorm", "Linear", "Linear")) as trace:
        assert [path for _, path in modules(trace)] == ["0", *["1"] * 3, None, None, *["2"] * 3, "3", "4"]


def test_doubtful_calls_are_counted(tmp_path: Path) -> None:
    """In the first of two steps two dropouts fit, 8 us each on the CPU; in the second the relu is missing."""
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900)
    for number, name in enumerate([*WHOLE[:3], "aten::dropout", "aten::add", "aten::dropout", "aten::linear"]):
        trace.op(name, 10 + 10 * number, 18 + 10 * number)
        if name == "aten::dropout":
            trace.launches("mask", 200 + 10 * number, 203 + 10 * number, at=12 + 10 * number, until=14 + 10 * number)
    first = trace.ids("aten::dropout")[0]
    trace.step(1, 1000, 1900)
    for number, name in enumerate([WHOLE[0], *WHOLE[2:]]):
        trace.op(name, 1010 + 10 * number, 1018 + 10 * number)
    with placed(trace, tmp_path) as opened:
        assert ha.doubtful_modules(opened).rows() == [
            # rank, module, path, type, calls, doubtful, missing, CPU time, GPU time, event
            (0, 2, "block[0].relu", "ReLU", 1, 0, 1, 0, 0, None),
            (0, 5, "block[1].dropout", "Dropout", 3, 2, 0, 16_000, 6_000, first),
        ]
        of_modules = ha.coverage(opened).filter(bucket="module")
        assert of_modules.select(pl.col("^(doubtful|missing)_.*$")).rows() == [(2, 6_000, 1)]
        line = ha.report(opened).coverage
    assert line.endswith(
        " 2 of the module calls are doubtful (6.00 µs of GPU time, 16.0 µs of CPU time in forward): they may belong"
        " to other modules. 1 call of a module could not be placed: no op shows it."
    )


def test_without_doubt_nothing_is_said_of_it(tmp_path: Path) -> None:
    with placed(forward(WHOLE), tmp_path) as trace:
        assert ha.doubtful_modules(trace).is_empty()
        assert ha.report(trace).coverage == "The trace has no GPU time."


def registered(*kinds: str) -> dict[str, Any]:
    """The table of a capture that saw no forward pass."""
    modules = [{"name": "Net", "type": "Net", "path": ""}]
    modules += [{"name": str(n), "type": kind, "path": str(n), "parent_id": 0} for n, kind in enumerate(kinds)]  # type: ignore[dict-item]
    return {"order": "registration", "modules": modules}


def test_registered_modules_may_never_run(tmp_path: Path) -> None:
    """A norm and a convolution never run. One of four ops with parameters may be another model's, two of five not."""
    model = registered("Linear", "InstanceNorm1d", "ReLU", "Conv2d", "Linear", "Conv2d")
    ops = ["aten::linear", "aten::relu", "aten::conv2d", "aten::batch_norm", "aten::linear"]
    with placed(forward(ops), tmp_path, model) as trace:
        paths = [path for _, path in modules(trace)]
        assert paths == ["0", "2", "3", "Net", "4"]
        missing = ha.doubtful_modules(trace).filter(pl.col("missing_call_count") > 0)
        assert missing["path"].to_list() == ["1", "5"]
    with pytest.raises(ModelMismatchError, match="the first missing part is 1"):
        placed(forward([*ops, "aten::group_norm"]), tmp_path, model, "other.json")


def test_which_of_two_registered_modules_ran_is_doubtful(tmp_path: Path) -> None:
    """One of two linears before the norm never runs; behind it there is only one."""
    model = registered("Linear", "Linear", "ReLU", "LayerNorm", "Linear")
    with placed(forward(["aten::linear", "aten::relu", "aten::layer_norm", "aten::linear"]), tmp_path, model) as trace:
        counts = ha.doubtful_modules(trace).select(pl.sum("doubtful_call_count", "missing_call_count"))
        sure = trace.sql(
            "select path from module_span inner join model_op using (rank, module_id)"
            " where confidence_pct = 100 order by path"
        )["path"].to_list()
    assert counts.row(0) == (1, 1)
    assert sure == ["2", "3", "4"]


def test_the_model_may_run_several_times_in_a_step(tmp_path: Path) -> None:
    with placed(forward(WHOLE * 3), tmp_path) as trace:
        assert modules(trace) == list(zip(WHOLE * 3, PATHS * 3, strict=True))
        assert trace.sql("select max(call) from module_span where pass = 'forward'").item() == 2


def test_other_work_may_separate_two_passes(tmp_path: Path) -> None:
    """After four passes, a loop of 60 ops goes over the results; the fifth pass follows."""
    between = ["aten::neg"] * 60
    with placed(forward([*WHOLE * 4, *between, *WHOLE]), tmp_path) as trace:
        paths = [path for _, path in modules(trace)]
    assert paths == [*PATHS * 4, *[None] * 60, *PATHS]


def test_backward_without_numbers(tmp_path: Path) -> None:
    """Nodes in reverse order; adding a gradient up belongs to the node before it."""
    trace = forward(WHOLE[:2])
    trace.on(2)
    engine = "autograd::engine::evaluate_function: "
    for number, name in enumerate(["ReluBackward0", "LinearBackward0", "torch::autograd::AccumulateGrad"]):
        trace.op(engine + name, 100 + 20 * number, 118 + 20 * number).op(name, 102 + 20 * number, 116 + 20 * number)
    with placed(trace, tmp_path, MODEL[:1]) as opened:
        found = opened.sql(
            "select event.name, path, label.pass, label.phase, label.evidence from event"
            " inner join label using (rank, event_id) left join model_op using (rank, module_id)"
            " where starts_with(event.name, 'autograd::') order by event.start_ns"
        ).rows()
    assert [row[1:] for row in found] == [
        ("block.relu", "backward", "backward", "alignment"),
        ("block.linear", "backward", "backward", "alignment"),
        ("block.linear", "backward", "backward", "autograd_order"),
    ]


def test_matching_shows_the_forward_phase(tmp_path: Path) -> None:
    """Nothing else in this trace says where forward is."""
    with placed(forward(["aten::gt", *WHOLE], steps=2), tmp_path) as trace:
        rows = trace.sql("select distinct name, phase from label inner join event using (rank, event_id)").rows()
    phases = dict(row for row in rows if row[0].startswith("aten"))
    assert phases == {"aten::gt": "load_data", **dict.fromkeys(WHOLE, "forward")}


def test_a_captured_model_knows_its_ops(tmp_path: Path) -> None:
    """What a capture stores in the trace: ops that no type would explain, and a module called twice."""
    model = {
        "version": 1,
        "modules": [
            {"module_id": 0, "parent_id": None, "name": "Net", "path": "", "type": "Net", "param_count": 12},
            {"module_id": 1, "parent_id": 0, "name": "shared", "path": "shared", "type": "Odd", "source": "net.py:7"},
        ],
        "ops": [
            {"name": "aten::sin", "module_id": 1, "call": 0},
            {"name": "aten::sin", "module_id": 1, "call": 1},
            {"name": "aten::mul", "module_id": 0, "call": 0},
        ],
    }
    built = forward(["aten::sin", "aten::sin", "aten::mul"])
    built.top["hotline_model"] = model
    with built.load(tmp_path) as trace:
        assert modules(trace) == [("aten::sin", "shared"), ("aten::sin", "shared"), ("aten::mul", "Net")]
        calls = trace.sql("select count(*) from module_span where depth = 1").item()
        assert calls == 2
        assert trace.sql("select param_count, source from model_op order by module_id").rows() == [
            (12, None),
            (None, "net.py:7"),
        ]
        assert trace.manifest["warnings"] == []


def test_a_captured_model_may_lack_an_op(tmp_path: Path) -> None:
    """One of four ops that the capture has seen did not run."""
    names = ["aten::sin", "aten::cos", "aten::exp", "aten::mul"]
    built = forward([*names[:2], names[3]])
    built.top["hotline_model"] = {
        "modules": [
            {"module_id": number, "name": name, "path": name, "type": "Odd"} for number, name in enumerate(names)
        ],
        "ops": [{"name": name, "module_id": number, "call": 0} for number, name in enumerate(names)],
    }
    with built.load(tmp_path) as trace:
        assert modules(trace) == [(name, name) for name in [*names[:2], names[3]]]
        assert ha.doubtful_modules(trace).select("path", "missing_call_count").rows() == [("aten::exp", 1)]


def test_a_model_that_does_not_fit_says_where(tmp_path: Path) -> None:
    ops = ["aten::linear", "aten::relu", "aten::conv2d", "aten::conv2d", "aten::conv2d"]
    with pytest.raises(ModelMismatchError) as raised:
        placed(forward(ops), tmp_path)
    message = raised.value.message
    assert "of 5 parts of the model 2 are found" in message
    assert "block[1].linear (Linear, module 4), where the trace has aten::conv2d (event 3)" in message


def test_a_part_of_a_larger_model_does_not_fit(tmp_path: Path) -> None:
    """A trace of ten layers contains every model of three, but is none."""
    ops = ["aten::linear", "aten::relu"] * 10
    model = [{"name": "a", "type": "Linear"}, {"name": "b", "type": "ReLU"}, {"name": "c", "type": "LayerNorm"}]
    with pytest.raises(ModelMismatchError):
        placed(forward([*ops, "aten::layer_norm"]), tmp_path, model)


def test_a_stored_model_that_does_not_fit_is_a_warning(tmp_path: Path) -> None:
    built = forward(["aten::conv2d"] * 3)
    built.top["hotline_model"] = MODEL
    with pytest.warns(ha.HotlineWarning, match="hotline_model in trace.json does not fit"):
        trace = built.load(tmp_path)
    with trace:
        assert trace.sql("select count(*) from model_op").item() == 0


def test_frames_say_more_than_a_model(tmp_path: Path) -> None:
    built = forward(WHOLE).module("Net", 0, 5, 70)
    with pytest.warns(ha.HotlineWarning, match=r"has nn\.Module frames"):
        trace = placed(built, tmp_path)
    with trace:
        assert trace.sql("select path from model_op").rows() == [("Net_0",)]


@pytest.mark.usefixtures("in_processes")
def test_several_files_take_the_model_too(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    for rank in (0, 1):
        forward(WHOLE, rank=rank).write(tmp_path / f"rank{rank}.json.gz")
    with ha.load(str(tmp_path / "rank*.json.gz"), model=tmp_path / "model.json") as trace:
        counts = trace.sql("select count(*) from module_span group by rank").rows()
    assert counts == [(7,), (7,)]


FLAT = {
    "": "Net",
    "stem": "Sequential",
    "stem.0": "Linear",
    "layers": "ModuleList",
    "layers.0": "Block",
    "layers.0.linear": "Linear",
    "layers.0.relu": "ReLU",
    "layers.1": "Block",
    "layers.1.linear": "Linear",
}
AFTER = ["stem.0", "stem", "layers.0.linear", "layers.0.relu", "layers.0", "layers.1.linear", "layers.1", ""]
LEAVES = ["stem.0", "layers.0.linear", "layers.0.relu", "layers.1.linear"]


@pytest.mark.parametrize("names", [list(FLAT), AFTER], ids=["before", "after"])
def test_a_flat_list_of_paths_tells_the_containers(names: list[str]) -> None:
    """As `named_modules` gives it, and as forward hooks see it, which never see a list of modules."""
    model = parse_model([{"name": name, "type": FLAT[name]} for name in names], "model.json")
    paths = [path for path in FLAT if path != "layers"]
    rows = model.modules.to_pylist()
    assert [(row["path"], row["type"]) for row in rows] == [(path or "Net", FLAT[path]) for path in paths]
    assert [row["parent_id"] for row in rows] == [None, 0, 1, 0, 3, 3, 0, 6]
    assert [row["name"] for row in rows][1:] == ["stem", "0", "layers.0", "linear", "relu", "layers.1", "linear"]
    assert (model.note is not None) == ("layers" in names)


def test_a_flat_list_of_leaves_tells_the_containers() -> None:
    """But for those that hold numbers: nothing says whether they run."""
    rows = parse_model([{"name": name, "type": FLAT[name]} for name in LEAVES], "model.json").modules.to_pylist()
    assert [row["path"] for row in rows] == ["stem.0", "layers.0", *LEAVES[1:3], "layers.1", LEAVES[3]]
    assert [row["type"] for row in rows] == ["Linear", "Module", "Linear", "ReLU", "Module", "Linear"]
    assert [row["parent_id"] for row in rows] == [None, None, 1, 1, None, 4]


def test_what_a_flat_list_names_again_is_there_again() -> None:
    """A leaf in the same container, a container with others between, and one that follows itself."""
    names = ["a.x", "a.x", "b.y", "a.x", "c", "c.z", "c", "c.z"]
    entries = [{"name": name, "type": name[-1].upper()} for name in ["a", *names[:2], "b", names[2], "a", *names[3:]]]
    assert parse_model(entries, "model.json").modules.column("path").to_pylist() == [
        *("a[0]", "a[0].x[0]", "a[0].x[1]", "b", "b.y", "a[1]", "a[1].x"),
        *("c[0]", "c[0].z", "c[1]", "c[1].z"),
    ]


def test_a_list_of_modules_runs_nothing(tmp_path: Path) -> None:
    """What stands between the modules that it holds is run by the module around it, in a nested list, too."""
    layers = {"name": "layers", "type": "ModuleList", "ops": [{"name": name, "type": "Linear"} for name in "01"]}
    model = [{"name": "net", "type": "Net", "ops": [layers]}]
    with placed(forward(["aten::linear", "aten::tanh", "aten::linear"]), tmp_path, model) as trace:
        found = trace.sql(
            "select event.name, path from label inner join event on label.event_id = event.event_id"
            " inner join model_op on label.module_id = model_op.module_id where label.pass = 'forward'"
            " order by event.start_ns"
        ).rows()
    assert found == [
        ("aten::linear", "net.layers.0"),
        ("aten::tanh", "net"),
        ("aten::linear", "net.layers.1"),
    ]


def test_a_list_in_the_order_of_registration_is_told(tmp_path: Path) -> None:
    model = [{"name": "layers", "type": "ModuleList"}, *({"name": f"layers.{n}", "type": "Linear"} for n in range(2))]
    with pytest.warns(ha.HotlineWarning, match="lists a ModuleList, which never runs"):
        placed(forward(["aten::linear", "aten::linear"]), tmp_path, model).close()


def test_names_without_paths_stay_flat() -> None:
    modules = parse_model(
        [{"name": "conv"}, {"name": "relu", "type": "ReLU"}, {"type": "Linear"}], "model.json"
    ).modules
    assert modules.column("parent_id").to_pylist() == [None] * 3


def test_a_flat_list_says_as_much_as_a_nested_one(tmp_path: Path) -> None:
    paths: list[str] = []

    def visit(entries: Sequence[dict[str, Any]], above: str) -> None:
        for entry in entries:
            paths.append(f"{above}{entry['name']}:{entry['type']}")
            visit(entry.get("ops", []), f"{above}{entry['name']}.")

    visit(MODEL, "")
    flat = [{"name": name, "type": kind} for name, kind in (path.split(":") for path in paths)]
    assert any("." in entry["name"] for entry in flat)
    tables = []
    for number, model in enumerate((MODEL, flat)):
        (tmp_path / "model.json").write_text(json.dumps(model))
        with ha.load(forward(WHOLE).write(tmp_path / f"{number}.json"), model=tmp_path / "model.json") as trace:
            tables.append((trace.table("model_op"), trace.table("label")))
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("hello", "a list of modules"),
        ({"modules": "no"}, "a list of modules"),
        ([], "without any module"),
        ([{"no": "name"}], "module 0, which has no name or type"),
        ([{"name": "a", "ops": "b"}], "module 0, whose ops are no list"),
        ({"modules": [{"type": "A", "parent_id": 3}]}, "module 0, whose parent does not come before it"),
        ({"modules": [{"type": "A"}], "ops": [{"name": "x", "module_id": 9}]}, "the module_id of a listed module"),
    ],
)
def test_no_model(content: object, what: str) -> None:
    with pytest.raises(ModelMismatchError, match=what):
        parse_model(content, "model.json")


def test_a_model_nested_without_end() -> None:
    deep: dict[str, Any] = {"name": "a", "type": "A"}
    for _ in range(300):
        deep = {"name": "a", "type": "A", "ops": [deep]}
    with pytest.raises(ModelMismatchError, match="levels deep"):
        parse_model([deep], "model.json")


def test_a_path_without_end_is_a_name() -> None:
    assert parse_model([{"name": "a." * 100_000 + "b", "type": "A"}], "model.json").modules.num_rows == 1


@pytest.mark.parametrize("text", ["", "{", '[{"name": "a"'])
def test_a_model_file_that_is_no_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelMismatchError, match="is not JSON"):
        ha.load(forward(WHOLE).write(tmp_path / "trace.json"), model=tmp_path / "model.json")


def test_a_model_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelMismatchError, match="cannot be read"):
        ha.load(forward(WHOLE).write(tmp_path / "trace.json"), model=tmp_path / "none.json")


def test_a_module_that_did_not_run_shares_no_kernel(tmp_path: Path) -> None:
    """The second linear is missing; the kernel of the first one is called after its type, but is not fused."""
    model = [
        {"name": "first", "type": "LayerNorm"},
        {"name": "a", "type": "Linear"},
        {"name": "b", "type": "Linear"},
        *({"name": name, "type": "LayerNorm"} for name in "cdef"),
    ]
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900).op("aten::layer_norm", 5, 9)
    trace.op("aten::linear", 10, 30).launches("linear_kernel", 100, 110)
    for number in range(4):
        trace.op("aten::layer_norm", 40 + 10 * number, 48 + 10 * number)
    with placed(trace, tmp_path, model) as opened:
        assert opened.sql("select count(*) from shared_kernel").item() == 0
        times = opened.sql(
            "select gpu_self_ns from module_time inner join model_op using (rank, module_id)"
            " where path in ('a', 'b') and gpu_self_ns > 0"
        )
        assert times.rows() == [(10000,)]


def test_what_a_hook_sends_is_communication(tmp_path: Path) -> None:
    """DDP sends a bucket of gradients from the hook of one parameter; adding that one up is its module's work."""
    trace = TraceBuilder(rank=0).step(0, 0, 900).module("Linear", 0, 10, 40)
    trace.op("aten::addmm", 15, 35, seq=1)
    trace.on(2).backward("AddmmBackward0", 100, 140, seq=1)
    engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    trace.op(engine, 150, 250).op("torch::autograd::AccumulateGrad", 155, 200)
    trace.op("aten::add_", 160, 180).launches("add_kernel", 300, 320)
    trace.op("c10d::allreduce_", 210, 240).launches("ncclDevKernel_AllReduce", 320, 400)
    with trace.load(tmp_path) as opened:
        found = opened.sql(
            "select event.name, bucket, module_id, evidence from event inner join label using (rank, event_id)"
            " where event.category = 'kernel' order by event.start_ns"
        ).rows()
    assert found == [
        ("add_kernel", "module", 0, "autograd_order"),
        ("ncclDevKernel_AllReduce", "communication", None, None),
    ]


def test_a_module_on_another_thread(tmp_path: Path) -> None:
    """The main thread waits while a worker runs the second block."""
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900)
    for number, name in enumerate(WHOLE):
        trace.on(2 if number in (2, 3) else 1).op(name, 10 + 10 * number, 18 + 10 * number)
    with placed(trace, tmp_path) as opened:
        assert modules(opened) == list(zip(WHOLE, PATHS, strict=True))
        threads = opened.sql("select count(distinct track_id) from module_span where pass = 'forward'").item()
    assert threads == 2


def test_replicas_on_two_threads(tmp_path: Path) -> None:
    """As DataParallel runs them: both threads have the whole model, at the same time."""
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900)
    for thread in (2, 3):
        for number, name in enumerate(WHOLE):
            trace.on(thread).op(name, thread + 10 + 10 * number, thread + 18 + 10 * number)
    with placed(trace, tmp_path) as opened:
        found = opened.sql(
            "select track_id, path from event inner join label using (rank, event_id)"
            " inner join model_op using (rank, module_id) where category = 'cpu_op' order by track_id, event.start_ns"
        ).rows()
    assert [path for _, path in found] == PATHS * 2


def test_a_fused_kernel_is_shared(tmp_path: Path) -> None:
    """One kernel does linear and relu; what does not divide stays with the linear. Its other kernel is not shared."""
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900)
    trace.op("aten::linear", 10, 30).launches("gemm_relu_fused", 100, "110.001").launches("bias", 120, 126)
    trace.op("aten::linear", 40, 50).launches("gemm", 130, 140)
    trace.op("aten::dropout", 60, 70).op("aten::linear", 80, 90).launches("gemm", 150, 160)
    with placed(trace, tmp_path) as opened:
        times = dict(
            opened.sql(
                "select path, gpu_self_ns from module_time inner join model_op using (rank, module_id)"
                " where gpu_self_ns > 0"
            ).rows()
        )
        shared = opened.sql(
            "select event.name, path, gpu_ns from shared_kernel inner join event using (rank, event_id)"
            " inner join model_op using (rank, module_id)"
        ).rows()
        whole = opened.sql("select sum(gpu_self_ns)::bigint from module_time").item()
    assert shared == [("gemm_relu_fused", "block[0].relu", 5000)]
    assert times == {
        "block[0].linear": 5001 + 6000,
        "block[0].relu": 5000,
        "block[1].linear": 10000,
        "head": 10000,
    }
    assert whole == 10001 + 6000 + 10000 + 10000


def test_a_recurrent_loop_is_listed_once(tmp_path: Path) -> None:
    """Two cells and a dropout run for each of three steps in time; an op between the steps is nobody's."""
    kinds = ("Embedding", "LSTMCell", "LSTMCell", "Dropout", "Linear")
    model = [{"name": f"{number}", "type": kind} for number, kind in enumerate(kinds)]
    loop = ["aten::lstm_cell", "aten::lstm_cell", "aten::dropout", "aten::select"]
    ops = ["aten::embedding", *loop * 3, "aten::linear"]
    with placed(forward(ops), tmp_path, model) as trace:
        assert [path for _, path in modules(trace)] == ["0", *["1", "2", "3", None] * 3, "4"]
        calls = trace.sql(
            "select path, max(call) + 1 from module_span inner join model_op using (rank, module_id)"
            " where pass = 'forward' group by path order by path"
        ).rows()
        assert calls == [("0", 1), ("1", 3), ("2", 3), ("3", 3), ("4", 1)]
        assert ha.doubtful_modules(trace).is_empty()


def test_a_pass_does_not_reach_into_the_next(tmp_path: Path) -> None:
    """In a block, an op stands between two linears; at the start of the next pass the like of them are neighbours."""
    inside = [
        ("aten::layer_norm", "LayerNorm"),
        ("aten::linear", "Linear"),
        ("aten::linear", "Linear"),
        ("aten::softmax", None),
        ("aten::layer_norm", "LayerNorm"),
        ("aten::linear", "Linear"),
        ("aten::mul", None),
        ("aten::linear", "Linear"),
        ("aten::add", None),
    ]
    ops = [*inside * 4, *inside[:2]]
    listed = [number for number, (_, kind) in enumerate(ops) if kind]
    model = [{"name": f"{number}", "type": ops[number][1]} for number in listed]
    trace = forward([name for name, _ in ops] * 2)
    with placed(trace, tmp_path, model) as opened:
        found = [path for _, path in modules(opened)]
    expected = [f"{number}" if number in listed else None for number in range(len(ops))]
    assert found == expected * 2


ENGINE = "autograd::engine::evaluate_function: "
ADDS = "torch::autograd::AccumulateGrad"


def trained(ops: Sequence[str], *, firsts: Sequence[int], backward: Sequence[int]) -> TraceBuilder:
    """A step of forward, and a backward pass over some of its ops in reverse; `firsts` hand on a gradient."""
    trace = forward(ops)
    trace.on(2)
    at = 20 + 10 * len(ops)
    for number in sorted(backward, reverse=True):
        words = "".join(word.title() for word in ops[number].removeprefix("aten::").split("_"))
        for name in [f"{words}Backward0", *[ADDS] * (number in firsts)]:
            trace.op(ENGINE + name, at, at + 8).op(name, at + 1, at + 7)
            at += 10
    return trace


def test_modules_listed_once_run_twice(tmp_path: Path) -> None:
    """Two layers run on two inputs before a head. The gradient is added up after the node of the first use."""
    layers = ["aten::linear", "aten::relu", "aten::conv2d"]
    model = [
        {
            "name": "tower",
            "type": "Tower",
            "ops": [{"name": "a", "type": "Linear"}, {"name": "b", "type": "ReLU"}, {"name": "c", "type": "Conv2d"}],
        },
        {"name": "head", "type": "Linear"},
    ]
    ops = [*layers, *layers, "aten::cat", "aten::linear"]
    weights = [0, 2, 3, 5, 7]
    with placed(trained(ops, firsts=[0, 2, 7], backward=weights), tmp_path, model) as trace:
        forward_part = modules(trace)[: len(ops)]
        nodes = modules(trace)[len(ops) :]
        assert ha.doubtful_modules(trace).is_empty()
    towers = ["tower.a", "tower.b", "tower.c"] * 2
    assert [path for _, path in forward_part] == [*towers, None, "head"]
    calls = [path for name, path in nodes if name.startswith(ENGINE)]
    assert calls == ["head", "head", "tower.c", "tower.a", "tower.c", "tower.c", "tower.a", "tower.a"]


def test_modules_that_hand_on_gradients_each_are_no_repeats(tmp_path: Path) -> None:
    """If each of five layers has parameters of its own, a model with one of them is not that of the trace."""
    model = [{"name": "a", "type": "Linear"}, {"name": "b", "type": "ReLU"}, {"name": "c", "type": "LayerNorm"}]
    ops = [*["aten::linear", "aten::relu"] * 5, "aten::layer_norm"]
    every = range(len(ops))
    with pytest.raises(ModelMismatchError, match="belong to no module"):
        placed(trained(ops, firsts=every, backward=every), tmp_path, model)
    with placed(trained(ops, firsts=[0, 10], backward=every), tmp_path, model) as trace:
        assert [path for _, path in modules(trace)[: len(ops)]] == [*["a", "b"] * 5, "c"]


def test_first_uses_by_one_module_contradict_each_other(tmp_path: Path) -> None:
    """A model runs twice. If an op of the second has parameters of its own, it or that of the first is another's."""
    ops = ["aten::embedding", "aten::linear", "aten::relu", "aten::layer_norm", "aten::linear"] * 2
    model = listed("Embedding", "Linear", "ReLU", "LayerNorm", "Linear")
    for own, doubtful in ((9, ["4"]), (None, [])):
        firsts = [0, 1, 3, 4] if own is None else [0, 1, 3, 4, own]
        with placed(trained(ops, firsts=firsts, backward=range(len(ops))), tmp_path, model) as trace:
            assert ha.doubtful_modules(trace)["path"].to_list() == doubtful


@pytest.mark.parametrize(
    ("ops", "kinds", "what"),
    [
        # four blocks are listed and six ran
        (["layer_norm", "linear"] * 6, ["LayerNorm", "Linear"] * 4, "has more layers.*4 of 12 ops"),
        # two of twenty layers did not run
        (["linear", "layer_norm"] * 9, ["Linear", "LayerNorm"] * 10, "lacks 2 of 20 modules with parameters"),
        # layers are those of the trace, and what stands between is not
        (["linear", "relu"] * 4, ["Linear", "Dropout", "ReLU"] * 4, "lacks 4 of 8 other modules"),
        # tables never run
        (["linear", "relu"] * 4, [*["EmbeddingBag"] * 2, *["Linear", "ReLU"] * 4], "lacks 2 of 6 modules with"),
    ],
    ids=["more", "fewer", "between", "tables"],
)
@pytest.mark.sampled
def test_of_a_model_that_fits_in_part_nothing_is_sure(
    ops: list[str], kinds: list[str], what: str, tmp_path: Path
) -> None:
    ops = [f"aten::{op}" for op in ops]
    every = [number for number, op in enumerate(ops) if not op.endswith(("relu", "dropout"))]
    if "other" in what:
        ops.append("aten::dropout")  # such ops are there, but not as many
    with pytest.warns(HotlineWarning, match=what):
        trace = placed(trained(ops, firsts=every, backward=range(len(ops))), tmp_path, listed(*kinds))
    with trace:
        (sure,) = trace.sql("select count(*) from module_span where confidence_pct = 100").rows()[0]
        assert sure == 0
        assert not ha.doubtful_modules(trace).is_empty()


def test_a_trace_may_end_before_the_model(tmp_path: Path) -> None:
    """A fifth of the layers is missing. Where a trace ends in forward, they may follow; not before backward."""
    kinds, ops = ["LayerNorm", "Linear"] * 5, ["aten::layer_norm", "aten::linear"] * 4
    with pytest.warns(HotlineWarning, match="lacks 2 of 10 modules"):
        trace = placed(forward(ops), tmp_path, listed(*kinds))
    with trace:
        assert [path for _, path in modules(trace)] == [str(number) for number in range(8)]
    with pytest.raises(ModelMismatchError, match="of 10 parts of the model 8 are found"):
        placed(trained(ops, firsts=range(8), backward=range(8)), tmp_path, listed(*kinds))


def test_a_module_may_run_as_a_whole(tmp_path: Path) -> None:
    """Torch's fast path of evaluation: one op for a layer of an encoder, and for some of a decoder's attentions.

    Training may follow without a backward pass between.
    """
    attention = {"name": "attention", "type": "MultiheadAttention"}
    layer = {"type": "TransformerEncoderLayer", "ops": [attention, {"name": "ff", "type": "Linear"}]}
    block = {"name": "block", "type": "Block", "ops": [{**attention, "name": "self"}, {**attention, "name": "cross"}]}
    model = [
        {"name": "embed", "type": "Embedding"},
        *({"name": f"layer{number}", **layer} for number in range(2)),
        block,
        {"name": "head", "type": "Linear"},
    ]
    whole, own = "aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"
    attend = [*["aten::linear"] * 3, "aten::scaled_dot_product_attention", "aten::linear"]
    evaluated = ["aten::embedding", whole, whole, own, *attend, "aten::linear"]
    in_training = ["aten::embedding", *[*attend, "aten::linear"] * 2, *attend, *attend, "aten::linear"]
    paths = ["embed", "layer0", "layer1", "block.self", *["block.cross"] * 5, "head"]
    for name, ops in (("alone.json", evaluated), ("both.json", [*evaluated, *in_training])):
        with placed(forward(ops), tmp_path, model, name) as trace:
            found = [path for _, path in modules(trace)]
        assert found[: len(evaluated)] == paths
    layers = [f"layer{number}.{part}" for number in range(2) for part in [*["attention"] * 5, "ff"]]
    assert found[len(evaluated) :] == ["embed", *layers, *["block.self"] * 5, *["block.cross"] * 5, "head"]


def test_a_module_that_may_run_as_a_whole_runs_again(tmp_path: Path) -> None:
    """The layer of a model that is listed once runs three times in training, and in the evaluation behind as one op."""
    parts = [{"name": "a", "type": "Linear"}, {"name": "b", "type": "ReLU"}, {"name": "c", "type": "LayerNorm"}]
    model = [{"name": "layer", "type": "TransformerEncoderLayer", "ops": parts}, {"name": "head", "type": "Conv2d"}]
    ops = [*["aten::linear", "aten::relu", "aten::layer_norm"] * 3, "aten::conv2d"]
    trace = trained(ops, firsts=[0, 2, 9], backward=range(len(ops))).on(1)
    for number, op in enumerate(["aten::_transformer_encoder_layer_fwd", "aten::conv2d"]):
        trace.op(op, 700 + 10 * number, 708 + 10 * number)
    with placed(trace, tmp_path, model) as opened:
        found = [path for name, path in modules(opened) if name.startswith("aten::")]
        assert ha.doubtful_modules(opened).is_empty()
    assert found == [*["layer.a", "layer.b", "layer.c"] * 3, "head", "layer", "head"]


def test_a_model_may_have_one_layer(tmp_path: Path) -> None:
    trace = trained(["aten::linear", "aten::relu", "aten::linear"], firsts=[0], backward=[0, 2])
    with placed(trace, tmp_path, listed("Linear", "ReLU")) as opened:
        assert [path for _, path in modules(opened)][:3] == ["0", "1", "0"]


def test_a_loop_that_calls_modules_in_another_order(tmp_path: Path) -> None:
    """An embedding runs before the encoder and in each step of the decoder's loop."""
    kinds = {"embed": "Embedding", "encode": "GRU", "attend": "Linear", "cell": "GRUCell", "out": "Linear"}
    model = [{"name": name, "type": kind} for name, kind in kinds.items()]
    loop = ["attend", "embed", "cell", "out"]
    order = ["embed", "encode", *loop * 3]
    op_of = {"Embedding": "aten::embedding", "GRU": "aten::gru", "Linear": "aten::linear", "GRUCell": "aten::gru_cell"}
    ops = [op_of[kinds[name]] for name in order]
    firsts = [order.index(name) for name in kinds]
    with placed(trained(ops, firsts=firsts, backward=range(len(ops))), tmp_path, model) as trace:
        assert [path for _, path in modules(trace)[: len(ops)]] == order


def test_parts_of_a_model_run_apart(tmp_path: Path) -> None:
    """Two nets trained in turn: each stretch has one of them, and both together are the model."""
    model = [
        {"name": "first", "type": "Net", "ops": [{"name": "a", "type": "Conv2d"}, {"name": "b", "type": "ReLU"}]},
        {"name": "second", "type": "Net", "ops": [{"name": "c", "type": "Linear"}, {"name": "d", "type": "ReLU"}]},
    ]
    trace = TraceBuilder(rank=0).on(1).step(0, 0, 900)
    at = 10
    for name in ("Conv2D", "Linear"):
        op = f"aten::{name.lower()}"
        trace.on(1).op(op, at, at + 8).op("aten::relu", at + 10, at + 18)
        for node in ("ReluBackward0", f"{name}Backward0", ADDS):
            trace.on(2).op(ENGINE + node, at + 20, at + 28).op(node, at + 21, at + 27)
            at += 10
        at += 40
    with placed(trace, tmp_path, model) as opened:
        found = [path for name, path in modules(opened) if name.startswith("aten::")]
        assert ha.doubtful_modules(opened).is_empty()
    assert found == ["first.a", "first.b", "second.c", "second.d"]


def test_a_model_ends_with_what_makes_probabilities(tmp_path: Path) -> None:
    """A loss that takes logits makes them probabilities itself, so that a sigmoid before one is the model's."""
    ops = [*WHOLE, "aten::sigmoid", "aten::squeeze", "aten::binary_cross_entropy"]
    with placed(forward(ops), tmp_path) as trace:
        phases = trace.sql(
            "select name, phase, module_id from label inner join event using (rank, event_id)"
            " where category = 'cpu_op' order by start_ns"
        ).rows()
    assert [row[1:] for row in phases[len(WHOLE) :]] == [("forward", None), ("loss", None), ("loss", None)]
