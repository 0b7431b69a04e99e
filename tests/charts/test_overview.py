"""The overview: nothing is lost in its sums, however many stretches it has."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from tests.browser import Browser, needs_browser
from tests.trace_builder import TraceBuilder


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """100 us of CPU; the device works from 10 to 50 and, beside that, from 40 to 70."""
    made = TraceBuilder(rank=0).step(0, 0, 100).annotation("## forward ##", 0, 60)
    made.op("aten::mm", 0, 20).launches("a", 10, 50).launches("b", 40, 70, stream=9)
    return made.load(tmp_path_factory.mktemp("overview"))


def test_an_event_counts_in_every_stretch_it_lies_in(trace: Trace) -> None:
    rows = trace.query("overview", bins=4).with_columns(at=pl.col("start_ns") // 1000)
    assert rows.filter(pl.col("device").is_null()).select("phase", "at", "time_ns").rows() == [
        ("forward", 0, 25_000),
        ("forward", 25, 25_000),
        ("forward", 50, 10_000),
        ("other", 50, 15_000),
        ("other", 75, 25_000),
    ]
    # a has its 40 us, and of b what is left after 50: 20 us.
    assert rows.filter(device=0).select("at", "time_ns").rows() == [(0, 15_000), (25, 25_000), (50, 20_000)]


@pytest.mark.parametrize("bins", [1, 3, 7, 600])
def test_sums_do_not_depend_on_the_stretches(trace: Trace, bins: int) -> None:
    rows = trace.query("overview", bins=bins)
    assert rows.filter(device=0)["time_ns"].sum() == 60_000
    assert rows.filter(pl.col("device").is_null())["time_ns"].sum() == 100_000


def test_a_window_has_only_what_lies_in_it(trace: Trace) -> None:
    rows = trace.query("overview", bins=2, start_ns=40_000, end_ns=60_000)
    assert rows.filter(device=0).select("start_ns", "time_ns").rows() == [(40_000, 10_000), (50_000, 10_000)]


@pytest.mark.long
def test_marks_stay_few_with_many_ranks(tmp_path: Path) -> None:
    for rank in range(12):
        made = TraceBuilder(rank=rank).step(0, 0, 10_000)
        made.op("aten::mm", 0, 9_000)
        for at in range(0, 9_000, 100):
            made.launches("a", at, at + 50, at=at, until=at + 1)
        made.write(tmp_path / f"rank{rank}.json")
    opened = ha.load(tmp_path)
    rows = [row for frame in charts.overview(opened).to_dict()["datasets"].values() for row in frame]
    assert 1500 < len(rows) <= 4000
    above = [row for row in rows if "lane" in row]
    assert {row["lane"] for row in above} == {"CPU, mean of 12 ranks", "GPU, mean of 12 ranks"}
    # 90 kernels of 50 us on each device; up to what the last stretch reaches over the end. Nothing is lost on the way.
    assert charts.overview(opened).to_dict()["title"]["text"].startswith("The run over 10.")
    for row in above:
        assert 0 <= row["low"] <= row["high"] <= 1.000001
    busy = sum((row["high"] - row["low"]) * (row["stop"] - row["start"]) for row in above if row["lane"][0] == "G")
    assert busy == pytest.approx(90 * 50 / 1000)
    below = [row for row in rows if "busy_pct" in row]
    assert {row["rank"] for row in below} == set(range(12))
    one = sum(row["busy_pct"] / 100 * (row["stop"] - row["start"]) for row in below if row["rank"] == 7)
    assert one == pytest.approx(90 * 50 / 1000)


def test_six_ranks_have_lanes_of_their_own_in_order(tmp_path: Path) -> None:
    for rank in (2, 10):
        TraceBuilder(rank=rank).step(0, 0, 100).op("aten::mm", 0, 90).launches("a", 10, 50).write(
            tmp_path / f"rank{rank}.json"
        )
    spec = charts.overview(ha.load(tmp_path)).to_dict()
    lanes = [part["title"]["text"] for part in spec["vconcat"][0]["vconcat"]]
    assert lanes == ["rank 2 CPU", "rank 2 GPU 0", "rank 10 CPU", "rank 10 GPU 0"]


def test_ranks_stand_on_one_clock(tmp_path: Path) -> None:
    """Rank 1 does what rank 0 does, and its clock is 10 ms ahead, which the end of the all-reduce tells."""
    for rank, ahead in ((0, 0), (1, 10_000)):
        made = TraceBuilder(rank=rank).step(0, ahead, ahead + 100).op("aten::mul", ahead, ahead + 90)
        made.launches("ncclKernel_AllReduce_RING_LL_Sum_float", ahead + 10, ahead + 50).write(
            tmp_path / f"rank{rank}.json"
        )
    with ha.load(tmp_path) as trace:
        rows = trace.query("overview", bins=1)
        assert rows.select("rank", "start_ns", "end_ns", "time_ns").unique().sort("rank", "time_ns").rows() == [
            (0, 0, 100_000, 40_000),  # the device
            (0, 0, 100_000, 100_000),  # the step
            (1, 0, 100_000, 40_000),
            (1, 0, 100_000, 100_000),
        ]
        assert trace.query("overview", bins=1, rank=1)["start_ns"].unique().to_list() == [10_000_000]


@needs_browser
def test_all_lanes_have_one_axis_before_a_window_is_chosen(trace: Trace, tmp_path: Path) -> None:
    """The GPU works from 10 to 70 of 100 us, above and below."""
    browser = Browser()
    try:
        browser.open(charts.save(charts.overview(trace), tmp_path / "lanes.html"))
        ends = browser.run(
            "new Promise((done) => { const look = () => { const found = ["
            "...document.querySelectorAll('g.mark-rect:not([class*=brush])')];"
            " if (found.length < 4) return setTimeout(look, 50);"
            " done(found.map((one) => one.getBoundingClientRect()).map((one) => [one.left, one.right])); };"
            " look(); })"
        )
    finally:
        browser.close()
    above, below = ends[:2], ends[2:4]
    assert above == [pytest.approx(lane, abs=2) for lane in below]
    (left, right), gpu = above[0], above[1]
    assert [(at - left) / (right - left) for at in gpu] == [pytest.approx(0.1, abs=0.01), pytest.approx(0.7, abs=0.01)]


@needs_browser
def test_a_brush_chooses_the_window(trace: Trace, tmp_path: Path) -> None:
    page = tmp_path / "overview.html"
    charts.overview(trace).save(page, inline=True)
    browser = Browser()
    try:
        browser.open(page)
        # Vega draws in the background.
        assert browser.run(
            "new Promise((done) => { const look = () => document.querySelector('canvas, svg.marks')"
            " ? setTimeout(() => done(true), 300) : setTimeout(look, 50); look(); })"
        )
        picture = "(document.querySelector('canvas')?.toDataURL() ?? document.querySelector('svg.marks').outerHTML)"
        before = browser.run(picture)
        for kind, x in (("mousePressed", 60), ("mouseMoved", 160), ("mouseMoved", 260), ("mouseReleased", 260)):
            browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=66, button="left", buttons=1, clickCount=1)
        browser.run("new Promise((done) => setTimeout(done, 500))")
        assert browser.run(picture) != before
        assert browser.complaints == []
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    finally:
        browser.close()
