"""The report as a page: what stands in it, what a browser makes of it, and that names from a trace are only text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from hotline_analysis.text.formats import shared_path
from tests.browser import Browser, needs_browser
from tests.charts.hostile import hostile
from tests.runs import opened
from tests.trace_builder import TraceBuilder

pytestmark = pytest.mark.slow  # what its tests share takes 10 seconds or more

BIG = Path(os.environ.get("HOTLINE_TRACES", "-")) / "training/ddp_v100_memory.json.gz"


class Outline(HTMLParser):
    """Tags that are open at the end, headings in order, and every id, reference and address of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "br", "img", "path", "line", "rect"):
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("href", "src", "srcset", "action") and value:
                self.links.append(value)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()


@pytest.fixture(scope="module")
def demo() -> Trace:
    return ha.load(ha.demo_trace())


@pytest.fixture(scope="module")
def text(demo: Trace) -> str:
    return ha.report(demo).to_html(charts.timeline(demo))


def test_the_page_is_whole_and_needs_no_network(text: str) -> None:
    outline = Outline(text)
    assert outline.open == []
    assert [link for link in outline.links if not link.startswith(("#", "data:"))] == []
    assert sorted(outline.ids) == sorted(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(text) < 3_000_000


def test_headings_go_down_one_level_at_a_time(text: str) -> None:
    levels = [int(tag[1]) for tag in Outline(text).headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_it_says_what_the_report_says(text: str, demo: Trace) -> None:
    report = ha.report(demo)
    shown = re.sub(r"\s+", " ", text)
    for finding in report.findings:
        assert finding.question in shown
        assert finding.statement.replace("'", "&#x27;") in shown
    places = [
        text.index(part)
        for part in ('class="head"', 'class="headline"', 'class="cards"', "<canvas", 'id="advice"', 'id="timeline"')
    ]
    assert places == sorted(places)
    for section in report.sections:
        assert f'id="{section.name}"' in text
    assert text.count('<svg role="img" aria-label="') >= 4
    assert report.screen is not None
    assert [shown.count(f"<h2>{card.question}</h2>") for card in report.cards] == [1, 1, 1]
    assert "How each figure is defined" in text


def test_the_answers_are_words_for_people(tmp_path: Path) -> None:
    """The words to branch on stay in the statements, and names of queries stand out."""
    made = (
        TraceBuilder(rank=0)
        .step(0, 0, 100)
        .op("aten::mm", 0, 10)
        .launches("gemm", 5, 99, at=2, until=3)
        .runtime("cudaDeviceSynchronize", 10, 100)
        .load(tmp_path)
    )
    text = ha.report(made).to_html()
    # Of a step without backward, the optimizer is no question.
    assert re.findall('<b class="answer">(.*?)</b>', text) == ["The GPU", "mm"]
    assert "The GPU, for 94.0 % of the step" in text
    assert "<code>slowest_kernels</code>" in text


def loading(tmp_path: Path) -> Trace:
    """A step in which the loop waits for its loader for 60 of 100 us, and for the GPU at the end."""
    made = TraceBuilder(rank=0).step(0, 0, 100)
    made.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60).op("aten::stack", 5, 50)
    made.module("Net", 0, 61, 80).module("Linear", 0, 62, 70).op("aten::mm", 63, 69)
    made.launches("gemm", 68, 78, at=65, until=67)
    made.module("Linear", 1, 71, 79).op("aten::mm", 72, 78).launches("gemm", 80, 95, at=74, until=76)
    return made.runtime("cudaDeviceSynchronize", 80, 96).load(tmp_path)


def test_titles_say_model_device_and_steps(tmp_path: Path, text: str) -> None:
    assert '<span class="model">UNet</span><span class="soft">H100 80GB HBM3 · rank 0</span>' in text
    assert "<title>demo.json.gz: UNet on NVIDIA H100 80GB HBM3, 3 steps</title>" in text
    with loading(tmp_path) as made:
        assert ha.report(made).subject == "Net on GPU, 1 step"
    with TraceBuilder(rank=0).op("aten::mm", 0, 10).load(tmp_path, name="plain.json") as made:
        assert ha.report(made).subject == "CPU, no steps marked"


def test_the_model_is_what_has_most_modules_without_what_torch_puts_around_it(tmp_path: Path) -> None:
    made = TraceBuilder(rank=0).step(0, 0, 100).module("Metric", 0, 1, 9).op("aten::mm", 2, 8)
    made.module("DistributedDataParallel", 0, 10, 90).module("Net", 0, 11, 89)
    made.module("Linear", 0, 12, 40).op("aten::mm", 13, 30).module("ReLU", 0, 41, 80).op("aten::relu", 42, 70)
    with made.load(tmp_path) as opened:
        assert ha.report(opened).subject.startswith("Net on ")


def test_what_to_do_has_the_step_before_and_after_code_and_places(tmp_path: Path) -> None:
    with loading(tmp_path) as made:
        report, drawn = ha.report(made), charts.timeline(made)
        text = report.to_html(drawn)
        part = text[text.index('<section id="advice"') :]
        part = part[: part.index("</section>")]
        assert report.advice
        assert report.screen is not None
        actions = report.actions
        assert part.count("<article") == len(actions)
        for action, change in zip(actions, report.screen.changes, strict=True):
            assert action.do in part
            assert f"<b>{change.change}</b>" in part
        assert actions[0].code.splitlines()[0] in part
        # The loop waits for its loader from 0 to 60 us: one place, and the page has its time.
        assert re.findall("show([ 0-9,]*)</button>", part)[0] == ""
        (data,) = map(json.loads, re.findall("data-hotline-screen>(.*?)</script>", text))
        assert data["views"][0]["spans"][0] == [[0, 60_000, 1, 0]]
        assert "data-show=" in part
        assert (
            text.index("<canvas") < text.index('id="advice"') < text.index('id="device"') < text.index('id="timeline"')
        )


def products() -> TraceBuilder:
    """Two products and an addition on an H100, all slower than they could be."""
    made = TraceBuilder(rank=0, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}])
    made.step(0, 0, 1000)
    for at, size in ((0, 64), (100, 128)):
        dims: dict[str, Any] = {"Input Dims": [[size, size], [size, size]], "Input type": ["c10::BFloat16"] * 2}
        made.op("aten::mm", at, at + 10, **dims).launches("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", at + 20, at + 90)
    made.op("aten::add", 200, 210, **dims).launches("elementwise", 300, 390)
    return made


