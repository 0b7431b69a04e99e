"""The timeline: what the page gets, what it does in a browser, and that names from a trace are only text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers import detail
from hotline_analysis.charts import timeline
from hotline_analysis.charts.multi_scale import _paler, level_rows
from hotline_analysis.charts.theme import PHASES
from hotline_analysis.cli import app
from hotline_analysis.text.formats import duration
from tests.browser import Browser, needs_browser
from tests.charts.hostile import EVIL, hostile
from tests.trace_builder import TraceBuilder


def training() -> TraceBuilder:
    """One step: forward of two modules, and backward on a thread of its own; the GPU starts late."""
    trace = TraceBuilder(rank=0).step(3, 0, 610).module("Net", 0, 100, 400).module("Linear", 0, 110, 300)
    trace.op("aten::addmm", 120, 290, seq=1).launches("gemm", 400, 600, at=140, until=150)
    trace.module("ReLU", 0, 310, 390).op("aten::relu", 320, 380, seq=2).launches("relu", 600, 620, at=330, until=340)
    trace.on(2).backward("ReluBackward0", 500, 520, seq=2).launches("relu_grad", 620, 630, at=505, until=510)
    trace.backward("AddmmBackward0", 520, 600, seq=1).launches("gemm_grad", 630, 900, at=530, until=535)
    return trace.on(1)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return training().load(tmp_path_factory.mktemp("timeline"))


@pytest.fixture(scope="module")
def demo() -> Trace:
    return ha.load(ha.demo_trace())


# --- data ------------------------------------------------------------------------------------------------------------


def test_the_page_holds_the_tree(trace: Trace) -> None:
    frame = ha.level_of_detail(trace, rank=0, step=3)
    nodes = detail.tree_nodes(frame)
    data = timeline(trace).to_dict()
    assert [data["names"][at] for at in data["nodes"]["name"]] == nodes["short_name"].to_list()
    ids = nodes["node_id"].to_list()
    assert [None if at < 0 else ids[at] for at in data["nodes"]["parent"]] == nodes["parent_id"].to_list()
    sides = sorted(
        (ids[node], data["tracks"][track]["device"], time)
        for node, track, time in zip(*(data["sides"][key] for key in ("node", "track", "time")), strict=True)
    )
    assert sides == sorted(frame.select("node_id", "device", "time_ns").rows())
    assert min(data["sides"]["start"]) == 0


def test_the_first_view_opens_what_the_step_waits_for(trace: Trace) -> None:
    """The GPU waits for 250 us to begin what forward launched, and works 220 for that, 280 for backward."""
    made = timeline(trace)
    names = dict(made.detail.select("node_id", "short_name").iter_rows())
    assert [names[node] for node in made.chain] == ["step 3", "forward", "Linear_0", "addmm", "gemm"]


def test_the_first_level_has_one_time_axis(trace: Trace) -> None:
    made = timeline(trace)
    rows = level_rows(made.detail, made._nodes, made.chain[0], together=True)
    gpu = rows.filter(device="GPU").select("label", "from_ns", "stop_ns", "time")
    # The first kernel starts at 400 us, where the step starts at 0.
    assert gpu.rows() == [("forward", 400_000, 620_000, "220 µs"), ("backward", 620_000, 900_000, "280 µs")]
    titles = [level["title"]["text"] for level in made.chart().to_dict()["vconcat"]]
    assert titles[0] == "1  step 3"


def test_rows_of_deeper_levels_begin_at_the_left(trace: Trace) -> None:
    """The first kernel starts at 400 us, layer and op at 110 and 120."""
    made = timeline(trace)
    rows = level_rows(made.detail, made._nodes, made.chain[1]).filter(device="GPU")
    assert rows["from_ns"][0] == 0
    titles = [level["title"]["text"] for level in made.chart().to_dict()["vconcat"]]
    assert titles[2:] == [
        "3  Linear_0 (the GPU's row starts 290 µs after the CPU's)",
        "4  addmm (the GPU's row starts 280 µs after the CPU's)",
    ]


def test_labels_have_the_time_where_there_is_room(trace: Trace) -> None:
    spec = timeline(trace).chart().to_dict()
    said = {row["short"] for rows in spec["datasets"].values() for row in rows}
    assert {"forward · 300 µs", "backward · 280 µs"} <= said


def test_the_page_knows_when_the_gpu_is_idle(trace: Trace) -> None:
    """From the step's start to 400 us nothing runs on the GPU; the call that ends this is from 140 to 150 us."""
    page = timeline(trace).to_dict()
    idle = next(page["idle"][track["gpu"]] for track in page["tracks"] if track["device"] == "gpu")
    assert sum(length for _, length, _ in idle) == 400_000
    assert idle[0][0] == 0
    assert [part[2] for part in idle[-2:]] == ["a launch takes effect", "launched work waits, unexplained"]


