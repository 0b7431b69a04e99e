"""The report: its numbers by hand on a built trace, its shares on every real one, and what names may not do to it."""

import functools
import json
import os
import re
import warnings
from itertools import dropwhile, takewhile
from pathlib import Path

import polars as pl
import polars.selectors as cs
import pytest

import hotline_analysis as ha
from hotline_analysis.answers.slowest import slowest_op
from hotline_analysis.cli.console import to_table
from hotline_analysis.errors import HotlineWarning, QueryParameterError
from hotline_analysis.reports.content import Field, Section
from hotline_analysis.reports.document import Report
from hotline_analysis.reports.sections.given import given
from hotline_analysis.text.formats import (
    duration,
    file_and_line,
    folded,
    module_name,
    percent,
    runs,
    safe,
    shares,
    shorten,
    shorten_place,
    size,
)
from hotline_analysis.text.html import frame_table
from tests.runs import is_as_another, opened
from tests.trace_builder import TraceBuilder

SHARED = Path(os.environ["HOTLINE_TRACES"]) if "HOTLINE_TRACES" in os.environ else None
REAL = [path for path in sorted(SHARED.rglob("*.json.gz")) if not is_as_another(path)] if SHARED else []
OWN = sorted((Path(__file__).parent / "data").glob("*.json.gz"))


@functools.cache
def report_of(path: Path) -> Report:
    """The report of a recorded trace, which several tests print."""
    with opened(path) as trace:
        return ha.report(trace)


def launch_bound_trace() -> TraceBuilder:
    """Two steps of 100 µs, each with 40 µs of forward (a kernel of 10 µs) and 20 µs of optimizer (a kernel of 5 µs)."""
    builder = TraceBuilder(rank=3, world_size=8)
    for number, base in ((1, 0), (2, 100)):
        builder.step(number, base, base + 100)
        builder.annotation("## forward ##", base, base + 40)
        builder.op("aten::mm", base + 5, base + 30).launches("void gemm<float>(int)", base + 20, base + 30)
        builder.annotation("Optimizer.step#SGD.step", base + 60, base + 80)
        builder.op("aten::add_", base + 62, base + 75).launches("add_kernel", base + 70, base + 75)
    return builder


def test_facts_and_findings(tmp_path: Path) -> None:
    with launch_bound_trace().load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.facts["ranks"] == "rank 3 of 8"
    # Work launched in step 1 is done at 75, in step 2 at 175.
    assert report.facts["steps"] == "2, mean 100 µs (100 µs to 100 µs)"
    assert report.facts["recorded"] == "times only (no stacks, shapes or memory)"
    bound, optimizer, place = report.findings
    # On the CPU: 25 + 13 µs in ops, 62 in python. 2 x (10 + 5) µs of 200 µs on the GPU.
    assert bound.statement == (
        "The CPU, for 100.0 % of the step (python on the CPU 62.0 % and ops and launch calls on the CPU 38.0 %). The"
        " GPU is busy for 15.0 % of the time."
    )
    assert report.headline == (
        "Mostly python on the CPU: 62.0 % of the step (2.63 times faster without it). Ops and launch calls on the CPU"
        " add 38.0 % (1.61 times faster without it). The largest part of that has no name in the trace: between"
        " Optimizer.step and the next forward, 20.0 % of the step."
    )
    # 20 of 100 µs of each step
    assert optimizer.statement == (
        "Partly: the optimizer is 20.0 % of the step. Without the optimizer, a step would be at most 20.0 % shorter"
        " (1.25 times faster)."
    )
    assert place.question == "Which place is slowest?"
    with launch_bound_trace().load(tmp_path, "again.json") as trace:
        slowest = slowest_op(trace, 3, 8)
    assert slowest.answer == "aten::mm"
    assert "20.0 µs of GPU time in 2 calls, 66.7 %" in slowest.statement


