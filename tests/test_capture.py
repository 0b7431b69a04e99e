"""What the capture learns of a model, that it disturbs nothing, and what the handler writes."""

# Checked with torch installed and without: then everything from torch is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.profiler import profile, schedule  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import hotline_analysis as ha  # noqa: E402
from hotline_analysis.capture import learn  # noqa: E402
from hotline_analysis.capture.handler import pack  # noqa: E402
from hotline_analysis.capture.learn import Learner  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")


class Block(nn.Module):
    """Registered in another order than it runs; one module runs twice, one never, one is in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 2)
        self.first = nn.Linear(3, 4)
        self.act = nn.ReLU()
        self.unused = nn.Linear(1, 1)
        self.middle = nn.ModuleList([nn.Linear(4, 4)])
        self.scale = nn.Parameter(torch.ones(4))
        self.passes: Tensor
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        x = self.act(self.first(x))
        x = self.act(self.middle[0](x)) * self.scale
        return self.last(x)


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def x() -> Tensor:
    return torch.ones(2, 3)


# --- what is learned -------------------------------------------------------------------------------------------------


def test_modules_stand_in_the_order_of_their_calls() -> None:
    learned = ha.model_ops(Block(), x())
    assert (learned.order, learned.notes) == ("execution", [])
    assert learned.modules.select("module_id", "parent_id", "name", "path", "type", "calls").rows() == [
        (0, None, "Block", "", "Block", 1),
        (1, 0, "first", "first", "Linear", 1),
        (2, 0, "act", "act", "ReLU", 2),
        (3, 0, "0", "middle.0", "Linear", 1),
        (4, 0, "last", "last", "Linear", 1),
        (5, 0, "unused", "unused", "Linear", 0),
    ]


def test_ops_belong_to_the_call_of_their_innermost_module() -> None:
    assert ha.model_ops(Block(), x()).ops.rows() == [
        ("aten::add_", 0, 0, 0),
        ("aten::linear", 1, 0, 0),
        ("aten::relu", 2, 0, 0),
        ("aten::linear", 3, 0, 0),
        ("aten::relu", 2, 1, 0),
        ("aten::mul", 0, 0, 0),
        ("aten::linear", 4, 0, 0),
    ]


def test_parameters_are_counted_with_the_modules_inside_and_know_their_holder() -> None:
    learned = ha.model_ops(Block().half().float().to(torch.float64), x().to(torch.float64))
    # 4 of scale, 4x2+2, 3x4+4, 1x1+1, 4x4+4
    assert learned.modules["param_count"].to_list() == [52, 16, 0, 20, 10, 2]
    assert learned.modules["param_bytes"].to_list() == [8 * count for count in (52, 16, 0, 20, 10, 2)]
    rows = learned.parameters.select("name", "module_id", "numel").rows()
    assert rows == [
        ("scale", 0, 4),
        ("last.weight", 4, 8),
        ("last.bias", 4, 2),
        ("first.weight", 1, 12),
        ("first.bias", 1, 4),
        ("unused.weight", 0, 1),
        ("unused.bias", 0, 1),
        ("middle.0.weight", 3, 16),
        ("middle.0.bias", 3, 4),
    ]
    assert learned.parameters["shape"].to_list()[1] == [2, 4]


def test_source_is_the_line_that_calls() -> None:
    learned = ha.model_ops(Block(), x())
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    called = {}
    for path, source in learned.modules.select("path", "source").iter_rows():
        file, _, line = source.rpartition(":")
        called[path] = lines[int(line) - 1].strip() if file == __file__ else file
    assert called["first"] == called["act"] == "x = self.act(self.first(x))"
    assert called["middle.0"] == "x = self.act(self.middle[0](x)) * self.scale"
    assert called["last"] == "return self.last(x)"
    assert called["unused"] == "def forward(self, x: Tensor) -> Tensor:"


def test_without_a_pass_the_source_is_the_line_that_names_the_module() -> None:
    """As the text of `forward` shows; of modules inside a container, the line that calls the container."""
    learned = ha.analyze(Tower(), report_format=None, when="later", sample=False).model_ops
    assert learned is not None
    assert learned.order == "registration"
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    called = {}
    for path, source in learned.modules.select("path", "source").iter_rows():
        file, _, line = source.rpartition(":")
        assert file == __file__
        called[path] = lines[int(line) - 1].strip()
    blocks = "for block in reversed(self.blocks):"
    assert called["blocks.0"] == called["blocks.1.2"] == blocks
    assert called["head"] == "return self.head(x)"
    assert called[""] == called["unused"] == "def forward(self, x: Tensor) -> Tensor:"


class Shared(nn.Module):
    """One module under two names, called by a module that does not hold it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3))
        self.again = self.inner[0]
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(3))])

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.inner(x)) * self.weights[0]