def test_the_chart_is_valid_vega_lite(trace: Trace) -> None:
    spec = timeline(trace).chart().to_dict()  # validates against the schema
    # The last one opened is a kernel, which has no parts.
    assert len(spec["vconcat"]) == len(timeline(trace).chain) - 1
    opened = {row["label"] for rows in spec["datasets"].values() for row in rows if row["opened"]}
    assert opened == {"forward", "Linear_0", "addmm", "gemm"}


@pytest.mark.parametrize("kind", ["html", "svg", "png", "json"])
@pytest.mark.sampled
def test_it_can_be_saved(trace: Trace, tmp_path: Path, kind: str) -> None:
    path = timeline(trace).save(tmp_path / f"timeline.{kind}")
    begins = {"html": b"<!doctype html>", "svg": b"<svg", "png": b"\x89PNG", "json": b"{"}
    assert path.read_bytes().startswith(begins[kind])


def test_other_endings_and_places_are_refused(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ha.HotlineError, match=r"timeline\.pdf"):
        timeline(trace).save(tmp_path / "timeline.pdf")
    (tmp_path / "file").touch()
    with pytest.raises(ha.HotlineError, match="cannot write"):
        timeline(trace).save(tmp_path / "file" / "timeline.html")


def test_a_step_or_rank_that_is_not_there_is_an_error(trace: Trace) -> None:
    with pytest.raises(ha.QueryParameterError, match="no step 9"):
        timeline(trace, step=9)
    with pytest.raises(ha.QueryParameterError, match="no rank 9"):
        timeline(trace, rank=9)


def test_a_trace_without_times_is_drawn_empty(tmp_path: Path) -> None:
    made = TraceBuilder(rank=0).op("aten::mm", 5, 5).load(tmp_path)
    assert "<!doctype html>" in timeline(made).to_html()
    timeline(made).chart().to_dict()


def test_gpu_work_alone_is_drawn(tmp_path: Path) -> None:
    made = timeline(TraceBuilder(rank=0).kernel("a", 0, 10).kernel("b", 20, 100).load(tmp_path))
    assert {"a", "b"} <= set(made.detail["short_name"])
    page = made.to_dict()
    assert page["tracks"] == [{"device": "gpu", "name": "stream 7", "gpu": 0}]
    assert page["idle"] == {0: [(10_000, 10_000, "cause not in the file")]}


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture
def page(browser: Browser, demo: Trace, tmp_path: Path) -> Iterator[Browser]:
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(timeline(demo).save(tmp_path / "demo.html"))
    yield browser
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def shown(page: Browser, level: int) -> list[int]:
    """The nodes of a level, from left to right, without those that stand in two tracks twice."""
    script = f"[...document.querySelectorAll('.hl-level')[{level}].querySelectorAll('.hl-slice')]"
    return list(dict.fromkeys(page.run(f"{script}.map((slice) => Number(slice.dataset.node))")))


def children(demo: Trace, node: int) -> list[int]:
    """The children of the node at a position of the page, by the table."""
    frame = ha.level_of_detail(demo, rank=0, step=detail.median_step(demo, 0), max_nodes=8000)
    nodes = detail.tree_nodes(frame)
    ids = nodes["node_id"].to_list()
    inside = nodes.filter(parent_id=ids[node]).sort("start_ns", "node_id")
    return [ids.index(each) for each in inside["node_id"]]


