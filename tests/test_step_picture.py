"""The picture of a step in text: each column has the state of most of its time, by hand."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis.cli import console
from hotline_analysis.reports.picture import Picture, Row, step_picture
from hotline_analysis.reports.renderers.strips import share_line, strips, to_ascii
from hotline_analysis.reports.screen import Part
from tests.answer.ranks_of_a_job import job, ranks
from tests.trace_builder import TraceBuilder

WHOLE = 1000.0


def lines(report: ha.Report, width: int = 80, **options: bool) -> list[str]:
    return report.to_screen(width=width, **options).splitlines()  # type: ignore[arg-type]


def picture_of(report: ha.Report, width: int = 80, **options: bool) -> list[str]:
    """The lines of the picture: from its title to the empty line after it."""
    shown = lines(report, width, **options)
    begin = next(at for at, line in enumerate(shown) if line.startswith(("Step ", "The whole recording")))
    return shown[begin : shown.index("", begin)]


def half_loading(steps: int = 3) -> TraceBuilder:
    """Steps of 1,000 us: half loads data; the other half launches a kernel of 20 us each 100 us."""
    made = TraceBuilder(rank=0)
    for number in range(steps):
        begin = 1000 * number
        made.step(number, begin, begin + 1000)
        made.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, begin + 500)
        made.annotation("## forward ##", begin + 500, begin + 1000)
        for at in range(begin + 500, begin + 1000, 100):
            made.op("aten::mm", at, at + 90).launches("gemm", at + 50, at + 70, at=at + 10, until=at + 40)
    return made


def test_a_step_of_half_loading_and_half_launching(tmp_path: Path) -> None:
    with half_loading().load(tmp_path) as trace:
        title, axis, cpu, gpu, legend, *shares = picture_of(ha.report(trace), width=57)
    assert title == "Step 1 of 1.00 ms, typical of 3 steps"
    # 50 columns of 20 us: the first 25 load data, and each fifth one of the others has a kernel that fills half of it.
    assert axis == f"       {'0.0':<25}0.5 ms"
    assert cpu == f"  CPU  {'d' * 25}{'F' * 25}"
    assert gpu == f"  GPU  {'.' * 25}{'..▄▄.' * 5}"
    assert legend == "       d load data  F forward  . idle  ▁▄█ busy"
    assert " ".join(shares).startswith("  In all: GPU computes 10 %, idle 90 %:")


def test_idle_time_during_other_work_is_not_for_the_launches(tmp_path: Path) -> None:
    """Of 1,000 us, the CPU loads for 300 and is in an op for 600, during which the kernel of 550 us runs.

    The op limits the steps, but the GPU idles during loading. Without the op, a step takes the 550 us of the GPU.
    """
    made = TraceBuilder(rank=0)
    for number in range(3):
        begin = 1000 * number
        made.step(number, begin, begin + 1000)
        made.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, begin + 300)
        made.annotation("## forward ##", begin + 300, begin + 1000)
        made.op("aten::mm", begin + 400, begin + 1000).launches(
            "gemm", begin + 430, begin + 980, at=begin + 410, until=begin + 420
        )
    with made.load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.lead.startswith(
        "The CPU takes longer than the GPU: launching kernels is 60 % of a step. Without that"
    )
    assert report.screen is not None
    assert report.screen.hot == ""
    assert [part.is_hot for part in report.screen.parts] == [False] * len(report.screen.parts)
    assert "because" not in report.lead


def test_the_place_of_the_sentence_is_where_the_picture_shows_it(tmp_path: Path) -> None:
    """Of 1,000 us, the region takes 240, from 700 to 940: columns 35 to 47 of 20 us each, and no other."""
    made = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        made.step(number, at, at + 1000).op("aten::linear", at, at + 200, seq=3 * number + 1)
        made.op("autograd::engine::evaluate_function: AddmmBackward0", at + 200, at + 400, seq=3 * number + 1)
        made.annotation("Optimizer.step#SGD.step", at + 400, at + 600).op("aten::add_", at + 410, at + 590)
        made.annotation("statistics", at + 700, at + 940)
    with made.load(tmp_path) as trace:
        report = ha.report(trace)
    assert report.lead.startswith('Your region "statistics" takes 24 % of the time.')
    cpu, *legend = picture_of(report, width=57)[2:]
    assert [at for at, letter in enumerate(cpu[7:]) if letter == "x"] == list(range(35, 47))
    assert "x statistics" in " ".join(legend)
    assert report.screen is not None
    assert report.screen.causes == {1: [(1_700_000, 1_940_000, 1, 0)]}


def test_no_gpu_has_no_row_and_no_shares(tmp_path: Path) -> None:
    made = TraceBuilder(rank=0)
    for number in range(3):
        begin = 1000 * number
        made.step(number, begin, begin + 1000)
        made.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, begin + 250)
        made.annotation("## forward ##", begin + 250, begin + 1000)
        made.op("aten::mm", begin + 250, begin + 1000)
    with made.load(tmp_path) as trace:
        _, _, cpu, legend = picture_of(ha.report(trace), width=47)
    # A quarter of 40 columns.
    assert cpu == f"  CPU  {'d' * 10}{'F' * 30}"
    assert legend == "       d load data  F forward"


def test_the_rank_that_comes_last_has_a_row(tmp_path: Path) -> None:
    with ranks(tmp_path, job(0, [100, 100]), job(1, [190, 190], clock=10_000, gemm=140)) as both:
        rows = [line.split()[:2] for line in picture_of(ha.report(both, rank=0))]
    assert ["rank", "1"] in rows


def drawn(rows: list[Row], span: int = 100, width: int = 1, hot: str = "") -> Picture:
    return Picture("Step 1 of 100 ns", span, width, rows, hot=hot)


def test_columns_share_out_all_time() -> None:
    # 10 stretches of 10 ns; the last one ends 5 ns after the step.
    row = Row("CPU", False, {"forward": [WHOLE] * 5 + [0.0] * 5, "backward": [0.0] * 5 + [WHOLE] * 4 + [WHOLE / 2]})
    made = drawn([row], span=95, width=10)
    for count in (1, 3, 7, 95, 200):
        columns = made.columns(row, count)
        assert len(columns) == count
        assert all(sum(column.values()) == pytest.approx(1) for column in columns)
        total = {state: sum(column.get(state, 0) for column in columns) * 95 / count for state in row.shares}
        assert total == pytest.approx({"forward": 50, "backward": 45})


def test_work_of_a_gpu_has_a_height_or_a_letter() -> None:
    quarter = [0.0] * 25
    states = {
        "computation": [WHOLE] * 25 + [WHOLE / 4] * 25 + quarter * 2,
        "communication": quarter + [0.0] * 25 + [WHOLE] * 25 + quarter,
        "memory": quarter * 3 + [600.0] * 25,
        "sync": [0.0] * 25 + [750.0] * 25 + [0.0] * 25 + [400.0] * 25,
    }
    (_, gpu), legend = strips(drawn([Row("GPU", True, states)]), 7 + 40, 1)
    assert gpu.text == f"{'█' * 10}{'▂' * 10}{'c' * 10}{'m' * 10}"
    assert legend == ["c only communicates", "m only copies", "▁▄█ busy"]
    # A tenth of a column is seen, a twentieth is not: the height is a number of eighths.
    for share, sign in ((100.0, "▁"), (50.0, "."), (950.0, "█"), (0.0, ".")):
        small = {"computation": [share] * 100, "python": [WHOLE - share] * 100}
        assert set(strips(drawn([Row("GPU", True, small)]), 47, 1)[0][1].text) == {sign}


def test_time_that_was_not_observed_is_neither_busy_nor_idle() -> None:
    row = Row("GPU", True, {"computation": [WHOLE] * 50, "unobserved": [0.0] * 50 + [WHOLE] * 50})
    (_, gpu), legend = strips(drawn([row]), 47, 1)
    assert gpu.text == "█" * 20 + "?" * 20
    assert "? not observed" in legend


def test_only_some_of_many_gpus_and_no_picture_in_a_narrow_terminal() -> None:
    rows = [Row(f"GPU {number}", True, {"computation": [WHOLE] * 100}) for number in range(8)]
    assert [strip.head.strip() for strip in strips(drawn(rows), 80, 2)[0]] == ["", "GPU 0", "GPU 1"]
    assert strips(drawn(rows), 20, 2) == ([], [])


@pytest.mark.parametrize("span", [1, 7, 99, 1000, 26_300_000, 398_000_000, 10**9, 87 * 10**9])
@pytest.mark.parametrize("room", [24, 40, 73, 93])
def test_the_axis_fits_and_its_labels_are_at_their_times(span: int, room: int) -> None:
    (axis, _), _ = strips(drawn([Row("CPU", False, {"other": [WHOLE]})], span=span, width=span), room + 7, 1)
    labels = axis.text.split()
    assert len(axis.text) <= room
    assert float(labels[0]) == 0
    assert labels[-1] in ("ns", "µs", "ms", "s")
    scale = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}[labels[-1]]
    for label in labels[1:-1]:
        at = axis.text.index(f" {label}") + 1
        assert at == pytest.approx(float(label) * scale * room / span, abs=1)


def test_places_of_the_first_change_are_shown_without_a_phase(tmp_path: Path) -> None:
    """On a CPU, code without a phase that takes over 30 % of the step is shown instead of `other`."""
    made = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 0, 100)
    with made.load(tmp_path) as trace:

        def shown(*spans: tuple[int, int, int, int], hot: str = "") -> tuple[str, list[str]]:
            picture = step_picture(
                trace, 0, title="Step 0", begin_ns=0, end_ns=100_000, hot=hot, spans=spans, cause="save"
            )
            assert picture is not None
            (_, cpu), legend = strips(picture, 47, 1)
            return cpu.text, legend

        other = shown()[0][0]
        # The second half. Spans may overlap, and one on a GPU is not on the CPU's row.
        text, legend = shown((50_000, 90_000, 1, 0), (60_000, 100_000, 1, 0), (0, 100_000, 1, 1))
        assert text == other * 20 + "x" * 20
        assert "x save" in legend
        assert "x" not in shown((0, 20_000, 1, 0))[0]
        assert "x" not in shown((0, 100_000, 1, 0), hot="load_data")[0]


def test_the_shares_of_all_steps_in_a_line() -> None:
    parts = [
        Part("computation", "GPU computes", 50),
        Part("communication", "GPU only communicates", 10),
        Part("python", "idle: CPU runs python", 20),
        Part("sync", "idle: CPU in a synchronising call", 12),
        Part("queued", "idle: between launched kernels", 5),
        Part("rest", "idle: the rest", 3),
    ]
    assert share_line(parts) == (
        "GPU computes 50 %, only communicates 10 %, idle 40 %: CPU runs python 20 %, CPU in a synchronising call 12 %,"
        " the rest 8 %"
    )
    assert share_line([Part("python", "idle: CPU runs python", 100)]) == "GPU idle 100 %: CPU runs python 100 %"
    # Phases have a table.
    assert share_line([Part("forward", "forward", 100, is_phase=True)]) == ""


def test_a_terminal_without_blocks_has_digits(tmp_path: Path) -> None:
    with half_loading().load(tmp_path) as trace:
        report = ha.report(trace)
    whole, plain = lines(report), lines(report, ascii_only=True)
    assert "\n".join(plain).isascii()
    assert [len(line) for line in plain] == [len(line) for line in whole]
    assert picture_of(report, 57, ascii_only=True)[3] == f"  GPU  {'.' * 25}{'..44.' * 5}"
    assert to_ascii("▁▂▃▄▅▆▇█ 1 µs → 2 µs · ░") == "1234567# 1 us > 2 us | -"


@pytest.mark.parametrize(("encoding", "has"), [("utf-8", True), ("ascii", False), ("latin-1", False), ("cp437", False)])
def test_the_encoding_of_the_terminal_decides(monkeypatch: pytest.MonkeyPatch, encoding: str, has: bool) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert console.has_blocks() is has


def test_colours_do_not_change_the_text(tmp_path: Path) -> None:
    with half_loading().load(tmp_path) as trace:
        report = ha.report(trace)
    shown = report.to_screen(width=57, color=True)
    # The cause has the accent colour in both rows.
    assert shown.count(f"\x1b[1;35m{'d' * 25}\x1b[0m") == 1
    assert shown.count(f"\x1b[1;35m{'.' * 25}\x1b[0m") == 1
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == report.to_screen(width=57)