def test_phases_by_hand(tmp_path: Path) -> None:
    with launch_bound_trace().load(tmp_path) as trace:
        report = ha.report(trace)
    rows = next(section for section in report.sections if section.name == "phases").rows
    found = {row["phase"]: (row["cpu_ns"], row["cpu_pct"], row["gpu_time_ns"]) for row in rows.iter_rows(named=True)}
    assert found == {
        "forward": (80_000, 40.0, 20_000),
        "optimizer": (40_000, 20.0, 10_000),
        "other": (80_000, 40.0, 0),
    }


def test_what_no_step_launched_is_told_beside_the_steps(tmp_path: Path) -> None:
    """30 us of work are launched before the step, the last of it after 70 us of idle time that no step has."""
    builder = TraceBuilder().op("aten::mm", -100, -90).launches("gemm", -100, -80)
    builder.op("aten::mm", -89, -85).launches("late", -10, 0)
    builder.step(0, -20, 50).op("aten::mm", 0, 10).launches("gemm", 5, 50)
    with builder.load(tmp_path) as trace:
        steps = next(section for section in ha.report(trace).sections if section.name == "steps")
    assert steps.rows.select("gpu_busy_ns", "gpu_idle_ns").rows() == [(45_000, 5_000)]
    assert "Launched by no step: 30.0 µs more of busy time, 70.0 µs of idle time." in steps.note


def test_advice_says_what_is_missing(tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 10).launches("gemm", 12, 20)
    builder.kernel("early", 0, 2, correlation=0)
    with builder.load(tmp_path) as trace:
        advice = " ".join(ha.report(trace).recapture)
    for word in ("No steps", "No modules", "No shapes", "launched before the trace began"):
        assert word in advice


def test_cut_file_does_not_claim_that_there_was_no_gpu(tmp_path: Path) -> None:
    """Kernels stand behind the ops in a file, so a cut file may have lost them all."""
    path = launch_bound_trace().write(tmp_path / "cut.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("gemm")], encoding="utf-8")
    with pytest.warns(HotlineWarning, match="ends inside the events .*how many followed is unknown"):
        trace = ha.load(path)
    with trace:
        report = ha.report(trace)
    assert report.facts["damage"].endswith("how many followed is unknown")
    assert report.headline.endswith("figures and answers may be wrong.")
    assert report.facts["device"] == "no GPU work was read"
    assert report.findings[0].answer == "no-gpu"
    assert "cannot tell" in report.findings[0].statement


def test_calls_of_the_runtime_show_that_there_was_a_gpu(tmp_path: Path) -> None:
    builder = TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 50)
    with builder.load(tmp_path, "host.json") as trace:
        assert ha.report(trace).facts["device"] == "CPU only"
    with builder.runtime("cudaLaunchKernel", 20, 30, correlation=1).load(tmp_path, "half.json") as trace:
        report = ha.report(trace)
        assert ha.advice(trace).is_empty()
    assert report.facts["device"] == "no GPU work was read"
    assert "cannot tell" in report.headline
    assert "faster" not in report.headline
    assert report.headline.startswith("1 launch call is in the file, but no kernel arrived in it.")
    assert any("before the profiler stops" in line for line in report.recapture)
    assert "ProfilerActivity.CUDA" not in report.to_text()


def test_unknown_rank(tmp_path: Path) -> None:
    with launch_bound_trace().load(tmp_path) as trace, pytest.raises(QueryParameterError, match="no rank 7"):
        ha.report(trace, rank=7)


def test_several_ranks_are_compared(tmp_path: Path) -> None:
    for rank in (0, 1):
        TraceBuilder(rank=rank).step(1, 0, 50).op("aten::mm", 0, 40).launches("gemm", 10, 30 + 10 * rank).write(
            tmp_path / f"{rank}.json"
        )
    with ha.load(tmp_path) as trace:
        report = ha.report(trace, rank=1)
    assert "rank 1 of 2 ranks" in report.title
    ranks = next(section for section in report.sections if section.name == "ranks").rows
    assert ranks.select("rank", "gpu_busy_ns").rows() == [(0, 20_000), (1, 30_000)]