def test_a_shared_module_is_one_and_a_container_lends_its_parameters() -> None:
    learned = ha.model_ops(Shared(), x())
    assert learned.modules.select("path", "parent_id", "calls").rows() == [
        ("", None, 1),
        ("inner", 0, 1),
        ("inner.0", 1, 2),
    ]
    assert learned.ops.select("name", "module_id", "call").rows() == [
        ("aten::linear", 2, 0),
        ("aten::linear", 2, 1),
        ("aten::mul", 0, 0),
    ]
    holders = dict(learned.parameters.select("name", "module_id").iter_rows())
    assert holders == {"inner.0.weight": 2, "inner.0.bias": 2, "weights.0": 0}


class Reentrant(nn.Module):
    """Its layer runs inside an autograd function, which is an op to the profiler, but none of the model's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x.requires_grad_(), use_reentrant=True)


def test_a_module_inside_an_op_keeps_its_ops() -> None:
    ops = ha.model_ops(Reentrant(), x()).ops
    assert "CheckpointFunction" not in ops["name"].to_list()
    assert ops.filter(pl.col("name") == "aten::linear").select("module_id", "depth").rows() == [(1, 1)]


def test_regions_of_the_user_are_no_ops() -> None:
    class Named(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with ha.annotate("double"):
                return x * 2

    assert ha.model_ops(Named(), x()).ops["name"].to_list() == ["aten::mul"]


@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_a_lazy_module_has_its_parameters_after_the_pass() -> None:
    lazy = nn.Sequential(nn.LazyLinear(4))
    before = Learner(lazy)
    assert before.result().parameters["numel"].to_list() == [0, 0]
    before.close()
    assert ha.model_ops(lazy, x()).parameters["numel"].to_list() == [12, 4]


def test_keyword_arguments_and_saving(tmp_path: Path) -> None:
    learned = ha.model_ops(Block(), x=x())
    learned.save(tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text()) == learned.content
    assert repr(learned) == "<ModelOps: 6 modules, 7 ops, in order of execution>"


def test_modules_on_other_threads_are_told() -> None:
    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            thread = threading.Thread(target=self.left, args=[x])
            thread.start()
            thread.join()
            return self.right(x)

    learned = ha.model_ops(Parallel(), x())
    assert learned.modules.select("path", "parent_id", "calls").rows() == [
        ("", None, 1),
        ("left", 0, 1),
        ("right", 0, 1),
    ]
    assert learned.ops.select("name", "module_id").rows() == [("aten::linear", 2)]
    assert "other threads" in learned.notes[0]


def test_wrappers_are_modules_too() -> None:
    learned = ha.model_ops(nn.DataParallel(Block()), x())
    assert learned.modules["path"].to_list()[:3] == ["", "module", "module.first"]
    assert "DataParallel" in learned.notes[0]


def test_distributed_data_parallel(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(Block())
        learned = ha.model_ops(model, x())
        before = hooks(model)
        assert ha.model_ops(model.module, x()).order == "execution"
        assert hooks(model) == before
    finally:
        torch.distributed.destroy_process_group()
    assert learned.modules["path"].to_list()[:3] == ["", "module", "module.first"]
    assert learned.modules["parent_id"].to_list()[:3] == [None, 0, 1]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_what_is_compiled_is_told() -> None:
    """Modules that torch.compile has compiled run as written in the pass that is watched; TorchScript is left alone."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.script = torch.jit.script(nn.Sequential(nn.Linear(3, 3)))
            self.own = nn.Linear(3, 3)
            self.compiled = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.compiled(self.own(self.script(x)))

    model = Mixed()
    model.compiled._compiled_call_impl = model.compiled._call_impl  # what compile() sets, without the compiler
    learned = ha.model_ops(model, x())
    calls = dict(learned.modules.select("path", "calls").iter_rows())
    assert calls.pop("script.0") is None
    assert calls == {"": 1, "own": 1, "script": None, "compiled": 1}
    number = learned.modules["path"].to_list().index("compiled")
    assert learned.ops.filter(pl.col("module_id") == number).select("name", "call").rows() == [
        ("TorchDynamo Cache Lookup", 0),
        ("Torch-Compiled Region", 0),
    ]
    assert sorted(note.split(":")[0] for note in learned.notes) == [
        "compiled is compiled with its method compile()",
        "script is compiled with TorchScript",
    ]
    whole = ha.model_ops(model.compiled, x())
    assert whole.order == "registration"
    assert "compiled" in whole.notes[0]