def linked_nodes(text: str, section: str) -> list[int]:
    part = text[text.index(f'<section id="{section}"') :]
    links = re.findall(r'<a href="#timeline" data-hotline-node="(\d+)"><path ', part[: part.index("</section>")])
    return [int(node) for node in links]


@pytest.mark.long
def test_points_of_the_roofline_lead_to_the_timeline(tmp_path: Path) -> None:
    with products().load(tmp_path) as made:
        report, drawn = ha.report(made), charts.timeline(made)
        text = report.to_html(drawn)
        events = [drawn.to_dict()["nodes"]["event"][node] for node in linked_nodes(text, "roofline")]
        kernels = made.sql("select runtime_id, event_id from gpu_event")
        assert len(events) == 3
        assert dict(kernels.rows()).keys() == set(events)  # the call that launches a kernel is on the timeline
        assert set(ha.roofline(made, by="shape")["largest_id"]) == set(kernels["event_id"])
        assert "vega.github.io" not in text
        assert linked_nodes(report.to_html(), "roofline") == []


def test_a_page_without_advice_says_where_to_begin(tmp_path: Path) -> None:
    with TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 1, 99).load(tmp_path) as made:
        report = ha.report(made)
        assert report.advice == []
        page = " ".join(report.to_html().split())
        begin = page[page.index("Begin with what takes most time:") :]
        assert begin.index('<a href="#places">slowest places</a>') < begin.index('<a href="#ops">slowest ops</a>') < 200


@pytest.mark.parametrize(
    ("paths", "shared"),
    [
        (["model.layers.0.mlp", "model.layers.1.attn"], "model.layers."),
        (["model", "model.layers.0", "model.layers.1"], "model.layers."),
        (["model.a", "model.a.b"], "model."),
        (["model.a", "model.b", "head"], ""),
        (["model.a", "models.b"], ""),
        (["model.layers.0"], ""),
        ([], ""),
    ],
)
def test_what_paths_share(paths: list[str], shared: str) -> None:
    assert shared_path(paths) == shared


def test_what_all_modules_share_stands_in_the_head_of_their_table(tmp_path: Path) -> None:
    with loading(tmp_path) as made:
        text = ha.report(made).to_html()
    table = text[text.index('<section id="modules"') :]
    assert ">module, in Net_0<" in table
    assert re.findall('<th scope="row" class="text">(.*?)</th>', table)[:2] == ["Linear_1", "Linear_0"]


def test_it_can_do_without_a_timeline(demo: Trace) -> None:
    text = ha.report(demo).to_html()
    assert "data-hotline-timeline" not in text
    assert "<script" not in text


def test_notebooks_show_html(demo: Trace) -> None:
    report = ha.report(demo)
    assert report.findings[0].question in report._repr_html_()
    assert Outline(report._repr_html_()).open == []
    assert "srcdoc=" in charts.timeline(demo)._repr_html_()
    assert "demo.json.gz" in demo._repr_html_()