@pytest.mark.parametrize("path", [*OWN, *REAL], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_trace(path: Path) -> None:
    """Shares as printed add up to 100.0 %, all formats render, and no figure is negative or over the whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HotlineWarning)
        trace = opened(path)
    with trace:
        report = ha.report(trace)
    text, markdown, data = report.to_text(), report.to_markdown(), json.loads(report.to_json())
    assert report.headline in " ".join(text.split())
    assert all(len(line) <= 110 for line in text.splitlines())
    for section in report.sections:
        assert f"## {section.title}" in markdown
        # A range of gains may begin below 0.
        times = section.rows.select(cs.by_dtype(pl.Int64) - cs.starts_with("gain")).fill_null(0)
        assert all(value >= 0 for row in times.rows() for value in row)
        for name in section.rows.columns:
            if name.endswith("_pct"):
                assert section.rows[name].fill_null(0).is_between(0, 100.0001).all(), (section.name, name)
    for name, column in (("phases", "cpu_pct"), ("coverage", "gpu_time_pct")):
        for section in data["sections"]:
            if section["name"] == name and any(row[column] for row in section["rows"]):
                assert round(sum(row[column] for row in section["rows"]), 6) == 100.0
    printed = re.findall(r"([0-9.]+) %", report.coverage)
    assert not printed or abs(sum(map(float, printed)) - 100.0) < 0.05


def test_names_are_text(tmp_path: Path) -> None:
    """Markup, control characters and long names of a trace stay text in every format."""
    evil = "[bold]x[/bold]</script>|`*_\u202e\x1b[31m\n" + "y" * 10_000
    builder = TraceBuilder().step(1, 0, 100).op(evil, 0, 50).launches(f"void {evil}<int>()", 10, 40)
    with builder.load(tmp_path) as trace:
        report = ha.report(trace)
    text, markdown = report.to_text(), report.to_markdown()
    assert "[bold]x[/bold]" in text
    assert not any(character in text + markdown for character in "\x1b\u202e")
    assert "</script>" not in markdown
    assert "\\|" in markdown
    assert max(map(len, text.splitlines())) <= 110
    assert json.loads(report.to_json())["findings"][2]["answer"] == evil


@pytest.mark.parametrize(
    ("path", "shown"),
    [("0", "[0] Linear"), ("2.0", "[2][0] Linear"), ("layer1.0", "layer1.0"), ("v2.0b", "v2.0b"), ("", "")],
)
def test_modules_that_are_only_numbered_have_a_name(path: str, shown: str) -> None:
    assert module_name(path, "Linear") == shown
    assert module_name(path) == shown.removesuffix(" Linear")


def numbered() -> TraceBuilder:
    """A plain `Sequential` without a name: a linear, and a container with another."""
    trace = TraceBuilder(rank=0).step(0, 0, 200)
    inner = [{"name": "0", "type": "Linear"}]
    trace.top["hotline_model"] = [
        {"name": "0", "type": "Linear"},
        {"name": "1", "type": "ReLU"},
        {"name": "2", "type": "Sequential", "ops": inner},
    ]
    return trace.op("aten::linear", 10, 30).op("aten::relu", 30, 40).op("aten::linear", 50, 80)


def test_numbered_modules_are_shown_with_their_type(tmp_path: Path) -> None:
    trace = numbered().load(tmp_path)
    [section] = [section for section in ha.report(trace).sections if section.name == "modules"]
    assert section.rows.select("path", "module").rows() == [
        ("2.0", "[2][0] Linear"),
        ("0", "[0] Linear"),
        ("1", "[1] ReLU"),
        ("2", "[2] Sequential"),
    ]
    detail = ha.level_of_detail(trace).filter(kind="module").select("name", "short_name").unique()
    assert set(detail.rows()) == {("0", "[0] Linear"), ("1", "[1] ReLU"), ("2", "[2] Sequential")}
    assert "[2][0] Linear takes" in str(ha.charts.draw("slowest_modules", trace).to_dict()["title"])


def test_work_without_time_is_no_gpu_work(tmp_path: Path) -> None:
    """The head, the answers and the tables say the same of a GPU whose only kernel takes 0 ns."""
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 10, 20).launches("k", 30, 30).load(tmp_path)
    report = ha.report(trace)
    assert report.facts["device"] == "GPU (device 0), whose work takes no time"
    assert report.findings[0].answer == "no-gpu"
    text = report.to_text()
    assert "GPU self" not in text
    assert "GPU busy" not in text
    assert "The trace has no GPU time." in text


def test_runs_of_numbers() -> None:
    assert runs([0]) == "0"
    assert runs([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7 to 8"
    assert runs(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, …"
    assert runs([]) == "none"


def test_shares_add_up() -> None:
    assert shares([1, 1, 1]) == [33.4, 33.3, 33.3]
    assert shares([0, 0]) == [0.0, 0.0]
    assert shares([999_999, 1]) == [100.0, 0.0]
    assert round(sum(shares([3, 5, 7, 11, 13, 17])), 6) == 100.0


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (-1536, "-1.5 KiB"),
        (2**20 - 1, "1024 KiB"),
        (127 * 2**20 + 2**19, "128 MiB"),
        (6_630_000_000, "6.17 GiB"),
        (80 * 2**30, "80 GiB"),
        (3 * 2**50, "3072 TiB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text


def test_one_number_has_one_size_wherever_it_is_shown(tmp_path: Path) -> None:
    """In the report, in the table of a terminal, in a notebook, and in a chart: 1,500 MiB."""
    count = 1500 * 2**20
    trace = TraceBuilder().step(1, 0, 100).op("aten::empty", 5, 30).memory(count, 10, total=count, device=0)
    with trace.load(tmp_path) as loaded:
        assert "1.46 GiB allocated on device 0" in ha.report(loaded).to_text()
        timeline = ha.memory_timeline(loaded)
    header, _, row = to_table(timeline.select("allocated_bytes")).splitlines()
    assert (header.strip(), row.strip()) == ("allocated GiB", "1.5")
    assert frame_table(timeline.select("allocated_bytes"), 1).rows[0][0].text == "1.46 GiB"
    assert ha.charts.memory_timeline(timeline).to_dict()["title"]["text"] == "device 0 has at most 1.46 GiB allocated"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (12_345, "12.3 µs"),
        (123_456_789, "123 ms"),
        (1_234_567_890, "1.23 s"),
        (1_234_567_890_123, "1,235 s"),
        # what rounds to the next unit is said in that, and halves are rounded up
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (9_995, "10.0 µs"),
        (100_500, "101 µs"),
        (12_250, "12.3 µs"),
        (-12_345, "−12.3 µs"),
        (None, "–"),
    ],
)
def test_duration(ns: int | None, text: str) -> None:
    assert duration(ns) == text


def test_small_words() -> None:
    assert percent(12.34) == "12.3 %"
    assert percent(None) == "–"
    assert safe("a\nb\x1b") == "a\\nb\\x1b"
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abc…fghijk"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (34, "lib/models/resnet.py:89 in forward"),
        (33, "…/models/resnet.py:89 in forward"),
        (31, "…/resnet.py:89 in forward"),
        (24, "resnet.py:89 in forward"),
        (16, "resnet.py:89 in…"),
        (12, "resnet.py:89"),
        (8, "…t.py:89"),
    ],
)
def test_places_lose_folders_first_and_the_line_last(width: int, text: str) -> None:
    place = "lib/models/resnet.py:89 in forward"
    assert shorten_place(place, width) == text
    assert file_and_line(place) == file_and_line("resnet.py:89") == "resnet.py:89"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (31, r"C:\work\train\big.py:12 in main"),
        (27, r"…\train\big.py:12 in main"),
        (22, r"…\big.py:12 in main"),
        (9, "big.py:12"),
    ],
)
def test_places_on_windows_lose_folders_first(width: int, text: str) -> None:
    assert shorten_place(r"C:\work\train\big.py:12 in main", width) == text
    assert file_and_line(r"C:\work\train\big.py:12 in main") == "big.py:12"


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, "hardest_negatives (…/me/run/train.py:19)"),
        (38, "hardest_negatives (…/run/train.py:19)"),
        (31, "hardest_negatives (train.py:19)"),
    ],
)
def test_a_function_keeps_its_name_before_the_folders_of_its_file(width: int, text: str) -> None:
    assert shorten_place("hardest_negatives (home/me/run/train.py:19)", width) == text


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (None, ["a step takes 20.8 ms, 4.5 % of a_name_that_is_long"]),
        (100, ["a step takes 20.8 ms, 4.5 % of a_name_that_is_long"]),
        (15, ["a step takes", "  20.8 ms,", "  4.5 % of", "  a_name_that_is_long"]),
    ],
)
def test_folded(width: int | None, lines: list[str]) -> None:
    assert folded("a step takes 20.8 ms, 4.5 % of a_name_that_is_long", width, indent="  ") == "\n".join(lines)


@pytest.mark.parametrize("width", [60, 70, 80])
def test_narrow_tables_keep_the_file_and_line_of_places(width: int) -> None:
    shown = report_of(Path(__file__).parent / "data" / "cnn.json.gz")
    lines = iter(shown.to_text(width=width).splitlines())
    [section] = [section for section in shown.sections if section.name == "places"]
    table = list(takewhile(lambda line: line, dropwhile(lambda line: line != section.title, lines)))
    assert max(map(len, table)) <= width
    for source in section.rows["source"].drop_nulls().unique():
        assert any(source.rpartition("/")[2] in line for line in table)


@pytest.mark.parametrize("width", [30, 40, 50, 60])
def test_narrow_tables_keep_what_a_row_is_and_its_time(width: int) -> None:
    """The first column and the first time, or the change, are the last that a table loses."""
    name = "a_rather_long_name_of_something"
    row = {"name": [name], "n": [1_234_567], "ns": [123_000_000], "pct": [12.5], "delta": [-5_000], "word": ["launch"]}
    fields = [Field("name", "name", "name"), Field("n", "calls", "count"), Field("ns", "time", "time")]
    fields += [Field("pct", "share", "share"), Field("word", "bound by", "name")]

    def shown(*more: Field) -> str:
        section = Section("test", "Test", "", [*fields, *more], pl.DataFrame(row))
        report = Report("title", {"device": "CPU"}, "headline", [], [], [], [section], "coverage", [])
        lines = report.to_text(width=width).splitlines()
        assert max(map(len, lines)) <= width
        return lines[-3]

    assert "something" in shown()
    assert "123 ms" in shown()
    assert ("1,234,567" in shown()) == (width >= 50)
    assert ("launch" in shown()) == (width >= 40)
    assert "−5.00 µs" in shown(Field("delta", "change", "delta"))


# --- what the user said when capturing -------------------------------------------------------------------------------


def test_metadata_of_the_capture_is_shown_with_the_throughput(tmp_path: Path) -> None:
    builder = launch_bound_trace()
    builder.top["hotline_metadata"] = {
        "batch_size": 32,
        "device": "mine",
        "lr": 0.1,
        "a\x1b[31m": "red\u202e" + 99 * "x",
    }
    with builder.load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.facts["batch size"] == "32"
    # 32 samples in 100 µs
    assert report.facts["throughput"] == "320,000 samples/s"
    assert report.facts["lr"] == "0.1"
    assert report.facts["device (given)"] == "mine"
    assert report.facts["device"] != "mine"
    text = report.to_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    "said", [None, 7, "x", [], {}, {"batch_size": "many"}, {"batch_size": -1}, {"batch_size": True}]
)
def test_metadata_of_another_kind_does_no_harm(said: object) -> None:
    assert "throughput" not in given(json.dumps({"hotline_metadata": said}), 1000.0, frozenset())


def test_there_is_no_throughput_without_steps() -> None:
    assert given('{"hotline_metadata": {"batch_size": 8}}', None, frozenset()) == {"batch size": "8"}
    assert given("{}", 1000.0, frozenset()) == {}


def test_the_time_of_the_gpu_by_what_it_does(tmp_path: Path) -> None:
    """Of 100 µs: 40 computing, 30 communication of which 10 beside it, 5 copying, and 35 idle until the next launch."""
    trace = TraceBuilder().step(1, 0, 100).annotation("## forward ##", 0, 100).op("aten::mm", 0, 60)
    trace.launches("gemm", 2, 32, at=0).launches("ncclDevKernel_AllReduce", 22, 52, at=1, stream=9)
    trace.launches("copy", 52, 57, at=2, category="gpu_memcpy").op("aten::relu", 80, 95).launches("relu", 88, 98, at=82)
    with trace.load(tmp_path) as opened:
        report = ha.report(opened)
    rows = next(section for section in report.sections if section.name == "device").rows
    assert rows.rows() == [
        ("computes", 40_000, None, None, 40.0),
        # 60 to 80, and 98 to 100
        ("idle: CPU runs python", 22_000, "forward", "## forward ##: 1 × 22.0 µs", 22.0),
        ("communicates and does not compute", 20_000, None, None, 20.0),
        ("idle: a launch takes effect", 2_000 + 6_000, "forward", None, 8.0),
        # 57 to 60, and 80 to 82
        ("idle: CPU in ops and runtime calls", 5_000, "forward", "mm: 1 × 3.00 µs", 5.0),
        ("only copies", 5_000, None, None, 5.0),
    ]


def test_the_cpu_is_not_said_to_run_python_where_the_file_has_only_its_calls(tmp_path: Path) -> None:
    """Neither ops nor frames: from 5 to 20 nothing is recorded; the calls at 0 and 20 take effect at 1 and 22."""
    trace = TraceBuilder().runtime("cudaLaunchKernel", 0, 1, correlation=1).kernel("gemm", 1, 5, correlation=1)
    trace.runtime("cudaLaunchKernel", 20, 21, correlation=2).kernel("gemm", 22, 30, correlation=2)
    with trace.load(tmp_path) as opened:
        report = ha.report(opened)
    rows = next(section for section in report.sections if section.name == "device").rows
    assert rows.select("what", "time_ns").rows() == [
        ("idle: cause not in the file", 15_000),
        ("computes", 12_000),
        ("idle: a launch takes effect", 1_000 + 2_000),
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_what_does_not_fit_is_cut_in_names_or_left_out_but_no_number_is(width: int) -> None:
    text = report_of(ha.demo_trace()).to_text(width=width)
    assert max(map(len, text.splitlines())) <= width
    assert not re.findall(r"(?<!\S)[\d.,]+ ?…(?!\S)", text)
    for title, column in (("Memory at its peak", "alive"), ("Slowest ops", "calls"), ("Phases", "CPU time")):
        header, *rows = text[text.index(title) :].splitlines()[1:4]
        assert column in header
        assert all(re.search(r"  [\d,.]+( \w+)?(?=  )", row) for row in rows)


def test_what_a_console_shows_of_a_value_is_one_short_line() -> None:
    trace = opened(ha.demo_trace())
    report = report_of(ha.demo_trace())
    values = (trace, report, *report.sections, *report.findings, ha.dependency_graph(trace), ha.charts.timeline(trace))
    for value in values:
        assert re.fullmatch(r"<.{5,250}>", repr(value)), type(value)
    parts = f"3 findings, {len(report.sections)} sections"
    assert repr(report) == f"<Report 'demo.json.gz': {parts}; print it to read it>"
    assert repr(report.sections[0]) == "<Section help: 2 rows>"
    assert repr(report.findings[0]).startswith("<Finding 'launch-bound': Is the GPU or the CPU the bottleneck? The")


def test_findings_in_json_have_their_numbers(tmp_path: Path) -> None:
    report = ha.report(launch_bound_trace().load(tmp_path))
    told = json.loads(report.to_json())["findings"]
    assert [finding["numbers"] for finding in told] == [dict(finding.numbers) for finding in report.findings]
    assert told[1]["numbers"] == {
        "step_ns": 100_000,
        "without_ns": 80_000,
        "gain_pct": 20.0,
        "at_most_times_faster": 1.25,
        "optimizer_pct": 20.0,
        "clipping_pct": 0.0,
        "least_pct": 20.0,
        "most_pct": 20.0,
    }
    assert told[1]["evidence"] == report.findings[1].evidence.to_dicts()
