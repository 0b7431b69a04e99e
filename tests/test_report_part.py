"""The report on a step, a phase or a module, with figures by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis.cli import app
from hotline_analysis.errors import QueryParameterError
from tests.runs import opened
from tests.trace_builder import TraceBuilder

MODULES = Path(__file__).parent / "data/cnn.json.gz"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ha.Trace]:
    """Two steps: forward launches a kernel of 10 us, and 20 us in the second; the optimizer one of 5 us."""
    builder = TraceBuilder()
    for number, base, length in ((1, 0, 10), (2, 100, 20)):
        builder.step(number, base, base + 80 + length)
        builder.annotation("## forward ##", base, base + 40)
        builder.op("aten::mm", base + 5, base + 30).launches("gemm", base + 20, base + 20 + length)
        builder.annotation("Optimizer.step#SGD.step", base + 60, base + 80)
        builder.op("aten::add_", base + 62, base + 75).launches("add_kernel", base + 70, base + 75)
    with builder.imported(tmp_path_factory.mktemp("part")) as opened_trace:
        yield opened_trace


def rows(report: ha.Report, name: str) -> pl.DataFrame:
    return next(section.rows for section in report.sections if section.name == name)


def test_of_a_step(trace: ha.Trace) -> None:
    report = ha.report(trace, step=2)
    assert report.title.endswith(": step 2")
    assert report.headline == (
        "Step 2 takes 100 µs on the main thread, the median step 95.0 µs. GPU events launched there: 2, with 25.0 µs of"
        " work, 62.5 % of the run's."
    )
    assert dict(rows(report, "kernels").select("key", "gpu_time_ns").rows()) == {"gemm": 20_000, "add": 5_000}
    assert dict(rows(report, "ops").select("name", "count").rows()) == {"aten::mm": 1, "aten::add_": 1}
    assert dict(rows(report, "phases").select("phase", "cpu_ns").rows())["optimizer"] == 20_000


def test_of_a_phase(trace: ha.Trace) -> None:
    report = ha.report(trace, phase="optimizer")
    assert report.headline == (
        "The main thread spends 40.0 µs there, 21.1 % of the steps. GPU events launched there: 2, with 10.0 µs of work,"
        " 25.0 % of the run's."
    )
    assert rows(report, "kernels").select("key", "count").rows() == [("add", 2)]
    assert "phases" not in [section.name for section in report.sections]
    both = ha.report(trace, step=1, phase="optimizer")
    assert both.headline.startswith(
        "The main thread spends 20.0 µs there, 22.2 % of the step. GPU events launched there: 1,"
    )


def test_its_drills_ask_for_the_same_part(trace: ha.Trace) -> None:
    for section in ha.report(trace, step=2, phase="forward").as_dict()["sections"]:
        assert section["drill"]["parameters"] == {"rank": 0, "step": 2, "phase": "forward"}
        assert trace.query(section["drill"]["query"], **section["drill"]["parameters"]).height


def test_of_a_module() -> None:
    with opened(MODULES) as trace:
        path = trace.query("slowest_modules", limit=1)["path"][0]
        report = ha.report(trace, module=path)
        ops = trace.query("slowest_ops", module=path)
        assert rows(report, "ops")["name"].to_list() == ops["name"].to_list()[:8]
        assert f"module {path}" in report.title
        page = report.to_html()
    assert "What to do first" not in page
    assert "Slowest ops" in page


@pytest.mark.parametrize("wrong", [{"step": 7}, {"phase": "forwards"}, {"module": "layer"}, {"rank": 3, "step": 1}])
def test_what_is_not_there_is_told(trace: ha.Trace, wrong: dict[str, object]) -> None:
    with pytest.raises(QueryParameterError):
        ha.report(trace, **wrong)  # type: ignore[arg-type]


def test_the_command(trace: ha.Trace) -> None:
    done = CliRunner().invoke(app, ["report", str(trace.path), "--step", "2", "--phase", "forward", "--format", "json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["report"]["title"].endswith(": step 2, phase forward")
