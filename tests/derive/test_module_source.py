"""Where the code of modules, ops and python functions is, as python stacks and captures tell."""

import json
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def stacks() -> TraceBuilder:
    """A model of the user's, with a torch Sequential of a torch Linear and a layer of the user's."""
    trace = TraceBuilder(rank=0).step(0, 0, 1000)
    trace.frame("train.py(10): <module>", 1, 990).frame("train.py(42): step", 2, 980).module("Net", 0, 10, 600)
    trace.frame("torch/nn/modules/module.py(1501): _call_impl", 12, 590)
    trace.frame("/opt/lib/python3.12/site-packages/lib/net.py(7): forward", 14, 580).module("Sequential", 0, 20, 500)
    trace.frame("torch/nn/modules/container.py(217): forward", 22, 490).module("Linear", 0, 30, 200)
    trace.frame("torch/nn/modules/linear.py(113): forward", 32, 190).op("aten::addmm", 40, 180)
    trace.module("Scale", 0, 210, 480).frame("functools.py(9): inner", 212, 470)
    trace.frame("/opt/lib/python3.12/site-packages/lib/net.py(31): forward", 214, 460).op("aten::mul", 220, 400)
    return trace.frame("/opt/lib/python3.12/abc.py(3): forward", 610, 700).op("aten::sum", 620, 690)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return stacks().load(tmp_path_factory.mktemp("stacks"))


NET = "/opt/lib/python3.12/site-packages/lib/net.py"


def test_a_function_is_taken_apart(trace: Trace) -> None:
    found = trace.sql("select file, line, function, origin from python_function order by file, line").rows()
    assert found == [
        ("/opt/lib/python3.12/abc.py", 3, "forward", "standard"),
        (NET, 7, "forward", "library"),
        (NET, 31, "forward", "library"),
        ("functools.py", 9, "inner", "standard"),
        ("torch/nn/modules/container.py", 217, "forward", "torch"),
        ("torch/nn/modules/linear.py", 113, "forward", "torch"),
        ("torch/nn/modules/module.py", 1501, "_call_impl", "torch"),
        ("train.py", 10, "<module>", "user"),
        ("train.py", 42, "step", "user"),
    ]


def test_code_that_the_compiler_wrote_is_nobodys(tmp_path: Path) -> None:
    """What runs in it belongs to the function that was compiled; a file of the user's may have a long name, too."""
    generated = "torchinductor_user/7h/c7hkxsk5ugidcb43thxaly333kvnqcngwhwdzzpcdo75w3fkm6an.py(245): call"
    trace = TraceBuilder().step(0, 0, 100).frame("net.py(9): forward", 5, 90)
    trace.op("Torch-Compiled Region: 0/0", 10, 80).frame(generated, 20, 70)
    trace.frame("triton/runtime/jit.py(300): run", 25, 60).op("triton_poi_fused_add_0", 30, 50)
    kernel = trace.last_id
    trace.frame("convolutionandnormalizationandactivationoftheencoder.py(3): call", 92, 98).op("aten::mul", 93, 95)
    product = trace.last_id
    with trace.load(tmp_path) as opened:
        places = [opened.query("event_place", rank=0, event=event)["source"].item() for event in (kernel, product)]
    assert places == ["net.py:9", "convolutionandnormalizationandactivationoftheencoder.py:3"]


def test_in_a_model_the_line_of_the_user_comes_before_lines_of_libraries(tmp_path: Path) -> None:
    """The user's model calls a library's layer, and a script calls a library's model: the model's line."""
    block = "timm/models/vision_transformer.py(90): forward"
    trace = TraceBuilder(rank=0).step(0, 0, 1000).frame("train.py(42): step", 2, 980)
    trace.module("Net", 0, 10, 400).frame("net.py(7): forward", 12, 390)
    trace.module("Block", 1, 20, 380).frame(block, 22, 370).op("aten::mul", 30, 100)
    own = trace.last_id
    trace.module("Block", 2, 410, 800).frame(block, 412, 790).op("aten::mul", 420, 700)
    library = trace.last_id
    with trace.load(tmp_path) as opened:
        places = [opened.query("event_place", rank=0, event=event).row(0)[3:] for event in (own, library)]
    assert places == [("net.py:7", "forward"), ("timm/models/vision_transformer.py:90", "forward")]


def test_a_module_is_at_its_own_forward_or_at_the_function_around_it(trace: Trace) -> None:
    found = trace.sql(
        "select name, module_source.source, function, evidence from module_source"
        " inner join model_op using (rank, module_id) order by module_id"
    ).rows()
    assert found == [
        ("Net_0", f"{NET}:7", "forward", "forward"),
        ("Sequential_0", f"{NET}:7", "forward", "caller"),
        ("Linear_0", f"{NET}:7", "forward", "caller"),
        ("Scale_0", f"{NET}:31", "forward", "forward"),
    ]