def test_a_notebook_shows_what_to_do_and_units(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).step(0, 0, 100).annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter", 0, 6)
    trace.op("aten::mm", 6, 16).launches("gemm", 9, 99, at=7, until=8).runtime("cudaDeviceSynchronize", 16, 100)
    made = trace.load(tmp_path)
    report = ha.report(made)
    shown = report._repr_html_()
    assert report.advice
    assert all(advice.what in shown and advice.do in shown for advice in report.advice)
    evidence = report.findings[0]._repr_html_()
    assert ">90.0 µs<" in evidence
    assert "path_ns" in evidence
    # A style of a notebook must not change the rest of its page.
    for text in (shown, evidence, made._repr_html_()):
        style = text[text.index("<style>") + 7 : text.index("</style>")]
        rules = [line.split("{")[0] for line in style.splitlines() if "{" in line]
        assert all(part.strip().startswith(".hotline") for rule in rules for part in rule.split(","))


def test_names_are_text_in_a_notebook(tmp_path: Path) -> None:
    made = hostile().load(tmp_path, name="<img src=x>.json")
    report = ha.report(made)
    for shown in (made._repr_html_(), report._repr_html_(), *(finding._repr_html_() for finding in report.findings)):
        assert not re.search(r"<(script|img)", shown)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_drawn_without_complaint_and_can_be_read(
    browser: Browser, text: str, tmp_path: Path, scheme: str
) -> None:
    page = tmp_path / "report.html"
    page.write_text(text, encoding="utf-8")
    browser.complaints.clear()
    browser.emulate(scheme)
    browser.open(page)
    assert browser.complaints == []
    assert browser.run("document.documentElement.scrollWidth") <= 1280
    # The first screen has the sentence, the picture, the answers and what to do.
    assert browser.run("document.querySelector('.cards').getBoundingClientRect().bottom") < 200
    assert browser.run("document.querySelector('canvas').getBoundingClientRect().height") > 300
    assert browser.run("document.querySelector('#advice .show').getBoundingClientRect().bottom") < 900
    contrast = """
      (() => {
        const light = (color) => {
          const parts = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
            .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
          return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
        };
        const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const paper = light(getComputedStyle(document.body).backgroundColor);
        const text = ['h1', 'h1 em', '.head .soft', '.note', 'main a', 'thead th', '.hl-head > span', '.hl-row-name'];
        const slices = [...document.querySelectorAll('.hl-slice')].map((slice) => {
          const style = getComputedStyle(slice);
          return ratio(light(style.color), light(style.backgroundColor));
        });
        return Math.min(...slices, ...text.map((name) =>
          ratio(light(getComputedStyle(document.querySelector(name)).color), paper)));
      })()
    """
    assert browser.run(contrast) >= 4.5


@needs_browser
def test_a_point_of_the_roofline_opens_its_kernel(browser: Browser, tmp_path: Path) -> None:
    with products().load(tmp_path) as made:
        page = tmp_path / "products.html"
        page.write_text(ha.report(made).to_html(charts.timeline(made)), encoding="utf-8")
    browser.open(page)
    browser.run(
        "[...document.querySelectorAll('#roofline a')].find((each) => each.innerHTML.includes('aten::add'))"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
    )
    assert "elementwise" in browser.run("document.querySelector('.hl-current').getAttribute('aria-label')")
    assert browser.run("location.hash") == "#timeline"


@needs_browser
def test_names_of_a_hostile_trace_are_text(browser: Browser, tmp_path: Path) -> None:
    made = hostile().load(tmp_path, name="x.json")
    page = tmp_path / "hostile.html"
    page.write_text(ha.report(made).to_html(charts.timeline(made)), encoding="utf-8")
    browser.complaints.clear()
    browser.open(page)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.run("document.title").startswith("x.json: ")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelectorAll('main script:not([type=\"application/json\"])').length") == 0
    assert browser.complaints == []
    shown = browser.run("document.body.innerText")
    assert "</script>" in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert browser.run("document.documentElement.scrollWidth") <= 1280


@pytest.mark.long
@needs_browser
@pytest.mark.traces
def test_a_large_trace_opens_and_answers_quickly(browser: Browser, tmp_path: Path) -> None:
    """54 MB of JSON, 216,000 events. Bounds are wide, as the machine may be busy; see docs/timeline.md for times."""
    with opened(BIG) as made:
        text = ha.report(made).to_html(charts.timeline(made))
    assert len(text.encode()) < 3_000_000
    page = tmp_path / "large.html"
    page.write_text(text, encoding="utf-8")
    assert browser.open(page) < 20
    click = (
        "(() => { const begun = performance.now();"
        " document.querySelector('.hl-slice:not(.hl-open)').click(); return performance.now() - begun; })()"
    )
    assert browser.run(click) < 2000


def test_a_recording_without_steps_is_not_called_a_step(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::conv2d", 0, 60).op("aten::mm", 60, 100)
    with trace.load(tmp_path) as opened:
        screen = ha.report(opened).screen
        page = ha.report(opened).to_html(ha.charts.timeline(opened))
    assert screen is not None
    assert not screen.has_steps
    assert "<b>The whole recording</b>" in page
    assert "Of the whole recording:" in page
    assert "whole step" not in page
