"""The example notebook: its cells run in the order of what they need, on the demo trace and on one without steps."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import altair as alt
import pytest

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder

NOTEBOOK = Path(__file__).parents[1] / "docs" / "examples" / "explore.py"


def choice(options: Any, value: str, label: str) -> SimpleNamespace:
    """A dropdown, which shows `value` at first, as `marimo.ui.dropdown`."""
    assert label
    assert value in options
    return SimpleNamespace(value=options[value] if isinstance(options, dict) else value)


def stand_in(trace: Path | None) -> ModuleType:
    """What the notebook uses of marimo, which is no dependency: an app that keeps its cells."""
    cells: list[Callable[..., Any]] = []
    module: Any = ModuleType("marimo")
    module.App = lambda **_: SimpleNamespace(cell=cells.append)
    module.cli_args = lambda: {} if trace is None else {"trace": str(trace)}
    module.hstack = lambda items, **_: items
    module.ui = SimpleNamespace(dropdown=choice, table=lambda frame: frame.to_dicts())
    module.cells = cells
    return module  # type: ignore[no-any-return]


def run(marimo: ModuleType, **chosen: Any) -> list[Any]:
    """Run the notebook and return what its cells show; `chosen` are values of dropdowns in place of the first ones."""
    tree = ast.parse(NOTEBOOK.read_text(encoding="utf-8"))
    known: dict[str, Any] = {"__name__": "notebook"}
    shown: list[Any] = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        *body, last = node.body
        assert isinstance(last, ast.Return)
        needed = {argument.arg for argument in node.args.args}
        assert needed <= set(known)
        # As marimo does: a cell sees what it names, the value of its last expression is shown, and its names are kept.
        inside = {"__builtins__": builtins} | {name: known[name] for name in needed}
        for statement in body:
            if isinstance(statement, ast.Expr):
                shown.append(eval(compile(ast.Expression(statement.value), NOTEBOOK, "eval"), inside))
            else:
                exec(compile(ast.Module([statement], []), NOTEBOOK, "exec"), inside)
        for name in (part.id for part in ast.walk(last) if isinstance(part, ast.Name)):
            assert name not in known, "marimo wants each name from one cell"
            known[name] = SimpleNamespace(value=chosen[name]) if name in chosen else inside[name]
    known["trace"].close()
    return shown


@pytest.fixture
def marimo(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | None], ModuleType]:
    def install(trace: Path | None) -> ModuleType:
        module = stand_in(trace)
        monkeypatch.setitem(sys.modules, "marimo", module)
        return module

    return install


@pytest.mark.slow
def test_it_runs_on_the_demo(marimo: Callable[[Path | None], ModuleType]) -> None:
    shown = run(marimo(None))
    drawn = [each.to_dict()["title"]["text"] for each in shown if isinstance(each, alt.TopLevelMixin)]
    assert len(drawn) == 4
    assert "No data" not in drawn
    assert {"Trace", "Report", "Timeline", "DataFrame"} <= {type(each).__name__ for each in shown}


@pytest.mark.long
def test_a_choice_reaches_the_cells(marimo: Callable[[Path | None], ModuleType]) -> None:
    """The table of the slowest shows what is chosen; modules have no phases."""
    with ha.load(ha.demo_trace()) as trace:
        modules = ha.slowest_modules(trace, 20, rank=0, step=2).to_dicts()
        ops = ha.slowest_ops(trace, 20, rank=0, step=2, phase="backward").to_dicts()
    assert modules in run(marimo(None), by="slowest_modules", step=2, phase="backward")
    assert ops in run(marimo(None), by="slowest_ops", step=2, phase="backward")


def test_it_runs_on_a_trace_without_steps(marimo: Callable[[Path | None], ModuleType], tmp_path: Path) -> None:
    path = TraceBuilder().op("aten::mm", 0, 10).launches("gemm", 12, 20).write(tmp_path / "plain.json")
    assert len(run(marimo(path))) == 11  # each cell but the imports shows something


def test_it_imports_as_marimo_opens_it(marimo: Callable[[Path | None], ModuleType]) -> None:
    """Each cell is a function of the file, registered with the app."""
    module: Any = marimo(None)
    exec(compile(NOTEBOOK.read_text(encoding="utf-8"), NOTEBOOK, "exec"), {"__name__": "explore"})
    assert len(module.cells) == 12