def click(page: Browser, level: int, position: int) -> int:
    slices = f"document.querySelectorAll('.hl-level')[{level}].querySelectorAll('.hl-slice')"
    node = int(page.run(f"Number({slices}[{position}].dataset.node)"))
    page.run(f"{slices}[{position}].click()")
    return node


@needs_browser
def test_a_click_opens_the_children_and_closes_deeper_levels(page: Browser, demo: Trace) -> None:
    assert page.run("document.querySelectorAll('.hl-level').length") > 3
    position = page.run(
        "[...document.querySelectorAll('.hl-level')[0].querySelectorAll('.hl-slice')]"
        ".findIndex((slice) => slice.getAttribute('aria-label').startsWith('forward'))"
    )
    node = click(page, 0, position)
    assert page.run("document.querySelectorAll('.hl-level').length") == 2
    assert shown(page, 1) == children(demo, node)
    crumbs = page.run("[...document.querySelectorAll('.hl-crumbs button')].map((button) => button.textContent)")
    assert crumbs[1:] == ["forward"]
    assert page.run("document.querySelector('.hl-current').getAttribute('aria-label')").startswith("forward")
    assert page.run("document.querySelector('.hl-details h3').textContent") == "forward"


def exported(page: Browser) -> str:
    """The command that the page gives to export what is opened."""
    assert page.run("document.querySelector('.hl-details a').href") == "https://ui.perfetto.dev/"
    return str(page.run("document.querySelector('.hl-details pre:last-of-type').textContent"))


@needs_browser
def test_what_is_opened_can_be_exported_for_perfetto(page: Browser, demo: Trace, tmp_path: Path) -> None:
    """The command works as it stands; where what is opened is no event, it exports what is around it."""
    page.run("document.querySelector('.hl-crumbs button').click()")
    step = detail.median_step(demo, 0)
    mark = demo.sql("select event_id from step where step = $step", step=step)["event_id"][0]
    command = exported(page)
    assert command == f"hotline export TRACE --format perfetto --span {mark} -o part.json.gz"
    words = [str(ha.demo_trace()) if word == "TRACE" else word for word in command.split()[1:-1]]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "part.json.gz")])
    assert done.exit_code == 0, done.output
    assert 0 < (tmp_path / "part.json.gz").stat().st_size < ha.demo_trace().stat().st_size
    node = click(page, 0, 0)
    nodes = timeline(demo).to_dict()["nodes"]
    around = nodes["event"][node] if nodes["event"][node] >= 0 else mark
    assert f" --span {around} " in exported(page)


@needs_browser
def test_an_export_of_one_of_several_ranks_names_it(browser: Browser, tmp_path: Path) -> None:
    for rank in (0, 1):
        TraceBuilder(rank=rank).step(0, 0, 100).op("aten::mm", 10, 90).write(tmp_path / f"{rank}.json")
    with ha.load(tmp_path) as several:
        browser.open(timeline(several, rank=1).save(tmp_path / "several.html"))
    assert " --rank 1 --span " in exported(browser)


def test_the_page_knows_the_code_of_modules_and_ops(tmp_path: Path) -> None:
    line = test_the_page_knows_the_code_of_modules_and_ops.__code__.co_firstlineno
    function = "test_the_page_knows_the_code_of_modules_and_ops"
    trace = TraceBuilder(rank=0).step(0, 0, 100).frame(f"{__file__}({line}): {function}", 1, 99)
    trace.module("Linear", 0, 10, 90).op("aten::addmm", 20, 80).op("aten::sum", 92, 98)
    with trace.load(tmp_path) as opened:
        made, silent = timeline(opened), timeline(opened, source_lines=False)
    data = made.to_dict()
    assert data["sources"] == [
        {"place": f"{__file__}:{line} in {function}", "line": f"def {function}(tmp_path: Path) -> None:"}
    ]
    known = {
        data["names"][name] for name, at in zip(data["nodes"]["name"], data["nodes"]["source"], strict=True) if at == 0
    }
    assert known == {"Linear_0", "addmm", "sum"}
    assert silent.to_dict()["sources"] == [{"place": f"{__file__}:{line} in {function}", "line": ""}]


