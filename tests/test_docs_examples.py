"""What the docs and `--help` tell people to type works as it is written, on the trace that comes with the package."""

import inspect
import json
import re
import shlex
import shutil
import textwrap
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis.cli import app
from tests.viewer import visit

ROOT = Path(__file__).parents[1]
# `test_cli.py` runs the examples in the help of every command.
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
COMMAND = re.compile(r"`(hotline [^`\n]+)`|^ {4,}(hotline .+?)(?: {2,}#.*)?$", re.MULTILINE)
# What the examples call a trace, a run, or several.
FILES = ("trace.json.gz", "before.json.gz", "after.json.gz", "traces/rank0.json.gz", "run.rank0.json.gz")
RUNS = (
    "new1.hotline",
    "new2.hotline",
    "new3.hotline",
    "baseline.json",
    "run.hotline",
    "before.hotline",
    "after.hotline",
    "TRACE",
    "TRACES",
    "RUN",
    "A",
    "B",
    "BEFORE",
    "AFTER",
)
# A bucket or a scheduler that is not here; `test_remote.py` and `test_cluster.py` have them.
ELSEWHERE = ("s3://", "tcp://")
WITHOUT_TRACE = {"hotline demo", "hotline mcp --skill", "hotline queries", "hotline schema", "hotline chart --list"}


def examples() -> list[str]:
    """Each command that names a trace or needs none. The others only refer to a command or an option."""
    found = [match[1] or match[2] for page in PAGES for match in COMMAND.finditer(page.read_text(encoding="utf-8"))]
    named = re.compile("|".join([*(re.escape(name) for name in (*FILES, *RUNS, "traces/", "run.rank")), "runs$"]))
    is_whole = [
        any(named.match(word.strip("\"'")) for word in command.split()[2:]) or command in WITHOUT_TRACE
        for command in found
    ]
    listed = [
        command
        for command, whole in zip(found, is_whole, strict=True)
        if whole and "NAME" not in command.split() and not any(place in command for place in ELSEWHERE)
    ]
    return sorted({*listed, *(command for command in found if command.startswith(("hotline queries ", "hotline sc")))})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything is there that the examples name."""
    place = tmp_path_factory.mktemp("examples")
    for name in FILES:
        (place / name).parent.mkdir(exist_ok=True)
        shutil.copy(ha.demo_trace(), place / name)
    shutil.copy(ha.demo_trace(), place / "traces/rank1.json.gz")
    ha.import_traces(place / "traces", place / "RUN")
    for rank in ("rank0", "rank1"):
        ha.import_traces(place / f"traces/{rank}.json.gz", place / f"run.{rank}.hotline")
    ha.import_traces(place / "trace.json.gz", place / "TRACE")
    for name in sorted({*RUNS} - {"RUN", "TRACE", "baseline.json"}):
        (place / name).symlink_to(place / "TRACE")
    with ha.load(place / "TRACE") as trace:
        listed = trace.sql("select path as name, type from model_op order by module_id").to_dicts()
        ha.write_baseline([ha.measure(trace)] * 3, place / "baseline.json")
    with ha.load(place / "RUN") as trace:
        ha.append_run(trace, place / "runs", tables=["steps"], with_report=False)
    (place / "model.json").write_text(json.dumps(listed))
    (place / "ops.csv").write_text("name,family,roles\nmylib::scan,own,\n")
    shown = re.search(
        r"(?m)^ {4}-- scan\.sql\n(?: {4}.*\n)+", (ROOT / "docs/utilisation.md").read_text(encoding="utf-8")
    )
    assert shown
    (place / "scan.sql").write_text(textwrap.dedent(shown[0]))
    return place


def test_there_are_examples_of_every_command() -> None:
    commands = getattr(typer.main.get_command(app), "commands")  # noqa: B009  # its class is private to typer
    assert {command.split()[1] for command in examples()} == set(commands)


@pytest.mark.parametrize("command", examples())
@pytest.mark.sampled
def test_commands_run(command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in folder.iterdir():
        (tmp_path / name.name).symlink_to(name)
    if command.startswith("hotline import TRACE"):
        command = command.replace("TRACE", "trace.json.gz") + " -o new.hotline"
    output = tmp_path / command.partition(" -o ")[2].partition(" --append")[0]
    if output != tmp_path and "--overwrite" not in command:
        output.unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path)
    visit(monkeypatch)
    done = CliRunner().invoke(app, shlex.split(command)[1:], prog_name="hotline")
    # Of a gate, this is the verdict: copies of one demo trace, of which some have two ranks.
    allowed = (0, 3) if command.startswith("hotline gate ") else (0,)
    assert done.exit_code in allowed, done.output
    assert done.stdout or output.exists()


def test_python_about_the_dependency_graph_runs() -> None:
    pytest.importorskip("rustworkx")
    text = f"{inspect.getdoc(ha.DependencyGraph)}\n"
    found = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", text, re.MULTILINE)
    (code,) = [textwrap.dedent(block) for block in found if "ha." in block]
    with ha.load(ha.demo_trace()) as trace:
        exec("import hotline_analysis as ha, polars as pl\n" + code, {"trace": trace})


# --- what an installed package says ----------------------------------------------------------------------------------


def test_nothing_that_a_user_reads_names_a_file_that_is_not_installed() -> None:
    """A wheel holds no `docs/`: messages, help and docstrings name commands and functions instead."""
    wheel = [ROOT / "hotline_analysis", ROOT / "queries"]
    texts = [file for place in wheel for ending in ("py", "sql", "js", "css") for file in place.rglob(f"*.{ending}")]
    assert len(texts) > 200
    # What is generated from the schema is said to whoever changes it.
    named = [
        f"{file.name}: {line.strip()}"
        for file in texts
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r"docs/|(README|CONTRIBUTING|CHANGELOG)\.md", line) and file.name != "schema.py"
    ]
    assert named == []