# --- that nothing is disturbed ---------------------------------------------------------------------------------------


def test_random_state_buffers_and_gradients_are_as_before() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(), Block())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    ha.model_ops(model, torch.randn(2, 3))
    random_after = torch.get_rng_state()
    assert not torch.equal(random, random_after)  # the argument above
    ha.model_ops(model, x())
    assert torch.equal(random_after, torch.get_rng_state())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert hooks(model) == 0


def test_hooks_of_others_stay() -> None:
    model, seen = Block(), []
    model.first.register_forward_hook(lambda *_: seen.append(1))
    ha.model_ops(model, x())
    model(x())
    assert (seen, hooks(model)) == ([1, 1], 1)


def test_a_failing_forward_leaves_no_hook() -> None:
    model = Block()
    learner = Learner(model)
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(2, 9))
    assert hooks(model) == 0
    assert learner.result().order == "registration"
    assert "failed" in learner.result().notes[0]
    with profile():  # and no recorder is left on
        model(x())


def test_a_pass_that_is_recorded_is_not_watched() -> None:
    model = Block()
    learner = Learner(model)
    with profile() as profiler:
        model(x())
        assert hooks(model) == 0
    assert not any("hotline" in event.key for event in profiler.key_averages())
    learned = learner.result()
    assert (learned.order, learned.modules["path"].to_list()) == (
        "registration",
        ["", "last", "first", "act", "unused", "middle.0"],
    )
    assert learned.modules["calls"].to_list() == [None] * 6
    assert "recorded already" in learned.notes[0]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # from inside the compiler
def test_a_compiler_does_not_see_the_hooks() -> None:
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.inner = nn.Linear(3, 3), nn.Linear(3, 3)
            self.fast = torch.compile(lambda x: self.inner(x).relu(), backend=backend, fullgraph=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.fast(self.own(x))

    model = Partly()
    model(x())
    learned = ha.model_ops(model, x())
    model(x())
    assert len(graphs) == 1  # compiled once, before
    assert learned.modules.select("path", "calls").rows() == [("", 1), ("own", 1), ("inner", 0)]
    assert learned.notes == []
    torch.compiler.reset()
    learned = ha.model_ops(Partly(), x())
    assert len(graphs) == 2  # in one graph, although the hooks are there
    assert "compiled during the pass" in learned.notes[0]
    whole = ha.model_ops(torch.compile(Block(), backend=backend, fullgraph=True), x())
    assert whole.modules["path"].to_list()[0] == ""
    assert "torch.compile()" in whole.notes[0]


# --- the handler -----------------------------------------------------------------------------------------------------


def train(model: nn.Module, handler: Callable[[Any], None], repeat: int = 1) -> list[int]:
    """Two warm-up and two recorded steps, as often as wanted; the number of hooks after each."""
    optimizer = torch.optim.SGD(model.parameters())
    counts = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=repeat)
    with profile(schedule=plan, on_trace_ready=handler) as profiler:
        for _ in range(4 * repeat):
            optimizer.zero_grad()
            model(x()).sum().backward()
            optimizer.step()
            counts.append(hooks(model))
            profiler.step()
    return counts


