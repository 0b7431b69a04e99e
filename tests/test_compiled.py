"""Programs that torch.compile has compiled: what they do is told as without it, where PyTorch tells it."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the compiler's own
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]

# What the program knows of itself. The names tell nothing, and the marks are taken out before the trace is read.
MARKS = {"part A": "forward", "part B": "loss", "part C": "backward", "part D": "optimizer"}
NEEDS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self, *, breaks: bool) -> None:
        super().__init__()
        self.embed = nn.Linear(16, 32)
        self.layers = nn.ModuleList(Block(32) for _ in range(3))
        self.head = nn.Linear(32, 10)
        self.breaks = breaks

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if self.breaks and number == 1:
                torch._dynamo.graph_break()
        return self.head(x)


def compiled(what: str, backend: str) -> tuple[Any, Any]:
    """A model, and what the program calls."""
    model = Net(breaks=what == "graph break")
    if what == "submodules":
        for number, layer in enumerate(model.layers):
            model.layers[number] = torch.compile(layer, backend=backend)
    elif what == "submodules, by their method":
        for layer in model.layers:
            layer.compile(backend=backend)
    elif what == "by its method":
        model.compile(backend=backend)
    elif what != "nothing":
        return model, torch.compile(model, backend=backend)
    return model, model


@pytest.fixture
def without_compiled_code() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def captured(folder: Path, what: str, backend: str, *, trains: bool = True, knows_model: bool = True) -> Path:
    """The trace file of two steps."""
    torch.manual_seed(0)
    model, call = compiled(what, backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mark = torch.profiler.record_function

    def step() -> None:
        x, y = torch.randn(64, 16), torch.randint(0, 10, (64,))
        with nullcontext() if trains else torch.no_grad():
            with mark("part A"):
                output = call(x)
            with mark("part B"):
                loss = nn.functional.cross_entropy(output, y)
        if trains:
            with mark("part C"):
                torch.autograd.backward(loss)
            with mark("part D"):
                optimizer.step()
            optimizer.zero_grad()

    handler = ha.analyze(call if knows_model else None, folder / "run.hotline", report_format=None, when="now")
    for _ in range(2):  # also without hooks, which are a reason to compile again
        step()
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1), on_trace_ready=handler
    ) as profiler:
        for _ in range(3):
            step()
            profiler.step()
    return folder / "run.json.gz"


def without_marks(file: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events of a trace without the marks, to which the file is changed, and the marks."""
    content = json.loads(gzip.decompress(file.read_bytes()))
    marks = [event for event in content["traceEvents"] if event.get("name") in MARKS and event["ph"] == "X"]
    content["traceEvents"] = [event for event in content["traceEvents"] if event not in marks]
    file.write_bytes(gzip.compress(json.dumps(content).encode()))
    return content["traceEvents"], marks


def phase_at(marks: list[dict[str, Any]], event: dict[str, Any]) -> str | None:
    around = [mark for mark in marks if mark["ts"] <= event["ts"] < mark["ts"] + mark["dur"]]
    return MARKS[around[0]["name"]] if around else None


@pytest.mark.usefixtures("without_compiled_code")
@pytest.mark.parametrize(
    ("what", "backend", "trains", "knows_model"),
    [
        ("nothing", "eager", True, False),
        ("all", "aot_eager", True, True),
        ("all", "aot_eager", True, False),
        ("all", "aot_eager", False, True),
        ("all", "aot_eager", False, False),
        ("by its method", "aot_eager", True, True),
        ("graph break", "aot_eager", True, True),
        ("graph break", "aot_eager", True, False),
        ("submodules", "aot_eager", True, False),
        ("submodules", "eager", True, True),
        ("submodules", "aot_eager", False, True),
        ("submodules, by their method", "aot_eager", True, True),
        pytest.param("all", "inductor", True, True, marks=NEEDS_COMPILER),
        pytest.param("submodules", "inductor", True, False, marks=NEEDS_COMPILER),
    ],
)
@pytest.mark.sampled
def test_phases(tmp_path: Path, what: str, backend: str, trains: bool, knows_model: bool) -> None:
    file = captured(tmp_path, what, backend, trains=trains, knows_model=knows_model)
    events, marks = without_marks(file)
    assert len(marks) == 2 * (4 if trains else 2)
    with ha.load(file) as trace:
        said = dict(trace.sql("select event_id, phase from annotated_event where category = 'cpu_op'").iter_rows())
        names = dict(trace.sql("select event_id, name from event where category = 'cpu_op'").iter_rows())
    ops = [(event, phase_at(marks, event)) for event in events if event.get("cat") == "cpu_op"]
    assert [event["name"] for event, _ in ops] == [names[number] for number in sorted(names)]
    told = [(event["dur"], right, said[number]) for (event, right), number in zip(ops, sorted(names), strict=True)]
    known = sum(time for time, right, _ in told if right)
    wrong = [(phase, right) for _, right, phase in told if right and phase != right]
    assert sum(time for time, right, phase in told if right == phase) >= 0.99 * known, wrong


