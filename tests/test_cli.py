import gzip
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import duckdb
import polars as pl
import pytest
import typer

import hotline_analysis as ha
from docs import generate_cli, generate_queries
from hotline_analysis import catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.cli import app, interrupt
from hotline_analysis.errors import HotlineError
from hotline_analysis.text.formats import size
from tests.command import Result, hotline
from tests.trace_builder import TraceBuilder
from tests.viewer import visit

ROOT = Path(__file__).parents[1]
TRACE = ROOT / "tests/data/cnn.json.gz"
COMMANDS = list(getattr(typer.main.get_command(app), "commands"))  # noqa: B009  # its class is private to typer
EVIL = "[red]\x1b[31mevil\n\u202e[/red]"


def rows(text: str) -> list[dict[str, Any]]:
    """The rows in an envelope."""
    found: list[dict[str, Any]] = json.loads(text)["rows"]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ha.import_traces(TRACE, tmp_path_factory.mktemp("runs") / "run.hotline")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step, which a report has soon read."""
    built = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 0, 90).launches("gemm", 50, 95)
    folder = tmp_path_factory.mktemp("small")
    return ha.import_traces(built.write(folder / "small.json"), folder / "small.hotline")


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    events = [{"ph": "X", "cat": "cpu_op", "name": EVIL, "pid": 1, "tid": 1, "ts": 1, "dur": 5}]
    path = tmp_path / "evil.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example_and_a_place_in_the_docs(command: str) -> None:
    text = hotline(command, "--help")
    assert f"Example:\n    hotline {command}" in text
    assert generate_cli.pages()[f"{command}.md"].startswith(f"# hotline {command}\n")


def test_the_summaries_fit_into_the_list_of_commands() -> None:
    assert "..." not in hotline("--help").partition("Commands:")[2]


@pytest.mark.long
def test_the_examples_in_the_help_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces/rank0.json.gz").write_bytes(TRACE.read_bytes())
    monkeypatch.chdir(tmp_path)
    visit(monkeypatch)
    for command in COMMANDS:
        if command == "dashboard":
            hotline("export", "run.hotline", "-o", "runs", "--append", "--no-report", "--table", "steps")
        example = hotline(command, "--help").partition("Example:\n")[2].splitlines()[0]
        hotline(*shlex.split(example)[1:])
    assert {path.name for path in tmp_path.iterdir()} >= {"run.hotline", "report.html", "dashboard"}


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom hotline_analysis.cli import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n"
        "    print(sorted({'torch', 'altair', 'duckdb', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_version() -> None:
    assert hotline("--version") == f"hotline_analysis {ha.__version__}\n"


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hotline_analysis", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"hotline_analysis {ha.__version__}\n"


# --- commands --------------------------------------------------------------------------------------------------------


def test_import_says_what_it_wrote(tmp_path: Path) -> None:
    target = tmp_path / "run.hotline"
    out = hotline("import", TRACE, "-o", target)
    assert out.startswith(f"{target}: 1 rank, 6,851 events from {TRACE.stat().st_size / 1024:.0f} KiB in ")
    assert out.count("\n") == 1
    assert ha.load(target).ranks == [0]
    refused = Result("import", TRACE, "-o", target)
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    hotline("import", TRACE, "-o", target, "--overwrite")


def test_import_several_files(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json.gz").write_bytes(TRACE.read_bytes())
    out = hotline("import", tmp_path / "rank0.json.gz", tmp_path / "rank1.json.gz", "-o", tmp_path / "run.hotline")
    assert f": 2 ranks, 13,702 events from {2 * TRACE.stat().st_size / 1024:.0f} KiB in " in out


def test_demo() -> None:
    out = hotline("demo", "--all")
    assert out.startswith("demo.json.gz\n")
    assert "aten::convolution_backward" in out


def test_report_formats(run: Path, small: Path, tmp_path: Path) -> None:
    assert hotline("report", run, "--all").startswith("cnn.json.gz\n")
    assert hotline("report", small, "--rank", 0, "--format", "markdown").startswith("# ")
    assert json.loads(hotline("report", small, "--format", "json"))["report"]["findings"]
    target = tmp_path / "report.HTML"
    assert hotline("report", small, "-o", target) == ""
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert hotline("report", small, "--format", "markdown", "-o", target, "--overwrite") == ""
    assert target.read_text(encoding="utf-8").startswith("# ")


def test_query(run: Path) -> None:
    table = hotline("query", "slowest_ops", run, "-p", "limit=3")
    header, rule, *lines, note = table.splitlines()
    assert header.split()[:2] == ["name", "count"]
    assert "cpu_self ms" in header
    assert set(rule) == {"─"}
    assert len(lines) == 3
    assert note.startswith("without example_rank and example_event_id")
    assert rows(hotline("query", "slowest_ops", run, "-p", "limit=3", "--json"))[0]["name"].startswith("aten::")
    assert hotline("query", "slowest_ops", run, "--csv").startswith("name,count,cpu_self_ns,")


def test_query_asks_what_is_no_query_too(run: Path) -> None:
    """Every answer by name, with its arguments as text: those that Python computes over queries."""
    step = rows(hotline("query", "steps", run, "--json"))[0]
    path = rows(hotline("query", "critical_path", run, "--step", str(step["step"]), "-p", "until=host", "--json"))
    assert sum(row["weight_ns"] for row in path) == step["dur_ns"]
    parts = rows(hotline("query", "critical_path_breakdown", run, "-p", "by=phase,bound_by", "--json"))
    assert {"phase", "bound_by"} <= parts[0].keys()
    assert sum(row["path_pct"] for row in parts) == pytest.approx(100)
    [finding] = rows(hotline("query", "optimizer_bottleneck", run, "--json"))
    assert finding["answer"] in ("yes", "no", "partly")
    assert finding["thresholds"] == {"yes_pct": 30, "partly_pct": 15}
    numbers = finding["numbers"]
    assert numbers["gain_pct"] == pytest.approx(100 * (1 - numbers["without_ns"] / numbers["step_ns"]))
    assert numbers["at_most_times_faster"] == pytest.approx(numbers["step_ns"] / numbers["without_ns"])
    [finding] = rows(hotline("query", "gpu_or_cpu_bound", run, "--json"))
    limits = rows(hotline("query", "step_limits", run, "--json"))
    assert finding["evidence"] == limits
    assert sum(row["path_ns"] for row in limits) == pytest.approx(finding["numbers"]["step_ns"], abs=len(limits))
    assert sum(row["path_pct"] for row in limits) == pytest.approx(100)
    for row in rows(hotline("query", "advice", run, "--json")):
        assert row["gain_pct"] >= 2
    assert {row["delta_ns"] for row in rows(hotline("query", "diff", run, run, "--json"))} == {0}
    assert hotline("query", "frequent_kernel_patterns", run, "--csv").startswith("pattern,length,count,")
    listed = hotline("queries", "--all", columns=200)
    assert all(name in listed for name in COMPUTED)
    assert "[until=host | work | launched]" in listed
    assert "[by=device | stream]" in listed
    assert "A phase is load_data, forward," in listed
    for wrong, hint in (
        (("critical_pat", run), "did you mean critical_path"),
        (("critical_path", run, "-p", "stp=1"), "Parameters: rank, step"),
        (("critical_path", run, "-p", "step=one"), "step must be a whole number"),
        (("critical_path", run, "--step", "77"), "the trace has no step 77"),
        (("slowest_ops", run, "--step", "77"), "the trace has no step 77"),
        (("slowest_ops", run, "-p", "module=foo"), "the trace has no module 'foo'"),
        (("slowest_ops", run, "-p", "phase=foo"), "must be load_data, forward, loss, "),
        (("diff", run, run, "-p", "module=foo"), "trace a has no module 'foo'"),
    ):
        result = Result("query", *wrong)
        assert result.status == 1
        assert hint in result.err


@pytest.mark.parametrize("name", ["critical_path", "engine_call", "host_bound_launching", "memory_block", "roofline"])
def test_the_command_says_all_words_of_the_page_of_a_query(name: str) -> None:
    query = next(query for query in generate_queries.documented() if query.name == name)
    page = "\n".join(generate_queries.section(query, with_columns=True))
    page = re.sub(r"(?m)^(\||\d+\. ).*$|\]\([^)]*\)", "", page)  # tables and lists of steps: the next assertion
    words = set(re.findall(r"\w+", hotline("queries", query.name, columns=None)))
    assert set(re.findall(r"\w+", page)) - words - _FRAME == {query.name} - words
    named = [each.name for group in (query.params, query.columns, query.steps) for each in group]
    assert set(named if query.kind != "advice" else []) <= words


# Words around the header of a query on its page.
_FRAME = set(
    re.findall(r"\w+", "The query runs in steps. Each step is a temporary table. A function over several queries")
)
_FRAME |= {"hotline_analysis"}


def test_queries() -> None:
    first = hotline("queries", columns=None)
    shown = re.findall(r"^  (\w+)  ", first, re.MULTILINE)
    assert "slowest_ops" in shown
    assert 12 <= len(shown) <= 15
    everything = hotline("queries", "--all", columns=None)
    count = len(json.loads(hotline("queries", "--json"))["answers"])
    assert f"\n{count - len(shown)} more: hotline queries --all" in first
    assert set(shown) < set(re.findall(r"^(\w+) ", everything, re.MULTILINE))
    assert "nesting" not in hotline("queries", "--kind", "answers")
    listed = json.loads(hotline("queries", "--kind", "annotate", "--json"))["answers"]
    assert {query["kind"] for query in listed} == {"annotate"}


ANSWERS = [
    name
    for name in ha.answers.__all__
    if inspect.isfunction(function := getattr(ha, name))
    and function.__module__.startswith("hotline_analysis.answers.")
    and get_type_hints(function)["return"] in (pl.DataFrame, ha.Finding)
]


def test_every_answer_of_the_package_is_listed() -> None:
    """What programs read names each public function that answers something of a trace, with what it takes."""
    listed = {query["name"]: query for query in json.loads(hotline("queries", "--json"))["answers"]}
    assert len(ANSWERS) >= 40
    assert set(ANSWERS) <= set(listed)
    assert set(COMPUTED) == set(catalog.COMPUTED) <= set(listed)
    answers = {query["name"] for query in json.loads(hotline("queries", "--kind", "answers", "--json"))["answers"]}
    assert answers == {name for name, query in listed.items() if query["kind"] == "answers"}
    for name in COMPUTED:
        taken = inspect.signature(getattr(ha, name)).parameters
        params = [param["name"] for param in listed[name]["params"]]
        assert params == [each for each in taken if each not in ("trace", "a", "b", "bound")]
        assert listed[name]["traces"] == 1 + ("b" in taken)
        assert all(param["description"] for param in listed[name]["params"])


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.sampled
def test_computed_answers_have_the_columns_that_are_listed(name: str, run: Path) -> None:
    [query] = json.loads(hotline("queries", name, "--json"))["answers"]
    answer = COMPUTED[name]
    with ha.load(run) as trace:
        frame = answer.ask(*[trace] * answer.traces)  # noqa: F841  # asked in SQL
    described = duckdb.execute("describe from frame").fetchall()
    declared = [(column["name"], column["type"]) for column in query["columns"]]
    # What a structure holds is another answer's.
    assert [(column, re.sub(r"\(.*\)", "", type_)) for column, type_, *_ in described] == declared
    told = hotline("queries", name)
    assert all(word in told for word, _ in declared)
    assert query["summary"].split()[0] in told


def test_an_answer_that_is_no_query_tells_what_to_call(run: Path) -> None:
    with ha.load(run) as trace:
        for name in COMPUTED:
            with pytest.raises(ha.QueryNotFoundError, match=f"Call hotline_analysis.{name}, or ask `hotline query "):
                trace.query(name)


def test_sql(run: Path) -> None:
    statement = "select 1::bigint as n, 0.5 as half, 'x' as text, null as nothing, [1, 2] as list, sum(2) as two"
    row = {"n": 1, "half": 0.5, "text": "x", "nothing": None, "list": [1, 2], "two": 2}
    assert rows(hotline("sql", statement, run, "--json")) == [row]
    assert hotline("sql", statement, run, "--csv") == 'n,half,text,nothing,list,two\n1,0.5,x,,"[1, 2]",2\n'
    assert hotline("sql", "select 'x' as text where false", run) == "text\n────\nno rows\n"


def test_numbers_in_json_are_exact(run: Path) -> None:
    wide, fraction = 10**38 - 1, "12345678901234567890.1234567891"
    numbers = f"{wide}::hugeint as wide, {fraction}::decimal(38, 10) as fraction, 0.1::decimal(3, 1) as short"
    text = hotline("sql", f"select {numbers}", run, "--json")
    assert f'\n    {{"wide": {wide}, "fraction": "{fraction}", "short": 0.1}}\n' in text


def test_the_ending_of_the_file_chooses_the_format(run: Path, tmp_path: Path) -> None:
    hotline("sql", "select 1 as n", run, "-o", tmp_path / "n.json")
    hotline("sql", "select 1 as n", run, "-o", tmp_path / "n.csv")
    hotline("sql", "select 1 as n", run, "-o", tmp_path / "n.txt")
    assert rows((tmp_path / "n.json").read_text()) == [{"n": 1}]
    assert (tmp_path / "n.csv").read_text() == "n\n1\n"
    assert (tmp_path / "n.txt").read_text() == "n\n─\n1\n"
    hotline("sql", "select 1 as n, [2] as list", run, "-o", tmp_path / "n.parquet")
    assert pl.read_parquet(tmp_path / "n.parquet").rows() == [(1, [2])]
    diff = ("diff", run, run, "--step-a", 2, "--step-b", 3)
    for ending, begins in ((".md", "# What changed"), (".json", "{"), (".txt", "What changed"), ("", "What changed")):
        hotline(*diff, "-o", tmp_path / f"diff{ending}")
        assert (tmp_path / f"diff{ending}").read_text(encoding="utf-8").startswith(begins)
    hotline(*diff, "--by", "phase", "-o", tmp_path / "diff.csv")
    assert (tmp_path / "diff.csv").read_text().startswith("phase,change,a_ns,")


def test_a_comparison_has_one_minus_sign(run: Path) -> None:
    texts = [hotline("diff", run, run, "--step-a", a, "--step-b", 5 - a) for a in (2, 3)]
    signs = [set(re.findall(r"(?<![\w-])[-−+](?=\d)", text)) for text in texts]
    assert signs == [{"+", "−"}, {"+", "−"}]


def test_an_option_counts_more_than_the_ending(run: Path, tmp_path: Path) -> None:
    hotline("sql", "select 1 as n", run, "--csv", "-o", tmp_path / "n.tsv")
    hotline("sql", "select 1 as n", run, "--json", "-o", tmp_path / "n.csv")
    hotline("diff", run, run, "--markdown", "-o", tmp_path / "diff.json")
    assert (tmp_path / "n.tsv").read_text() == "n\n1\n"
    assert rows((tmp_path / "n.csv").read_text()) == [{"n": 1}]
    assert (tmp_path / "diff.json").read_text(encoding="utf-8").startswith("# What changed")


WRITES = {
    "report": ("a.pdf", ".txt, .md, .json, .html, .htm"),
    "query steps": ("a.xlsx", ".txt, .json, .csv, .parquet"),
    "sql select+1": ("a.html", ".txt, .json, .csv, .parquet"),
    "diff RUN": ("a.csv", ".txt, .md, .json"),
    "diff --by phase RUN": ("a.md", ".txt, .json, .csv, .parquet"),
    "timeline": ("a.pdf", ".html, .svg, .png, .json"),
    "chart phases": ("a.csv", ".html, .svg, .png, .json"),
    "export --format perfetto": ("a.html", ".json, .gz"),
}


@pytest.mark.parametrize("command", WRITES)
def test_an_ending_that_stands_for_no_format_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    name, endings = WRITES[command]
    words = [run if word == "RUN" else word.replace("+", " ") for word in command.split()]
    refused = Result(*words, run, "-o", name)
    complaint = f"error: cannot write {name}: the file name's ending is unknown. Hint: Use {endings}.\n"
    assert (refused.status, refused.out, refused.err) == (1, "", complaint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["import", "export", "baseline"])
def test_what_is_no_file_cannot_be_printed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = Result(command, run, "-o", "-")
    assert (refused.status, refused.out) == (2, "")
    assert "cannot write to '-'" in refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_device_is_written_to_and_not_replaced(small: Path) -> None:
    assert hotline("report", small, "-o", "/dev/null") == ""
    assert Path("/dev/null").is_char_device()
    full = "error: cannot write /dev/full: No space left on device."
    assert Result("report", small, "-o", "/dev/full").err.startswith(full)
    assert Result("query", "steps", small, "-o", "/dev/full").err.startswith(full)
    assert Result("export", small, "--format", "perfetto", "-o", "/dev/full").err.startswith(full)
    for command in ("import", "export"):
        assert Result(command, TRACE, "-o", "/dev/full").err.startswith("error: /dev/full is not a folder.")


def test_export(run: Path, tmp_path: Path) -> None:
    out = hotline("export", run, "-o", tmp_path / "dashboard")
    assert " tables, " in out
    assert pl.read_parquet(tmp_path / "dashboard/annotated_event.parquet").height > 6000


def test_timeline(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "timeline.html"
    assert hotline("timeline", run, "-o", page).startswith(f"{page}: ")
    assert "<!doctype html>" in page.read_text(encoding="utf-8")
    assert "exists already" in Result("timeline", run, "-o", page).err
    assert "no step 99" in Result("timeline", run, "-o", page, "--overwrite", "--step", 99).err


def test_report_as_a_page(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert hotline("report", run, "-o", page) == ""
    assert "data-hotline-timeline" in page.read_text(encoding="utf-8")


@pytest.mark.long
def test_every_command_that_takes_a_trace_takes_its_model(run: Path, tmp_path: Path) -> None:
    trace, model = tmp_path / "trace.json", tmp_path / "model.json"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::{name}", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 5}
        for at, name in enumerate(["linear", "relu", "linear"])
    ]
    trace.write_text(json.dumps(events))
    model.write_text(json.dumps([{"name": name, "type": "Linear"} for name in ("up", "down")]))
    given = ("--model", model)
    assert "down" in hotline("report", trace, *given, "--all")
    assert "down" not in hotline("report", trace, "--all")
    statement = "select distinct module_path from annotated_event where name = 'aten::linear' order by 1"
    assert hotline("sql", statement, trace, *given, "--csv") == "module_path\ndown\nup\n"
    assert "down" in hotline("query", "modules", trace, *given)
    hotline("export", trace, *given, "-o", tmp_path / "folder")
    assert "down" in pl.read_parquet(tmp_path / "folder/annotated_event.parquet")["module_path"].to_list()
    hotline("timeline", trace, *given, "-o", tmp_path / "timeline.html")
    assert "down" in (tmp_path / "timeline.html").read_text(encoding="utf-8")
    hotline("chart", "modules", trace, *given, "-o", tmp_path / "modules.json")
    assert "down" in (tmp_path / "modules.json").read_text(encoding="utf-8")
    assert "already imported" in Result("report", run, *given).err


def test_schema(run: Path) -> None:
    assert "annotated_event" in hotline("schema")
    assert "module_path" in hotline("schema", "annotated_event")
    described = json.loads(hotline("schema", "--json"))["tables"]
    with ha.load(run) as trace:
        for table in described:
            names = [column["name"] for column in table["columns"]]
            assert names == trace.sql(f"describe {table['name']}")["column_name"].to_list()
    assert hotline("schema", "step", "--ddl").startswith("create table step (\n")


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "nowhere.json"),
        ("report", ""),
        ("report", "nowhere/*.json"),
        ("query", "slowest_op", TRACE),
        ("query", "slowest_ops", TRACE, "--param", "n=1"),
        ("sql", "selec 1", TRACE),
        ("sql", "from nowhere", TRACE),
        ("schema", "evnt"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[object, ...]) -> None:
    result = Result(*arguments)
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("error: ")
    assert " Hint: " in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",),
        ("report",),
        ("import", TRACE),
        ("query", "slowest_ops", TRACE, "--param", "limit"),
        ("sql", "select 1", TRACE, "--json", "--csv"),
        ("schema", "--json", "--ddl"),
        ("report", TRACE, "--format", "pdf"),
    ],
)
def test_wrong_usage_exits_2(arguments: tuple[object, ...]) -> None:
    result = Result(*arguments)
    assert (result.status, result.out) == (2, "")
    assert "Usage: hotline" in result.err


def test_a_word_that_an_option_does_not_take_is_a_plain_sentence() -> None:
    wrong = Result("report", TRACE, "--format", "pdf").err.splitlines()[-1]
    assert wrong == "Error: Invalid value for '--format': 'pdf' is not one of 'text', 'markdown', 'json', 'html'."
    wrong = Result("report", TRACE, "--format", "integer").err.splitlines()[-1]
    assert wrong.startswith("Error: Invalid value for '--format': 'integer' is not one of ")
    wrong = Result("report", "trace.json", "--rank", "1.5").err.splitlines()[-1]
    assert wrong == "Error: Invalid value for '--rank': '1.5' is not a whole number."


def test_a_warning_is_one_line_and_the_result_stands(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(TRACE.read_bytes())[:1_000_000])
    result = Result("sql", "select count(*) > 0 as found from event", cut, "--json")
    assert (result.status, rows(result.out)) == (0, [{"found": True}])
    assert result.err.startswith("warning: cut.json: ")
    assert result.err.count("\n") == 1


def raises(error: BaseException) -> Callable[..., None]:
    def load(*arguments: object, **options: object) -> None:
        raise error

    return load


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha, "load", raises(KeyboardInterrupt()))
    result = Result("report", TRACE)
    assert (result.status, result.out, result.err) == (130, "", "")


def test_after_ctrl_c_the_error_that_a_library_makes_of_it_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha, "load", raises(RuntimeError("Query interrupted")))
    with pytest.raises(AssertionError, match="Query interrupted"):
        Result("report", TRACE)
    monkeypatch.setattr(interrupt._came, "is_set", lambda: True)
    result = Result("report", TRACE)
    assert (result.status, result.out, result.err) == (130, "", "")


def test_a_closed_pipe_is_silent(run: Path) -> None:
    command = [sys.executable, "-m", "hotline_analysis", "sql", "from event", str(run), "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_pipe_gets_utf_8_whatever_the_locale(run: Path) -> None:
    command = [sys.executable, "-m", "hotline_analysis", "report", str(run)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert "µs" in done.stdout.decode("utf-8")
    assert done.stderr == b""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only names that are text")
def test_a_folder_whose_name_is_no_text_is_refused(run: Path, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xffb"))
    folder.mkdir()
    with pytest.raises(HotlineError, match="is not UTF-8"):
        ha.import_traces(TRACE, folder / "run")
    shutil.copytree(run, folder / "copy")
    with pytest.raises(HotlineError, match="is not UTF-8"):
        ha.load(folder / "copy")


def test_nothing_but_the_result_goes_into_a_pipe() -> None:
    command = [sys.executable, "-m", "hotline_analysis", "sql", "select 1 as n", str(TRACE), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (rows(done.stdout), done.stderr) == ([{"n": 1}], "")


def test_names_are_no_markup_and_no_control_characters(evil: Path) -> None:
    assert hotline("sql", "select name from event", evil).splitlines()[-1] == r"[red]\x1b[31mevil \u202e[/red]"
    assert rows(hotline("sql", "select name from event", evil, "--json")) == [{"name": EVIL}]
    assert "\x1b" not in hotline("report", evil)
    failed = Result("report", evil.with_name("[red]\x1b[31m.json"))
    assert r"[red]\x1b[31m.json" in failed.err


# --- output files ----------------------------------------------------------------------------------------------------


def test_an_output_file_is_not_replaced_unasked(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "n.json"
    target.write_text("mine")
    for arguments in (("sql", "select 1 as n", run), ("query", "steps", run), ("report", run)):
        refused = Result(*arguments, "-o", target)
        assert (refused.status, target.read_text()) == (1, "mine")
        assert "--overwrite" in refused.err
    hotline("sql", "select 1 as n", run, "-o", target, "--overwrite")
    assert rows(target.read_text()) == [{"n": 1}]
    assert Result("report", run, "-o", tmp_path, "--overwrite").status == 1
    assert [path.name for path in tmp_path.iterdir()] == ["n.json"]


def test_a_failure_leaves_no_file(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "n.json"
    assert Result("sql", "selec", run, "-o", target).status == 1
    (tmp_path / "file").touch()
    assert Result("sql", "select 1 as n", run, "-o", tmp_path / "file" / "n.json").status == 1
    (tmp_path / "file").unlink()

    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    failed = Result("sql", "select 1 as n", run, "-o", target)
    assert failed.status == 1
    assert failed.err.startswith(f"error: cannot write {target}: No space left on device.")
    assert list(tmp_path.iterdir()) == []


# --- charts ----------------------------------------------------------------------------------------------------------


def test_charts_are_listed() -> None:
    listed = [line.split()[0] for line in hotline("chart", "--list").splitlines()[2:] if not line.startswith(" ")]
    assert listed == sorted(ha.charts.CHARTS)


def test_a_chart_is_written_as_its_ending_says(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "modules.json"
    text = hotline("chart", "modules", run, "--step", "2", "-p", "side=cpu", "-o", output)
    assert text == f"{output}: {size(output.stat().st_size)}\n"
    with ha.load(run) as trace:
        asked = ha.charts.modules(ha.modules(trace, step=2), "cpu").to_dict()
    assert json.loads(output.read_text(encoding="utf-8")) == asked
    assert Result("chart", "modules", run, "-o", output).status == 1
    hotline("chart", "diff", run, run, "-p", "step_a=2", "-p", "step_b=3", "-o", output, "--overwrite")
    assert json.loads(output.read_text(encoding="utf-8"))["title"]["text"].startswith("B is ")


def test_a_finding_is_shown_whole(run: Path) -> None:
    text = hotline("query", "optimizer_bottleneck", run)
    [told] = rows(hotline("query", "optimizer_bottleneck", run, "--json"))
    assert max(map(len, text.splitlines())) <= 110
    words = " ".join(text.split())
    assert told["question"] in words
    assert told["statement"] in words


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["query", "phases", "RUN", "--rank", "9"], "no rank 9"),
        (["query", "slowest_ops", "RUN", "-p", "limit=many"], "limit of query slowest_ops must be a whole number, not"),
        (["query", "optimizer_bottleneck", "RUN", "--rank", "9"], "no rank 9"),
        (["query", "optimizer_bottleneck", "RUN", "-p", "bound=x"], "no parameter 'bound'"),
        (["sql", "select interval 1 day as a", "RUN"], "Cast the column"),
    ],
)
def test_wrong_questions_are_refused_in_one_line(run: Path, arguments: list[str], complaint: str) -> None:
    result = Result(*[run if word == "RUN" else word for word in arguments])
    assert result.status == 1
    assert complaint in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    ("target", "status", "says"), [(">/dev/full", 1, "error: cannot write the output"), (">&-", 0, "")]
)
def test_output_that_goes_nowhere(target: str, status: int, says: str) -> None:
    command = f"{sys.executable} -m hotline_analysis schema {target}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stderr.startswith(says)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["chart"], "--list"),
        (["chart", "fases", "RUN", "-o", "x.svg"], "Did you mean phases"),
        (["chart", "phases", "RUN", "-o", "x.pdf"], "x.pdf"),
        (["chart", "phases", "RUN", "-o", "x.svg", "-p", "colour=red"], "no parameter 'colour'"),
        (["chart", "phases", "RUN", "-o", "x.svg", "--rank", "9"], "no rank 9"),
        (["chart", "coverage", "RUN", "-o", "x.svg", "--step", "1"], "no parameter 'step'"),
        (["chart", "diff", "RUN", "-o", "x.svg"], "compares 2"),
        (["chart", "modules", "nowhere", "-o", "x.svg", "-p", "side=foo"], "side must be gpu or cpu, not 'foo'"),
        (["query", "critical_path", "nowhere", "-p", "until=foo"], "until must be host, work or launched, not 'foo'"),
        (["query", "launch_stats", "nowhere", "-p", "by=foo"], "by of query launch_stats must be api, step, phase"),
        (["query", "diff", "RUN", "RUN", "-p", "sigmas=-1"], "sigmas must be 0 or more, not -1"),
    ],
)
def test_wrong_charts_are_refused_in_one_line(run: Path, arguments: list[str], complaint: str) -> None:
    result = Result(*[run if word == "RUN" else word for word in arguments])
    assert result.status in (1, 2)
    assert complaint in result.err
    assert result.out == ""
    assert not Path("x.svg").exists()
