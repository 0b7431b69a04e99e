import io
import sys

import polars as pl
import pytest

from hotline_analysis.cli import console


def test_units_and_alignment() -> None:
    frame = pl.DataFrame(
        {
            "name": ["gemm", None],
            "step": [1234, None],
            "dur_ns": [1_500_000, 20],
            "end_ns": [4_379_765_197_703_123, 5],
            "bytes": [3 * 2**20, 1],
            "gpu_pct": [12.345, None],
            "count": [1_234_567, 1],
            "ratio": [0.123456, float("nan")],
            "ok": [True, False],
        }
    )
    assert console.to_table(frame) == (
        "name  step  dur ms             end ms  MiB  gpu %      count   ratio  ok\n"
        "─────────────────────────────────────────────────────────────────────────\n"
        "gemm  1234   1.500  4,379,765,197.703  3.0   12.3  1,234,567  0.1235  yes\n"
        "–        –   0.000              0.000  0.0      –          1       –  no\n"
    )


@pytest.mark.parametrize(
    ("longest", "header"),
    [(999, "dur ns"), (1000, "dur µs"), (10**6, "dur ms"), (10**10 - 1, "dur ms"), (10**10, "dur s")],
)
def test_the_longest_time_chooses_the_unit(longest: int, header: str) -> None:
    assert console.to_table(pl.DataFrame({"dur_ns": [1, longest]})).splitlines()[0].strip() == header


def test_long_texts_lose_their_middle() -> None:
    frame = pl.DataFrame({"name": ["void " + "x" * 500 + "(int)"], "n": [1]})
    assert [len(line) for line in console.to_table(frame, width=40).splitlines()] == [40, 40, 40]
    row = console.to_table(frame, width=40).splitlines()[2]
    assert row.startswith("void xxx")
    assert "…" in row
    assert row.endswith("x(int)  1")


def test_too_many_columns_become_lists() -> None:
    frame = pl.DataFrame({f"column_{number}": ["some text"] for number in range(9)})
    assert console.to_table(frame, width=60).splitlines()[:2] == ["─── row 1", "column_0  some text"]


def test_examples_go_before_a_table_becomes_lists() -> None:
    frame = pl.DataFrame({"name": ["aten::mm"], "count": [7], "example_rank": [0], "example_event_id": [123456]})
    header, _, row, note = console.to_table(frame, width=40).splitlines()
    assert (header.split(), row.split()) == (["name", "count"], ["aten::mm", "7"])
    assert note == "without example_rank and example_event_id, which a wider terminal, --json and --csv show"
    assert console.to_table(frame, width=60).splitlines()[0].split() == frame.columns
    assert console.to_table(frame, width=10).startswith("─── row 1")


def test_only_the_first_rows_are_for_people() -> None:
    table = console.to_table(pl.DataFrame({"n": range(1234)}))
    assert table.count("\n") == 2 + 100 + 1
    assert table.endswith("100 of 1,234 rows; --json and --csv give all of them\n")


def test_colours_only_on_request() -> None:
    frame = pl.DataFrame({"name": ["[red]x[/red]"]})
    assert "\x1b" not in console.to_table(frame)
    assert "\x1b[1mname" in console.to_table(frame, color=True)
    assert "[red]x[/red]" in console.to_table(frame, color=True)


def test_json_has_no_numbers_that_json_lacks() -> None:
    frame = pl.DataFrame({"big": [2**63 - 1], "nan": [float("nan")], "inf": [[float("inf")]], "raw": [b"\x00\xff"]})
    assert console.to_json(frame) == '[{"big": 9223372036854775807, "nan": null, "inf": [null], "raw": "00ff"}]\n'
    assert console.to_json(frame.head(0)) == "[]\n"


def test_no_progress_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with console.progress() as on_progress:
        assert on_progress is None


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with console.progress() as on_progress:
        assert on_progress is not None
        assert terminal.getvalue() == ""
        on_progress("reading [red]trace.json", 0.5)
    assert "reading [red]trace.json" in terminal.getvalue()