@needs_browser
def test_the_code_is_shown_beside_the_figures(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    made = TraceBuilder(rank=0).step(0, 0, 100).frame(f"train{EVIL}.py(3): {EVIL}", 1, 99).op("aten::mm", 10, 90)
    text = timeline(made.load(tmp_path)).to_html()
    page.write_text(text.replace('"line":""', '"line":"x = \\u003cb\\u003ef(x)"'), encoding="utf-8")
    browser.open(page)
    browser.run("document.querySelector('.hl-slice[aria-label^=mm]').click()")
    assert browser.run("document.querySelector('.hl-details .hl-line').textContent") == "x = <b>f(x)"
    browser.run("document.querySelector('.hl-slice[aria-label^=mm]').dispatchEvent(new Event('mouseenter'))")
    assert browser.run("document.querySelector('.hl-tip .hl-line').textContent") == "x = <b>f(x)"
    assert ".py:3 in </script>" in browser.run("document.querySelector('.hl-details').textContent")
    assert browser.run("document.querySelector('b b') === null && document.title !== 'owned'")


def choose(page: Browser, name: str, value: str) -> None:
    page.run(
        f"(() => {{ const box = document.querySelector('select[aria-label={name}]'); box.value = '{value}';"
        " box.dispatchEvent(new Event('change')); })()"
    )


@needs_browser
def test_filters_leave_one_side_or_the_longer_one(browser: Browser, trace: Trace, tmp_path: Path) -> None:
    """In the step the CPU has 610 us and the GPU 500; in backward the CPU has 100 and the GPU 280."""
    browser.open(timeline(trace).save(tmp_path / "filters.html"))
    sides = (
        "[...document.querySelectorAll('.hl-level')[0].querySelectorAll('.hl-row-name b')]"
        ".map((name) => name.textContent)"
    )
    assert set(browser.run(sides)) == {"CPU", "GPU"}
    shown = {}
    for value in ("cpu", "gpu", "longest", "all"):
        choose(browser, "show", value)
        shown[value] = browser.run(sides)
    assert set(shown["cpu"]) == {"CPU"}
    assert set(shown["gpu"]) == {"GPU"}
    assert shown["longest"] == ["CPU"]
    assert set(shown["all"]) == {"CPU", "GPU"}
    browser.run("document.querySelector('.hl-slice[aria-label^=backward]').click()")
    choose(browser, "show", "longest")
    assert browser.run(sides.replace("[0]", "[1]")) == ["GPU"]


@needs_browser
@pytest.mark.parametrize("color", ["phase", "type", "share"])
def test_every_colour_has_an_ink_that_can_be_read(page: Browser, color: str) -> None:
    choose(page, "colour", color)
    contrast = """
      (() => {
        const light = (color) => {
          const parts = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
          return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
        };
        return Math.min(...[...document.querySelectorAll('.hl-slice')].map((slice) => {
          const style = getComputedStyle(slice);
          const [a, b] = [light(style.color), light(style.backgroundColor)];
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }));
      })()"""
    assert page.run(contrast) >= 4.5


@needs_browser
def test_search_marks_the_slices(page: Browser, demo: Trace) -> None:
    page.press("/")
    assert page.run("document.activeElement.type") == "search"
    page.run(
        "(() => { const box = document.querySelector('input[type=search]'); box.value = 'TimeBlock';"
        " box.dispatchEvent(new Event('input')); })(), new Promise((done) => setTimeout(done, 300))"
    )
    marked = page.run("[...document.querySelectorAll('.hl-found')].map((slice) => slice.getAttribute('aria-label'))")
    drawn = page.run("[...document.querySelectorAll('.hl-slice')].map((slice) => slice.getAttribute('aria-label'))")
    # Of the U-Net's backward: three blocks up, one in the middle and three down, on the CPU and on the GPU.
    assert marked == [name for name in drawn if "TimeBlock" in name.partition(",")[0]]
    assert len(marked) >= 6
    said = page.run("document.querySelector('[role=status]').textContent")
    frame = ha.level_of_detail(demo, rank=0, step=detail.median_step(demo, 0), max_nodes=8000)
    found = detail.tree_nodes(frame).filter(pl.col("short_name").str.contains("TimeBlock")).height
    assert said.startswith(f"{found} found")
    page.run("document.querySelector('.hl-results button').click()")
    assert "TimeBlock" in page.run("document.querySelector('.hl-details h3').textContent")


@needs_browser
def test_the_keyboard_is_enough(page: Browser) -> None:
    page.run("document.querySelector('.hl-level .hl-slice.hl-open').focus()")
    label = "document.activeElement.getAttribute('aria-label').split(',')[0]"
    assert page.run(label) == "backward"
    page.press("ArrowLeft")
    assert page.run(label) == "loss"
    assert page.run("document.querySelector('.hl-current').getAttribute('aria-label')").startswith("loss")
    page.press("ArrowRight")
    assert page.run(label) == "backward"
    page.press("ArrowDown")
    first = page.run(label)
    page.press("Enter")
    assert page.run("document.querySelector('.hl-details h3').textContent") == first
    page.press("Escape")
    assert page.run("document.querySelector('.hl-details h3').textContent") == "backward"


@needs_browser
def test_labels_stay_readable_when_the_window_changes(page: Browser) -> None:
    """No label is wider than its slice, but for those cut with an ellipsis; what has room is named."""
    check = (
        "[...document.querySelectorAll('.hl-slice')].filter((slice) => slice.textContent"
        " && slice.clientWidth < 26).length"
    )
    named = "[...document.querySelectorAll('.hl-slice')].filter((slice) => slice.textContent).length"
    wide = page.run(named)
    page.resize(560)
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.run(check) == 0
    assert 0 < page.run(named) < wide
    assert page.run("document.documentElement.scrollWidth") <= 560
    page.resize(1280)
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.run(named) == wide


@needs_browser
def test_the_page_says_times_as_reports_do(page: Browser) -> None:
    """Also where digits are rounded to the next unit, and where they lie in the middle."""
    borders = [digits * 10**power for digits in (1, 995, 9995, 9949, 12345, 1005) for power in range(13)]
    times = sorted({0, *borders, *(time - 1 for time in borders), *(time + 1 for time in borders)})
    drawn = "JSON.parse(document.querySelector('[data-hotline-timeline]').nextElementSibling.textContent)"
    said = page.run(f"{times}.map(hotlineTimeline(document.createElement('div'), {drawn}).duration)")
    assert dict(zip(times, said, strict=True)) == {time: duration(time) for time in times}


@needs_browser
def test_filters_and_colours(page: Browser, trace: Trace, tmp_path: Path) -> None:
    page.open(timeline(trace).save(tmp_path / "gpu.html"))
    rows = "[...document.querySelectorAll('.hl-level')[0].querySelectorAll('.hl-row-name b')].map((b) => b.textContent)"
    assert page.run(rows) == ["CPU", "GPU"]
    choose = (
        "((name, value) => { const box = document.querySelector(`select[aria-label=${name}]`); box.value = value;"
        " box.dispatchEvent(new Event('change')); })"
    )
    page.run(f"{choose}('show', 'gpu')")
    assert page.run(rows) == ["GPU"]
    page.run(f"{choose}('show', 'all')")
    page.run("document.querySelector('input[type=checkbox]').click()")
    assert page.run(rows) == ["CPU", "CPU", "GPU"]  # the thread of autograd, too
    paper = "document.querySelector('.hl-slice').style.background"
    before = page.run(paper)
    page.run(f"{choose}('colour', 'share')")
    assert page.run(paper) != before


@needs_browser
def test_the_first_level_has_an_axis_and_hatches_idle_time(browser: Browser, trace: Trace, tmp_path: Path) -> None:
    """500 of 900 us of work: the first kernel starts at 400 us, where the CPU is still in forward."""
    browser.open(timeline(trace).save(tmp_path / "axis.html"))
    level = "document.querySelectorAll('.hl-level')[0]"
    assert browser.run(f"[...{level}.querySelectorAll('.hl-tick')].map((tick) => tick.textContent)") == [
        "0",
        "200 µs",
        "400 µs",
        "600 µs",
        "800 µs",
    ]
    places = browser.run(
        f"[...{level}.querySelectorAll('.hl-slice')].map((slice) => [slice.dataset.time, parseFloat(slice.style.left)])"
    )
    assert ["220 µs", pytest.approx(100 * 400 / 900, abs=0.01)] in places
    said = browser.run(f"[...{level}.querySelectorAll('.hl-idle')].map((part) => part.title)")
    assert said[-1] == "idle 200 µs: launched work waits, unexplained"
    assert browser.run("document.querySelectorAll('.hl-axis').length") == 1
    shown = browser.run(f"[...{level}.querySelectorAll('.hl-slice')].map((slice) => slice.textContent)")
    assert "forward · 300 µs" in shown


@needs_browser
def test_gpu_work_with_gaps_says_how_long_it_takes_in_all(browser: Browser, tmp_path: Path) -> None:
    """Two kernels of 100 us, 300 us apart: the slice of forward is 500 us long, and the gap shows at its foot."""
    trace = TraceBuilder(rank=0).step(0, 0, 900).module("Net", 0, 100, 600).op("aten::mm", 110, 190)
    trace.launches("gemm", 200, 300, at=120, until=130).op("aten::add", 400, 590).launches("add", 600, 700, at=500)
    browser.open(timeline(trace.load(tmp_path)).save(tmp_path / "gaps.html"))
    lane = "[...document.querySelectorAll('.hl-level')[0].querySelectorAll('.hl-lane')].pop()"
    assert browser.run(f"{lane}.querySelector('.hl-slice').textContent") == "forward · 200 µs in 500 µs"
    feet = browser.run(f"[...{lane}.querySelectorAll('.hl-foot')].map((part) => parseFloat(part.style.width))")
    assert sum(feet) == pytest.approx(100 * 300 / 900, abs=0.1)


@needs_browser
def test_what_the_names_of_a_level_begin_with_is_said_once(browser: Browser, tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).op("custom::first.part", 1, 30).op("custom::first.other", 31, 60)
    trace.op("custom::first.last", 61, 99)
    browser.open(timeline(trace.load(tmp_path)).save(tmp_path / "shared.html"))
    browser.run("document.querySelector('.hl-crumbs button').click()")
    browser.run("document.querySelector('.hl-slice').click()")
    level = "[...document.querySelectorAll('.hl-level')].pop()"
    shown = browser.run(f"[...{level}.querySelectorAll('.hl-slice')].map((slice) => slice.textContent)")
    assert shown == ["part · 29.0 µs", "other · 29.0 µs", "last · 38.0 µs"]
    assert browser.run(f"{level}.querySelector('.hl-shared').textContent") == "names without “first.”"
    told = browser.run(f"{level}.querySelector('.hl-slice').getAttribute('aria-label')")
    assert told.startswith("first.part, ")


@needs_browser
def test_names_of_a_hostile_trace_are_text(browser: Browser, tmp_path: Path) -> None:
    made = timeline(hostile().load(tmp_path, name="x.json"))
    browser.complaints.clear()
    browser.open(made.save(tmp_path / "hostile.html"))
    for _ in range(3):  # open whatever there is
        browser.run("[...document.querySelectorAll('.hl-slice')].slice(-1)[0].click()")
    assert browser.run("document.title") == "x.json, step 1"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.complaints == []
    texts = browser.run("document.querySelector('.hl-timeline').textContent")
    assert "</script>" in texts
    assert "\x07" not in texts
    assert "\u202e" not in texts
    longest: Any = max(json.loads(json.dumps(made.to_dict()))["names"], key=len)
    assert len(longest) < 400


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("share_pct", [0, 25, 50, 100])
def test_labels_of_the_picture_can_be_read(phase: str, share_pct: float) -> None:
    paper = _paler(PHASES[phase], share_pct)
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(paper[at : at + 2], 16) / 255 for at in (1, 3, 5))
    ]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    # Black text; 4.5 is what WCAG 2.2, 1.4.3 asks for.
    assert (luminance + 0.05) / 0.05 >= 4.5