def content(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        trace: dict[str, Any] = json.load(stream)
    return trace


def test_the_trace_is_saved_described_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Block()
    handler = ha.analyze(
        model,
        tmp_path / "out" / "run.hotline",
        batch_size=2,
        dataset="ones",
        optimizer=torch.optim.AdamW(model.parameters(), fused=True),
        metadata={"seed": 0, "hub_token": "abc"},
    )
    assert train(model, handler) == [0, 0, 0, 0]
    trace = content(tmp_path / "out" / "run.json.gz")
    learned = ha.model_ops(model, x()).content
    assert {name: trace["hotline_model"][name] for name in ("order", "ops", "parameters", "notes")} == {
        name: learned[name] for name in ("order", "ops", "parameters", "notes")
    }
    assert trace["hotline_metadata"] == {
        "batch_size": 2,
        "dataset": "ones",
        "optimizer": "AdamW (fused)",
        "seed": 0,
        "hub_token": "***",
    }
    assert handler.runs == handler.wait() == [tmp_path / "out" / "run.hotline"]
    with ha.load(tmp_path / "out" / "run.hotline") as run:
        lengths = run.sql("select end_ns - start_ns as length from step order by start_ns")["length"].to_list()
        facts = ha.report(run).facts
    assert facts["batch size"] == "2"
    # Of two steps, the first may be one that warms up.
    throughput = float(facts["throughput"].split()[0].replace(",", ""))
    assert 2e9 / max(lengths) * 0.995 <= throughput <= 2e9 / min(lengths) * 1.005
    out = capsys.readouterr().out.splitlines()
    assert 3 <= len(out) <= 10
    assert "in the background" in out[0]
    assert out[-1].startswith(f"page: {tmp_path / 'out' / 'run.html'}")
    page = (tmp_path / "out" / "run.html").read_text(encoding="utf-8")
    assert "AdamW (fused)" in page
    assert "data-hotline-screen" in page  # the picture of the step
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["run.hotline", "run.html", "run.json.gz"]


def test_the_measured_steps_are_those_of_the_plain_profiler(tmp_path: Path) -> None:
    def ops(trace: dict[str, Any]) -> list[str]:
        events = [event for event in trace["traceEvents"] if event.get("cat") in ("cpu_op", "user_annotation")]
        return [event["name"] for event in sorted(events, key=lambda event: (event["ts"], -event["dur"]))]

    train(Block(), lambda profiler: profiler.export_chrome_trace(str(tmp_path / "plain.json")))
    plain = json.loads((tmp_path / "plain.json").read_text())
    model = Block()
    train(model, ha.analyze(model, tmp_path / "run.hotline", report_format=None))
    assert ops(content(tmp_path / "run.json.gz")) == ops(plain)
    assert ops(plain).count("aten::linear") == 6


def test_every_cycle_of_a_schedule_gets_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Block()
    handler = ha.analyze(
        model, tmp_path / "a.hotline", worker_name="left", keep_trace=False, report_format="json", inputs=x()
    )
    assert train(model, handler, repeat=2) == [0] * 8
    assert len(handler.runs) == 2
    pages = ["a-2.left.html", "a.left.html"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in pages) == [
        "a-2.left.hotline",
        "a.left.hotline",
    ]
    reports = capsys.readouterr().out
    assert json.loads(reports[: reports.index("\n}\n") + 2])["title"] == "a.left.json.gz"
    for run in handler.runs:
        with ha.Trace(run) as trace:
            stored = json.loads(trace.sql("select metadata from rank_info").item())["hotline_model"]
        assert stored["order"] == "execution"


def test_inputs_by_position_and_name(tmp_path: Path) -> None:
    for inputs in (x(), (x(),), {"x": x()}):
        handler = ha.analyze(Block(), tmp_path / "run.hotline", inputs=inputs)
        assert handler.model_ops is not None
        assert handler.model_ops.order == "execution"


class Branches(nn.Module):
    """What its submodules compute is put together by an op that is no module."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.left(x), self.right(x)], 1))


def test_an_op_between_two_modules_belongs_to_who_lists_it(tmp_path: Path) -> None:
    """Captured, it is that of the module around; in a list by hand, where it has a name of its own, it has that."""
    model = nn.Sequential(Branches(), nn.ReLU())
    train(model, lambda profiler: profiler.export_chrome_trace(str(tmp_path / "plain.json")))
    ha.model_ops(model, x()).save(tmp_path / "captured.json")
    parts = [{"name": name, "type": "Linear"} for name in ("left", "right", "head")]
    parts.insert(2, {"name": "joined", "type": "aten::cat"})
    by_hand = [{"name": "0", "type": "Branches", "ops": parts}, {"name": "1", "type": "ReLU"}]
    (tmp_path / "by_hand.json").write_text(json.dumps(by_hand))
    for listed, owner in (("captured", "0"), ("by_hand", "0.joined")):
        with ha.load(tmp_path / "plain.json", model=tmp_path / f"{listed}.json") as run:
            rows = run.sql(
                "select annotated_event.name, model_op.path, count(*) from annotated_event"
                " left join model_op using (rank, module_id)"
                " where annotated_event.name in ('aten::cat', 'CatBackward0') and step is not null"
                " group by all order by 1"
            ).rows()
            sure = run.sql("select min(confidence_pct) from module_span").item()
        assert (rows, sure) == ([("CatBackward0", owner, 2), ("aten::cat", owner, 2)], 100.0), listed


def test_what_is_no_model_is_told_where_it_is_given(tmp_path: Path) -> None:
    """Such as the trace of a user who takes `analyze` for what opens one."""
    with pytest.raises(ha.HotlineError, match="is a str, not a torch") as raised:
        ha.analyze("trace.json", tmp_path / "run.hotline")
    assert "`load`" in str(raised.value)
    with pytest.raises(ha.HotlineError, match="is a function"):
        ha.model_ops(lambda x: x, 1)


def test_an_older_run_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    for _ in range(2):
        handler = ha.analyze(None, tmp_path / "run.hotline", report_format=None, when="now")
        train(Block(), handler)
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ha.ExportExistsError):
        ha.analyze(None, tmp_path / "mine")
    with pytest.raises(ha.HotlineError, match="batch_size"):
        ha.analyze(None, tmp_path / "run.hotline", batch_size=0)


@pytest.mark.parametrize("error", [ha.HotlineError("the disk is full"), OSError("disk is full")])
def test_what_goes_wrong_does_not_end_the_training(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("hotline_analysis.capture.background.import_traces", fail)
    model = Block()
    with pytest.warns(ha.HotlineWarning, match="disk is full"):
        train(model, ha.analyze(model, tmp_path / "run.hotline", when="now"))
    assert [path.name for path in tmp_path.iterdir()] == ["run.json.gz"]


def test_keys_are_put_first(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text(' {\n"a": 1}\n')
    pack(tmp_path / "raw", tmp_path / "packed", {'k"': "[2]"})
    assert content(tmp_path / "packed") == {'k"': [2], "a": 1}


# --- regions ---------------------------------------------------------------------------------------------------------


def test_annotate_is_a_context_manager_and_a_decorator(tmp_path: Path) -> None:
    @ha.annotate("countdown")
    def countdown(n: int) -> int:
        """Count."""
        return countdown(n - 1) if n else 0

    assert countdown.__doc__ == "Count."
    handler = ha.analyze(None, tmp_path / "run.hotline", report_format=None)
    with profile(on_trace_ready=handler):
        with ha.annotate("outer"):
            torch.ones(3).sum()
        countdown(2)
        with pytest.raises(ValueError, match="no"), ha.annotate("broken"):
            raise ValueError("no")
        torch.ones(3).sum()
    with ha.Trace(handler.runs[0]) as trace:
        named = trace.sql(
            "select event.name, count(*) as n, max(nesting.depth) as depth from event"
            " inner join nesting using (rank, event_id) where category = 'user_annotation' group by all order by all"
        )
        inside = trace.sql(
            "select op.name from nesting inner join event as op using (rank, event_id)"
            " inner join event as region on region.event_id = nesting.parent_id"
            " where region.name = 'outer' order by all"
        )
    assert named.rows() == [("broken", 1, 0), ("countdown", 3, 2), ("outer", 1, 0)]
    assert inside["name"].to_list() == ["aten::ones", "aten::sum"]


# --- shapes ----------------------------------------------------------------------------------------------------------


class Mixture(nn.Module):
    """Convolution, normalisation, attention and products; a module runs twice, one branch only for some inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.grouped = nn.Conv2d(8, 8, 3, groups=2)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.twice = nn.Linear(8, 8, bias=False)
        self.gate = nn.GELU()
        self.gated = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.grouped(self.conv(x)).flatten(2).transpose(1, 2)
        x = self.twice(self.attention(x).masked_fill(x > 9, -float("inf")))
        if self.gated:
            x = self.gate(x * x)
        return (self.twice(x) @ x.transpose(1, 2)).mean(1)


WORK = """
    select event.name, event.start_ns, op_work.* exclude (rank, event_id, shape_id), label.phase
    from event
    inner join nesting using (rank, event_id)
    left join op_work using (rank, event_id)
    left join label using (rank, event_id)
    where event.category = 'cpu_op'
    order by event.start_ns, nesting.depth
"""


def worked(path: Path, *, recorded: bool, batches: tuple[int, ...] = (2, 2, 2, 2), gated: bool = False) -> pl.DataFrame:
    """All ops of two recorded steps, with their work where it is known."""
    torch.manual_seed(0)
    model = Mixture()
    handler = ha.analyze(model, path, report_format=None, when="now")
    optimizer = torch.optim.SGD(model.parameters())
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(schedule=plan, on_trace_ready=handler, record_shapes=recorded) as profiler:
        for number, batch in enumerate(batches):
            model.gated = gated and number >= 2
            optimizer.zero_grad()
            model(torch.randn(batch, 3, 8, 8)).square().sum().backward()
            optimizer.step()
            profiler.step()
    with ha.load(path) as run:
        return run.sql(WORK).with_row_index()


COUNTED = ["family", "dtype", "batch", "m", "n", "k", "matrix_flop", "model_flop", "dense_flop", "vector_flop", "bytes"]


@pytest.mark.long
def test_captured_shapes_count_the_same_work_as_recorded_ones(tmp_path: Path) -> None:
    recorded = worked(tmp_path / "recorded.hotline", recorded=True)
    captured = worked(tmp_path / "captured.hotline", recorded=False)
    assert "shapes" not in content(tmp_path / "recorded.json.gz")["hotline_model"]
    assert recorded["name"].to_list() == captured["name"].to_list()
    assert set(recorded["evidence"].drop_nulls()) == {"shapes"}
    assert set(captured["evidence"].drop_nulls()) == {"captured"}
    forward = pl.col("phase") == "forward"
    columns = ["index", "name", *COUNTED, "is_outermost"]
    assert recorded.filter(forward).select(columns).equals(captured.filter(forward).select(columns))
    both = recorded.join(captured, on="index").filter(pl.col("family_right").is_not_null())
    for column in COUNTED:
        assert both[column].to_list() == both[f"{column}_right"].to_list(), column
    # Every product of backward is known as well.
    of_products = [each.filter(pl.col("matrix_flop") > 0, phase="backward") for each in (recorded, captured)]
    assert of_products[0].height > 20
    assert of_products[0].select(columns).equals(of_products[1].select(columns))


def test_other_sizes_than_those_learned_are_not_seen_and_documented(tmp_path: Path) -> None:
    """The work is that of the pass that was learned: the trace does not tell that the batch is larger."""
    usual = worked(tmp_path / "usual.hotline", recorded=False)
    larger = worked(tmp_path / "larger.hotline", recorded=False, batches=(2, 2, 6, 6))
    outermost = pl.col("is_outermost") & (pl.col("phase") == "forward")
    assert usual.filter(outermost)["matrix_flop"].sum() == larger.filter(outermost)["matrix_flop"].sum() > 0


def test_a_module_that_takes_another_way_has_no_captured_shapes(tmp_path: Path) -> None:
    """The ops of the outer module are others than those learned; the modules in it ran as before."""
    found = worked(tmp_path / "run.hotline", recorded=False, gated=True).filter(pl.col("phase") == "forward")
    work = {name: rows["family"].null_count() for (name,), rows in found.group_by("name")}
    assert work["aten::matmul"] == found.filter(pl.col("name") == "aten::matmul").height
    assert work["aten::masked_fill"] == 2  # one for each step, in the outer module
    assert work["aten::convolution"] == work["aten::native_batch_norm"] == 0


def test_the_observer_is_off_in_the_recorded_steps_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hotline_analysis.capture.shapes import Observer

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    model = Block()
    handler = ha.analyze(model, tmp_path / "run.hotline", report_format=None)
    train(model, handler)
    assert list((tmp_path / "temporary").iterdir()) == []
    own = Observer.started()  # none of ours is there any more
    assert own is not None
    try:
        learned = ha.model_ops(Block(), x())
    finally:
        own.stop()
    assert "shapes" not in learned.content
    assert "another observer is active" in learned.notes[0]
    assert len(learned.ops) == 7
    assert "shapes" not in Learner(Block(), shapes=False).result().content


ELSEWHERE = """
import sys, threading
import torch
import hotline_analysis as ha

class Beside(torch.nn.Module):
    def forward(self, x):
        made = []
        thread = threading.Thread(target=lambda: made.append(x.sin()))
        thread.start()
        thread.join()
        return x.cos() + made[0]

def learned(where, *extra):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2), *extra)
    handler = ha.analyze(model, sys.argv[1], report_format=None)
    for _ in range(2):
        where(model(torch.randn(3, 4)).sum().backward)
    handler._learner.close()
    return handler.model_ops

def other(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

here, there = learned(lambda work: work()), learned(other)
assert here.content == there.content and len(here.content["shapes"]) > 0, there.content
assert "shapes" in learned(other, Beside()).content
print("all learned")
"""


def test_backward_may_run_on_another_thread(tmp_path: Path) -> None:
    """As it does on a GPU. In a process of its own: it died when torch's observer had not heard of the first thread."""
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "run.hotline")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "all learned\n"), done.stderr