def test_an_op_is_in_the_innermost_function_around_it(trace: Trace) -> None:
    found = trace.query("event_source", step=0)
    names = trace.sql("select event_id, name from event where category = 'cpu_op'")
    assert found.join(names, on="event_id").select("name", "source", "function").rows() == [
        ("aten::addmm", f"{NET}:7", "forward"),
        ("aten::mul", f"{NET}:31", "forward"),
        ("aten::sum", "train.py:42", "step"),
    ]


def test_time_by_place_adds_up(trace: Trace) -> None:
    """Net has 10..600 without 20..500, Sequential 20..500 without its two, and those have 170 and 270 us."""
    found = ha.slowest_sources(trace).select("source", "function", "module_count", "type", "cpu_self_ns")
    assert found.rows() == [
        (f"{NET}:7", "forward", 3, "Linear", (110 + 40 + 170) * 1000),
        (f"{NET}:31", "forward", 1, "Scale", 270_000),
    ]
    assert ha.slowest_sources(trace, rank=0)["cpu_self_pct"].sum() == pytest.approx(100)
    assert ha.slowest_sources(trace, 1)["cpu_self_pct"].to_list() == [pytest.approx(100 * 320 / 590)]
    assert ha.slowest_modules(trace)["source"].to_list() == [f"{NET}:31", *[f"{NET}:7"] * 3]
    kinds = trace.query("slowest_modules", by="type", sort="cpu_self").select("type", "source").rows()
    assert kinds[0] == ("Scale", f"{NET}:31")
    with pytest.raises(ha.QueryParameterError, match="sort"):
        ha.slowest_sources(trace, sort="gpu_total")  # type: ignore[arg-type]


def test_a_line_of_torch_that_a_capture_stored_is_no_place(tmp_path: Path) -> None:
    """Lines where PyTorch's classes are defined; two levels up, the model has a line of the user."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::addmm", 10, 40)
    torch = "/usr/lib/python3.11/site-packages/torch/nn/modules"
    modules = [
        {"name": "net", "type": "Net", "parent_id": None, "source": "net.py:12"},
        {
            "name": "stem",
            "path": "net.stem",
            "type": "Sequential",
            "parent_id": 0,
            "source": f"{torch}/container.py:59",
        },
        {"name": "0", "path": "net.stem.0", "type": "Linear", "parent_id": 1, "source": f"{torch}/linear.py:53"},
        {"name": "other", "type": "Linear", "parent_id": None, "source": f"{torch}/linear.py:53"},
    ]
    ops = [{"name": "aten::addmm", "module_id": 2}]
    (tmp_path / "model.json").write_text(json.dumps({"modules": modules, "ops": ops}), encoding="utf-8")
    opened = ha.load(trace.write(tmp_path / "trace.json"), model=tmp_path / "model.json")
    found = opened.table("module_source").sort("module_id").select("module_id", "source", "evidence")
    assert found.rows() == [
        (0, "net.py:12", "capture"),
        (1, "net.py:12", "enclosing"),
        (2, "net.py:12", "enclosing"),
        (3, f"{torch}/linear.py:53", "capture"),  # no module around it has a better line
    ]


def test_a_line_that_a_capture_stored_comes_first(tmp_path: Path) -> None:
    """Modules of unknown place have a row of their own."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).frame("train.py(3): step", 1, 99)
    trace.op("aten::addmm", 10, 40).op("aten::relu", 40, 90)
    modules = [
        {"name": "net", "type": "Net", "parent_id": None},
        {"name": "fc", "path": "net.fc", "type": "Linear", "parent_id": 0, "source": "net.py:12"},
        {"name": "act", "path": "net.act", "type": "ReLU", "parent_id": 0},
    ]
    ops = [{"name": "aten::addmm", "module_id": 1}, {"name": "aten::relu", "module_id": 2}]
    (tmp_path / "model.json").write_text(json.dumps({"modules": modules, "ops": ops}), encoding="utf-8")
    opened = ha.load(trace.write(tmp_path / "trace.json"), model=tmp_path / "model.json")
    assert opened.table("module_source").select("module_id", "source", "function", "evidence").rows() == [
        (1, "net.py:12", None, "capture")
    ]
    found = ha.slowest_sources(opened).select("source", "type", "module_count", "cpu_self_ns")
    assert found.rows() == [(None, "ReLU", 2, 50_000), ("net.py:12", "Linear", 1, 30_000)]


def test_without_stacks_nothing_is_said(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).module("Net", 0, 1, 90).op("aten::mm", 10, 50).load(tmp_path)
    assert trace.table("module_source").is_empty()
    assert ha.slowest_sources(trace).select("source", "module_count", "cpu_self_ns").rows() == [(None, 1, 89_000)]
    [places] = [section for section in ha.report(trace).sections if section.name == "places"]
    assert "source" not in [field.column for field in places.fields]
