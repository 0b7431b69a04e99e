"""Everything that a command prints with `--json` is in one envelope, and as its schema says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.cli import app
from hotline_analysis.envelope import SCHEMA, rows_envelope, units_of
from tests.runs import opened
from tests.trace_builder import TraceBuilder

ROOT = Path(__file__).parents[1]
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
COMMANDS = {
    "query steps RUN --json": "rows",
    "query optimizer_bottleneck RUN --json": "rows",
    "query advice RUN --json": "rows",
    "sql from+step RUN --json": "rows",
    "diff RUN RUN --by phase --json": "rows",
    "diff RUN RUN --json": "report",
    "report RUN --format json": "report",
    "whatif RUN --json": "rows",
    "whatif RUN backward_chain --json": "rows",
    "whatif RUN --scale 0.5:phase='backward' --json": "prediction",
    "gate RUN RUN --json": "gate",
    "import TRACE -o NEW --json": "import",
    "queries --json": "answers",
    "queries steps --json": "answers",
    "schema --json": "tables",
}


@pytest.fixture(scope="module")
def run() -> Path:
    with opened(ROOT / "tests/data/cnn.json.gz") as trace:
        return trace.path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.sampled
def test_each_command_prints_an_envelope(command: str, run: Path, tmp_path: Path) -> None:
    names = {
        "RUN": str(run),
        "TRACE": str(ROOT / "tests/data/twice/gnn_1.json.gz"),
        "NEW": str(tmp_path / "new.hotline"),
    }
    words = [names.get(word, word).replace("+", " ") for word in command.split()]
    done = CliRunner().invoke(app, words, prog_name="hotline")
    assert done.exit_code in ((0, 3) if command.startswith("gate") else (0,)), done.output
    found: dict[str, Any] = json.loads(done.stdout)
    VALIDATOR.validate(found)
    assert found["kind"] == COMMANDS[command]
    assert found["tool"]["version"] == ha.__version__
    if "RUN" in command and not command.startswith("gate"):
        assert [part["file"] for part in found["runs"][0]["parts"]] == ["cnn.json.gz"]
    if found["kind"] == "rows":
        assert found["truncation"]["returned"] == len(found["rows"])
        assert [column["name"] for column in found["columns"]] == list(found["rows"][0])


def test_the_schema_is_printed() -> None:
    done = CliRunner().invoke(app, ["schema", "--envelope"], prog_name="hotline")
    assert json.loads(done.stdout) == VALIDATOR.schema


ANSWERS = [*(query.name for query in catalog.queries("answers")), *catalog.COMPUTED]


@pytest.mark.parametrize("name", ANSWERS)
def test_each_answer_has_a_schema(name: str) -> None:
    done = CliRunner().invoke(app, ["queries", name, "--schema"], prog_name="hotline")
    assert done.exit_code == 0, done.output
    jsonschema.Draft202012Validator.check_schema(json.loads(done.stdout))


@pytest.mark.parametrize(
    "command", ["steps", "slowest_ops --limit 3", "gpu_or_cpu_bound", "critical_path", "advice", "phases"]
)
@pytest.mark.sampled
def test_an_answer_is_as_its_schema_says(command: str, run: Path) -> None:
    name, *options = command.split()
    asked = CliRunner().invoke(app, ["query", name, str(run), *options, "--json"], prog_name="hotline")
    answer = json.loads(asked.stdout)
    schema = json.loads(CliRunner().invoke(app, ["queries", name, "--schema"], prog_name="hotline").stdout)
    jsonschema.validate(answer, schema)
    assert answer["rows"]
    answer["rows"][0][answer["columns"][0]["name"]] = [{}]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, schema)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("queries --schema", "needs the name of an answer"),
        ("queries steps --schema --json", "exclude each other"),
        ("queries gpu_busy --schema", "gpu_busy is not an answer"),
        ("queries no_such --schema", "no_such"),
    ],
)
def test_what_has_no_schema_says_so(words: str, said: str) -> None:
    done = CliRunner().invoke(app, words.split(), prog_name="hotline")
    assert done.exit_code != 0
    assert said in " ".join(done.output.replace("│", " ").split())


def test_the_id_of_a_run_is_that_of_its_content(run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    with ha.load(run) as here, ha.load(moved) as there, opened(ROOT / "tests/data/dlrm.json.gz") as other:
        ids = [rows_envelope(pl.DataFrame(), runs=[each])["runs"][0]["id"] for each in (here, there, other)]
    assert ids[0] == ids[1] != ids[2]


def test_two_recordings_of_one_program_have_different_ids(tmp_path: Path) -> None:
    """The file has the same name and as many events; the second was recorded an hour later."""
    ids = []
    for hour in (0, 1):
        folder = tmp_path / str(hour)
        folder.mkdir()
        file = TraceBuilder().step(1, hour * 3_600_000_000, hour * 3_600_000_000 + 100).write(folder / "trace.json")
        with ha.load(file) as trace:
            ids.append(rows_envelope(pl.DataFrame(), runs=[trace])["runs"][0]["id"])
    assert ids[0] != ids[1]


def test_units_are_those_of_the_names() -> None:
    names = ["step", "dur_ns", "bytes", "peak_bytes", "gpu_busy_pct", "bus_gb_per_s", "event_id", "count"]
    assert units_of(names) == {
        "dur_ns": "ns",
        "bytes": "bytes",
        "peak_bytes": "bytes",
        "gpu_busy_pct": "%",
        "bus_gb_per_s": "GB/s",
    }


def test_a_warning_is_in_the_envelope(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 5},')
    done = CliRunner().invoke(app, ["sql", "select 1 as n", str(cut), "--json"], prog_name="hotline")
    assert any("cut.json" in text for text in json.loads(done.stdout)["warnings"])