def test_a_trace_can_be_annotated_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Block()
    handler = ha.analyze(model, tmp_path / "run.hotline", when="later", keep_trace=False)
    with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=2), on_trace_ready=handler) as profiler:
        for _ in range(4):
            model(x()).sum().backward()
            profiler.step()
    saved = [tmp_path / "run.json.gz", tmp_path / "run-2.json.gz"]
    assert (handler.runs, handler.waiting) == ([], saved)
    assert sorted(tmp_path.iterdir()) == sorted(saved)
    assert f"hotline import {saved[0]} -o {tmp_path / 'run.hotline'}" in capsys.readouterr().out
    assert handler.finish() == [tmp_path / "run.hotline", tmp_path / "run-2.hotline"]
    assert handler.finish() == handler.runs
    assert capsys.readouterr().out.count("page: ") == 2
    assert sorted(tmp_path.iterdir()) == sorted([*handler.runs, tmp_path / "run.html", tmp_path / "run-2.html"])
    with ha.load(handler.runs[1]) as trace:
        assert trace.sql("select count(*) from model_op where path = 'first'").item() == 1
    with pytest.raises(ha.HotlineError, match="'soon'"):
        ha.analyze(model, tmp_path / "other.hotline", when="soon")  # type: ignore[arg-type]


def test_what_cannot_be_annotated_waits_on(tmp_path: Path) -> None:
    model = Block()
    handler = ha.analyze(model, tmp_path / "run.hotline", when="later", report_format=None)
    with profile(on_trace_ready=handler):
        model(x())
    content = handler.waiting[0].read_bytes()
    handler.waiting[0].write_bytes(b"")
    with pytest.raises(ha.HotlineError):
        handler.finish()
    handler.waiting[0].write_bytes(content)
    assert handler.finish() == [tmp_path / "run.hotline"]
    assert handler.waiting == []


