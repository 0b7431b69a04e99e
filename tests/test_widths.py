"""Nothing that a command prints for people is wider than the terminal, and in a pipe than 80 columns."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hotline_analysis as ha
from tests.command import Result, hotline

DATA = Path(__file__).parent / "data"
COMMANDS = [
    "demo",
    "demo --all",
    "report RUN",
    "report RUN --all",
    "report RUN --step 2",
    "report RUN --phase forward",
    "diff RUN RUN --step-a 2 --step-b 3",
    "diff RUN RUN --step-a 2 --step-b 3 --by op",
    "query slowest_ops RUN --limit 5",
    "query slowest_places RUN",
    "query gpu_or_cpu_bound RUN",
    "query step_limits RUN",
    "query critical_path RUN --step 2 --limit 3",
    "queries",
    "queries --all",
    "queries --kind advice",
    "queries critical_path",
    "queries slowest_ops",
    "schema",
    "schema event",
    "sql from_event_limit_2 RUN",
    "whatif RUN",
    "whatif RUN --scale 0.5:phase='backward'",
    "whatif DEMO",
    "whatif DEMO cuda_graph",
    "query device_use DEMO",
    "query slowest_kernels DEMO --limit 3",
    "chart --list",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ha.import_traces(DATA / "cnn.json.gz", tmp_path_factory.mktemp("widths") / "a_run.hotline")


def longest(text: str) -> str:
    return max(text.splitlines(), key=len)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_in_a_pipe(run: Path, command: str) -> None:
    given = {"RUN": str(run), "DEMO": str(ha.demo_trace())}
    arguments = [given.get(word, word) for word in command.split()]
    arguments = ["from event limit 2" if word == "from_event_limit_2" else word for word in arguments]
    text = hotline(*arguments, columns=None)
    assert text.strip()
    assert len(longest(text)) <= 80, longest(text)


def test_a_gate_in_a_pipe(run: Path) -> None:
    text = Result("gate", run, run, columns=None).out
    assert text.strip()
    assert len(longest(text)) <= 80, longest(text)


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("command", ["report RUN", "report RUN --all", "queries", "query slowest_ops RUN"])
def test_on_a_terminal(run: Path, command: str, columns: int) -> None:
    text = hotline(*(str(run) if word == "RUN" else word for word in command.split()), columns=columns)
    assert len(longest(text)) <= columns, longest(text)


def test_a_chart_without_an_output_is_next_to_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "traces" / "cnn.pt.trace.json.gz"
    trace.parent.mkdir()
    shutil.copy(DATA / "cnn.json.gz", trace)
    monkeypatch.chdir(tmp_path)
    assert "cnn.phases.html: " in hotline("chart", "phases", trace)
    assert (trace.parent / "cnn.phases.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    hotline("chart", "phases", trace.parent)
    assert (tmp_path / "traces.phases.html").exists()