@pytest.mark.usefixtures("without_compiled_code")
@pytest.mark.parametrize(
    ("what", "backend"),
    [
        ("submodules", "aot_eager"),
        ("submodules, by their method", "aot_eager"),
        pytest.param("submodules", "inductor", marks=NEEDS_COMPILER),
    ],
)
def test_compiled_submodules_get_their_time(tmp_path: Path, what: str, backend: str) -> None:
    """Each region, in the order of the layers, and the node that runs its gradient: told by the sequence number."""
    file = captured(tmp_path, what, backend)
    content = json.loads(gzip.decompress(file.read_bytes()))
    ops = sorted((e for e in content["traceEvents"] if e.get("cat") == "cpu_op"), key=lambda e: float(e["ts"]))
    regions = [op for op in ops if op["name"].startswith("Torch-Compiled Region")]
    assert len(regions) == 2 * 3
    layer_of = {}
    for number, region in enumerate(regions):
        end = region["ts"] + region["dur"]
        inside = [op for op in ops if op["name"] == "CompiledFunction" and region["ts"] <= op["ts"] < end]
        layer_of[inside[0]["args"]["Sequence number"]] = f"layers.{number % 3}"
    expected = sorted(
        (layer_of[op["args"]["Sequence number"]], {"CompiledFunction": "forward"}.get(op["name"], "backward"))
        for op in ops
        if op["name"] in ("CompiledFunction", "CompiledFunctionBackward")
    )
    assert len(expected) == 2 * 2 * 3
    with ha.load(file) as trace:
        assert trace.manifest["warnings"] == []
        said = trace.sql(
            "select path, phase from annotated_event left join model_op using (rank, module_id)"
            " where annotated_event.name in ('CompiledFunction', 'CompiledFunctionBackward') order by path, phase"
        ).rows()
        confidence = trace.sql("select min(confidence_pct) from module_span").item()
        modules = trace.table("model_op")
    assert said == expected
    assert confidence == 100
    assert dict(modules.select("path", "type").rows())["layers.1"] == "Block"
    assert not modules["path"].str.contains("_orig_mod").any()


@pytest.mark.usefixtures("without_compiled_code")
def test_a_model_that_is_compiled_as_a_whole(tmp_path: Path) -> None:
    """Its region and the gradient of it are the model's; the products in it, in their order, those of its layers."""
    layers = ["embed", *(f"layers.{number}.{name}" for number in range(3) for name in ("up", "down")), "head"]
    with ha.load(captured(tmp_path, "all", "aot_eager")) as trace:
        assert trace.manifest["warnings"] == []
        compiled_code = trace.sql(
            "select distinct event.name, model_op.path, phase"
            " from annotated_event as event left join model_op using (rank, module_id)"
            " where regexp_matches(event.name, '^(Torch-Compiled|CompiledFunction)') order by all"
        ).rows()
        products = trace.sql(
            "select model_op.path from annotated_event as event left join model_op using (rank, module_id)"
            " where event.name = 'aten::addmm' order by event.start_ns"
        )["path"]
    assert compiled_code == [
        ("CompiledFunction", "Net", "forward"),
        ("CompiledFunctionBackward", "Net", "backward"),
        ("Torch-Compiled Region: 0/0", "Net", "forward"),
    ]
    assert products.to_list() == 2 * layers