# --- in a process of its own -----------------------------------------------------------------------------------------


def recorded(handler: Any) -> None:
    """One short recording."""
    with profile(on_trace_ready=handler):
        torch.ones(3).sum()


def test_what_goes_wrong_in_the_background_is_a_warning_when_it_is_waited_for(tmp_path: Path) -> None:
    handler = ha.analyze(None, tmp_path / "run.hotline")
    (tmp_path / "run.hotline").write_text("of somebody else")  # after the check of `analyze`
    recorded(handler)
    with pytest.warns(ha.HotlineWarning, match="run.hotline"):
        assert handler.wait() == []
    assert (tmp_path / "run.json.gz").exists()


def test_without_a_process_it_is_done_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError("no processes here")

    monkeypatch.setattr("subprocess.Popen", fail)
    handler = ha.analyze(None, tmp_path / "run.hotline", report_format=None)
    recorded(handler)
    assert (tmp_path / "run.hotline").is_dir()
    assert handler.runs == [tmp_path / "run.hotline"]


AT_EXIT = """
import sys, time
import torch
import hotline_analysis as ha

def work():
    handler = ha.analyze(None, sys.argv[1])
    with torch.profiler.profile(on_trace_ready=handler):
        torch.ones(3).sum()
    print("training goes on", flush=True)
    {end}

if __name__ == "__main__":
    {start}
"""
DAEMON = "import torch.multiprocessing as mp; p = mp.get_context('fork').Process(target=work, daemon=True)"


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        ("work()", "pass", 0),
        ("work()", "raise ValueError('of the user')", 1),
        (f"{DAEMON}; p.start(); p.join(); sys.exit(p.exitcode)", "pass", 0),
    ],
    ids=["end", "exception", "daemon"],
)
def test_the_end_of_the_program_waits_for_the_report(start: str, end: str, code: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", AT_EXIT.format(start=start, end=end), str(tmp_path / "run.hotline")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if "goes on" in line or line.startswith("page: ")] == [lines[1], lines[-1]]
    assert lines[1] == "training goes on"
    assert len(lines) <= 11
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.hotline", "run.html", "run.json.gz"]


def test_ctrl_c_at_the_end_leaves_the_trace_and_no_process(tmp_path: Path) -> None:
    from hotline_analysis.capture.background import Work

    handler = ha.analyze(None, tmp_path / "run.hotline")
    recorded(handler)
    (work,) = handler._work
    with pytest.MonkeyPatch.context() as patch:
        wait, waits = Work.wait, []

        def interrupted(self: Work) -> str:
            waits.append(self)
            patch.setattr(self._process, "wait", raised)
            return wait(self)

        def raised(*_: object) -> None:
            patch.undo()
            raise KeyboardInterrupt

        patch.setattr(Work, "wait", interrupted)
        handler._wait_at_exit()
    assert waits == [work]
    assert work._process.returncode is not None
    assert (tmp_path / "run.json.gz").exists()


def test_torch_says_nothing_of_its_observer_and_what_others_say_stays(capfd: pytest.CaptureFixture[str]) -> None:
    from hotline_analysis.capture.shapes import _without_messages

    ha.model_ops(Block(), x())
    with _without_messages():
        os.write(2, b"of another thread\n[W] Enabling Execution Trace Observer\n")
    assert capfd.readouterr().err == "of another thread\n"


def test_a_recording_from_the_first_step_on_has_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Block()
    handler = ha.analyze(model, tmp_path / "run.hotline", when="later")
    with profile(on_trace_ready=handler):
        model(x()).sum().backward()
    (note,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert "warmup=1" in note


class Tower(nn.Module):
    """Several modules of a class, in another order than they are called, and one that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)
        self.unused = nn.Linear(3, 3)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for block in reversed(self.blocks):
            x = block(x)
        return self.head(x)


def test_modules_have_the_same_names_with_and_without_stacks(tmp_path: Path) -> None:
    """`model_op_named`: frames are given the names of `named_modules()`."""
    paths = {}
    for stacks in (True, False):
        model, other = Tower(), nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
        handler = ha.analyze(model, tmp_path / f"{stacks}.hotline", report_format=None, when="now")
        with profile(
            schedule=schedule(wait=0, warmup=1, active=2), on_trace_ready=handler, with_stack=stacks
        ) as profiler:
            for _ in range(3):
                other(model(x())).sum().backward()
                profiler.step()
        with ha.load(handler.runs[0]) as run:
            paths[stacks] = run.sql(
                "select distinct path, param_count from module_span inner join model_op using (rank, module_id)"
            ).rows()
    called = {"Tower", "head"} | {f"blocks.{block}{part}" for block in (0, 1) for part in ("", ".0", ".1", ".2")}
    assert {path for path, _ in paths[False]} == called
    assert set(paths[False]) <= set(paths[True])
    # The other model is known by its frames alone.
    assert {path for path, count in paths[True] if count is None} == {
        "Sequential_2",
        "Sequential_2.ReLU_2",
        "Sequential_2.Linear_5",
    }


def test_shapes_are_not_observed_where_processes_exchange_gradients_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's observer may end the process if an op of gloo's thread ends while the observer is removed."""
    monkeypatch.setattr(learn, "_communicates_on_the_cpu", lambda model: True)
    monkeypatch.setattr("hotline_analysis.capture.learn.Observer.started", lambda: pytest.fail("observed"))
    learned = ha.model_ops(Block(), x())
    assert "shapes" not in learned.content
    assert learned.order == "execution"
    assert any("record_shapes=True" in note for note in learned.notes)
    assert not ha.model_ops(Block(), x()).ops.is_empty()


def test_one_process_exchanges_no_gradients() -> None:
    assert not learn._communicates_on_the_cpu(Block())
