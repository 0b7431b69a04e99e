"""The Python in the pages of the docs runs as it is written, page by page, with what the page takes as given."""

from __future__ import annotations

import ast
import glob
import json
import pathlib
import re
import statistics
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import hotline_analysis as ha

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", re.MULTILINE)
# A callback of Hugging Face and one of Lightning: `test_examples.py` runs the programs that they come from.
# NVTX needs a build of torch with CUDA: tests/nsight runs `ha.nvtx` with a stand-in.
_ELSEWHERE = ("Trainer(", "TrainerCallback", "torch.cuda.nvtx")


def python_of(page: Path) -> list[str]:
    """The Python of a page, in order: fenced as such, or indented and no command, file or JSON."""
    text = page.read_text(encoding="utf-8")
    found = [(match.start(), match["code"]) for match in _FENCE.finditer(text) if match["kind"] == "python"]
    # what is fenced is no indented block; the lines keep their place
    unfenced = _FENCE.sub(lambda match: re.sub(r"[^\n]", "-", match[0]), text)
    found += [(match.start(), textwrap.dedent(match[0])) for match in _INDENTED.finditer(unfenced)]
    return [code for _, code in sorted(found) if _does_something(code) and not any(word in code for word in _ELSEWHERE)]


def _does_something(code: str) -> bool:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Call | ast.Import) for node in ast.walk(tree))


def of_a_training(_: Path) -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images = torch.randn(4, 8)

    def train(batch: Any) -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    names = {"model": model, "images": images, "batch": images, "loader": [images] * 5, "train": train}
    names |= {name: torch.nn.Linear(8, 8) for name in ("generator", "discriminator", "net", "average")}
    return {**names, "torch": torch, "augment": lambda batch: batch, "json": json, "pathlib": pathlib}


def of_the_demo(_: Path) -> dict[str, Any]:
    return {"trace": ha.load(ha.demo_trace()), "pl": pl}


def of_a_run(folder: Path) -> dict[str, Any]:
    ha.import_traces(ha.demo_trace(), folder / "run.hotline")
    writer = type("Writer", (), {"add_scalar": lambda *_: None})()
    return {"statistics": statistics, "writer": writer, "step": 1}


def of_a_dataset(folder: Path) -> dict[str, Any]:
    with ha.load(ha.demo_trace()) as trace:
        ha.append_run(trace, folder / "runs", with_report=False)
    return {"duckdb": duckdb, "pl": pl, "pd": pytest.importorskip("pandas"), "glob": glob.glob}


PAGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "capture.md": of_a_training,
    "critical-path.md": of_the_demo,
    "dashboards.md": of_a_dataset,
    "faq.md": of_a_run,
    "frameworks.md": of_a_run,
    "placed-models.md": of_a_training,
    "placing.md": lambda _: {},
    "tutorial.md": of_a_training,
    "whatif.md": of_the_demo,
}


def test_these_are_the_pages_with_python() -> None:
    assert {page.name for page in (ROOT / "docs").glob("*.md") if python_of(page)} == PAGES.keys()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sampled
def test_the_python_of_a_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    handlers = []
    analyze = ha.analyze

    def noted(*args: Any, **rest: Any) -> Any:
        handlers.append(analyze(*args, **rest))
        return handlers[-1]

    monkeypatch.setattr(ha, "analyze", noted)
    names = {"ha": ha, **PAGES[name](tmp_path)}
    for code in python_of(ROOT / "docs" / name):
        exec(code, names)
    for handler in handlers:
        handler.wait()  # the end of a program waits for the report; the test is not the end of its process
    if name in ("capture.md", "tutorial.md"):
        out = capsys.readouterr().out
        assert re.search(r"\.json\.gz: \w+ · CPU only · rank 0 · ", out)
        assert f"page: {tmp_path}" in out
