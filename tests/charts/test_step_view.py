"""The step view of a report's page, as a person uses it in a browser."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from hotline_analysis.answers.detail import bound_by, tree_nodes
from hotline_analysis.answers.limits import step_loop
from hotline_analysis.text.formats import duration
from tests.browser import Browser, needs_browser
from tests.charts.hostile import hostile
from tests.charts.two_kinds import loop

VIEW = "window.hotlineStepView"
PART = "const box = document.querySelector('canvas').getBoundingClientRect();"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    with loop().load(tmp_path_factory.mktemp("loop")) as made:
        yield made


@pytest.fixture(scope="module")
def page(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(ha.report(trace).to_html(charts.timeline(trace)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture
def shown(browser: Browser, page: Path) -> Browser:
    browser.emulate("light")
    browser.complaints.clear()
    browser.call("Page.navigate", url="about:blank")
    browser.open(page, width=1400, height=900)
    # On a busy machine, the page may be open before its script has run.
    is_ready = f"(() => {{ try {{ return Boolean({VIEW}); }} catch {{ return false; }} }})()"
    browser.run(f"new Promise((done) => (function wait() {{ {is_ready} ? done() : setTimeout(wait, 10); }})())")
    return browser


def data(page: Path) -> dict[str, Any]:
    (found,) = re.findall("data-hotline-screen>(.*?)</script>", page.read_text(encoding="utf-8"))
    return dict(json.loads(found))


def state(browser: Browser) -> dict[str, Any]:
    told = f"(({{from, until, show, view}}) => ({{from, until, show, view}}))({VIEW}.state)"
    return dict(browser.run(told))


def mouse(browser: Browser, kind: str, x: float, y: float, **more: Any) -> None:
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def drag(browser: Browser, begin: tuple[float, float], end: tuple[float, float], **more: Any) -> None:
    mouse(browser, "mousePressed", *begin, button="left", clickCount=1, **more)
    mouse(browser, "mouseMoved", (begin[0] + end[0]) / 2, end[1], button="left", buttons=1, **more)
    mouse(browser, "mouseMoved", *end, button="left", buttons=1, **more)
    mouse(browser, "mouseReleased", *end, button="left", clickCount=1, **more)


def place(browser: Browser, expression: str) -> tuple[float, float]:
    """A point of the canvas in the window."""
    x, y = browser.run(
        f"(() => {{ {PART} const place = {VIEW}.place(); const [x, y] = {expression};"
        " return [box.left + x, box.top + y]; })()"
    )
    return x, y


@pytest.mark.slow
def test_the_numbers_of_the_first_screen_are_those_of_the_run(trace: Trace, page: Path) -> None:
    report = ha.report(trace)
    screen = report.screen
    assert screen is not None
    # By hand: two steps of 400 us and six of 100 us are 1.4 ms in 8 steps.
    assert "8 steps of 175 µs (6 × 100 µs and 2 × 400 µs)" in report.head
    html = page.read_text(encoding="utf-8")
    assert text_of(html, "head").startswith("Model not recorded")
    assert "8 steps of <b>175 µs</b> (6 × 100 µs and 2 × 400 µs)" in html
    assert [(kind.count, kind.mean_ns) for kind in screen.kinds] == [(6, 100_000), (2, 400_000)]
    assert sum(part.share for part in screen.parts) == 100
    use = trace.query("device_use").filter(scope="run").row(0, named=True)
    busy = sum(part.share for part in screen.parts if not part.words.startswith("idle"))
    assert busy == round(use["gpu_busy_pct"])
    assert report.sentence is not None
    for change, action in zip(screen.changes, report.actions, strict=True):
        assert action.step_ns == 175_000
        assert change.change.startswith("175 → ")
    assert sum(len(view["bars"]) > 0 for view in data(page)["views"]) == 2


REAL = [
    "training/dlrm_a100_rank3.json.gz",
    "verdicts/timesformer_h100.json.gz",
    "inference/bert_small_h100.json.gz",
    "robustness/cpu_only.json.gz",
]


def text_of(html: str, name: str) -> str:
    """The text of the element with a class."""
    (inside,) = re.findall(rf'class="{name}">(.*?)</(?:h1|p|ul)>', html, re.DOTALL)[:1]
    return " ".join(unescape(re.sub("<[^>]+>", "", inside)).split())


@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.parametrize("file", ["demo", *REAL])
@pytest.mark.sampled
def test_no_two_numbers_of_a_first_screen_contradict_each_other(file: str) -> None:
    """Numbers as the page shows them, each found again in the run."""
    path = ha.demo_trace() if file == "demo" else Path(os.environ["HOTLINE_TRACES"]) / file
    with ha.load(path) as made:
        report = ha.report(made)
        html = report.to_html(charts.timeline(made))
        loop = step_loop(made)
        use = made.query("device_use", rank=made.ranks[0]).filter(scope="run")
    assert loop is not None
    step = duration(loop.mean_ns)
    head, sentence = text_of(html, "head"), text_of(html, "headline")
    assert f" {step}" in head
    # The step of the sentence is that of the head, and of the begin of each bar.
    assert all(said == step for said in re.findall(r"instead of ([0-9.,]+ \S+?)\.$", sentence))
    changes = re.findall(r"<b>([0-9.,]+) → ([0-9.,]+) (\S+)</b>", html)
    assert len(changes) == len(report.actions)
    for (now, _, unit), action in zip(changes, report.actions, strict=True):
        assert f"{now} {unit}" == step.replace(".0 ", " ") or float(now) == float(step.split()[0])
        assert action.step_ns == loop.mean_ns
    # The legend has the whole, and what it says of busy and idle time is what the sentence says.
    parts = [int(share) for share in re.findall(r"<b>(\d+) %</b></li>", html)]
    assert sum(parts) == 100
    for said in re.findall(r"idle for (\d+) %", sentence):
        idle = [int(share) for share in re.findall(r"</i>idle: [^<]*<b>(\d+) %</b>", html)]
        assert sum(idle) == int(said) == 100 - round(use["gpu_busy_pct"][0])
    for said in re.findall(r"(?:busy|works) for (\d+) %", sentence):
        busy = [int(share) for share in re.findall(r"</i>GPU[^<]*<b>(\d+) %</b>", html)]
        assert sum(busy) == int(said) == round(use["gpu_busy_pct"][0])


def test_python_decides_who_bounds_a_node(trace: Trace) -> None:
    drawn = charts.timeline(trace)
    told = drawn.to_dict()["nodes"]["bound"]
    decided = tree_nodes(drawn.detail).select(bound=bound_by() == "GPU")["bound"]
    assert [bool(each) for each in told] == decided.to_list()
    script = (Path(charts.__file__).parent / "assets" / "timeline.js").read_text(encoding="utf-8")
    assert "0.8 * observed" not in script


def test_each_kind_of_steps_has_a_tab_and_a_tree(trace: Trace, page: Path) -> None:
    views = data(page)["views"]
    assert [view["said"] for view in views] == ["step 2", "step 4"] or len(views) == 2
    # Most of the time is in the kind with most steps or in the slow one: 2 × 400 of 1,400 us against 6 × 100.
    assert views[0]["span"] >= 380_000
    drawn = charts.timeline(trace)
    assert len(drawn.others) == 1
    assert charts.timeline(trace, step=3).others == ()


def test_no_part_of_the_step_is_lost_in_the_bars(page: Path) -> None:
    for view in data(page)["views"]:
        own = [bar for bar in view["bars"] if bar["device"] is not None]
        assert sum(bar["time"] for bar in own) == view["span"]
        assert pl.DataFrame(own)["share"].list.max().max() <= 1000  # type: ignore[operator]


@needs_browser
def test_it_opens_without_a_complaint_or_a_request_and_fits(shown: Browser) -> None:
    assert shown.complaints == []
    assert all(url.startswith(("file:", "data:", "about:")) for url in shown.requests)
    assert shown.run("document.documentElement.scrollWidth") <= 1400
    assert shown.run("document.querySelector('.action.first').getBoundingClientRect().bottom") < 900
    assert shown.run(f"{VIEW}.hits().filter((each) => each.slice).length") > 4
    assert shown.run("document.querySelectorAll('[role=tab]').length") == 2


@needs_browser
def test_the_wheel_zooms_at_the_pointer_and_a_drag_pans(shown: Browser) -> None:
    x, y = place(shown, "[place.gutter + place.room / 4, place.first + 10]")
    whole = state(shown)
    mouse(shown, "mouseWheel", x, y, deltaX=0, deltaY=-100)
    # The browser may deliver a turn of the wheel only with the next frame.
    shown.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    near = state(shown)
    assert near["until"] - near["from"] < 0.9 * (whole["until"] - whole["from"])
    # What is under the pointer stays there.
    at = near["from"] + (near["until"] - near["from"]) / 4
    assert at == pytest.approx(whole["until"] / 4, rel=0.02)
    drag(shown, (x, y), (x - 100, y))
    moved = state(shown)
    assert moved["from"] > near["from"]
    assert moved["until"] - moved["from"] == pytest.approx(near["until"] - near["from"])
    for key, wider in (("w", False), ("s", True)):
        before = state(shown)
        shown.press(key)
        after = state(shown)
        assert (after["until"] - after["from"] > before["until"] - before["from"]) is wider
    shown.press("0")
    assert state(shown) == whole
    shown.press("w")
    before = state(shown)
    shown.press("d")
    assert state(shown)["from"] > before["from"]
    shown.press("a")
    assert state(shown)["from"] == pytest.approx(before["from"], abs=2)


@needs_browser
def test_a_drag_over_the_picture_opens_that_part_and_shift_sums_it(shown: Browser) -> None:
    bar = "place.bars[0].y + 10"
    drag(shown, place(shown, f"[place.gutter + 10, {bar}]"), place(shown, f"[place.gutter + place.room / 2, {bar}]"))
    opened = state(shown)
    assert 0 < opened["from"] < opened["until"] < 250_000
    shown.press("0")
    row = "place.first + 10"
    begin, end = place(shown, f"[place.gutter, {row}]"), place(shown, f"[place.gutter + place.room / 2, {row}]")
    drag(shown, begin, end, modifiers=8)
    said = shown.run("document.querySelector('[data-status]').textContent")
    # The first half of the slow step is the wait for the batch.
    assert said.startswith("Range of ")
    assert "CPU: load data" in said
    assert "GPU: CPU loads data" in said


@needs_browser
def test_a_click_selects_and_the_address_has_it_and_back_goes_back(shown: Browser, page: Path) -> None:
    find = f"{VIEW}.slices().find((each) => each.label === 'mm' && !each.gpu)"
    shown.run(f"{VIEW}.select({find})")
    assert "mm" in shown.run("document.querySelector('[data-status] b').textContent")
    assert "sel=" in shown.run("location.hash")
    link = shown.run("location.href")
    shown.run(f"{VIEW}.tab(1)")
    assert state(shown)["view"] == 1
    shown.run(
        "new Promise((done) => { addEventListener('popstate', () => setTimeout(done, 50), {once: true});"
        " history.back(); })"
    )
    assert state(shown)["view"] == 0
    assert "mm" in shown.run("document.querySelector('[data-status] b').textContent")
    # A link shows the same.
    shown.call("Page.navigate", url="about:blank")
    shown.call("Page.navigate", url=link)
    shown.run("new Promise((done) => setTimeout(done, 500))")
    assert "mm" in shown.run("document.querySelector('[data-status] b').textContent")


@needs_browser
def test_search_tells_path_and_phase(shown: Browser) -> None:
    shown.press("/")
    for key in "mm":
        shown.press(key)
    results = "document.querySelector('[data-results]')"
    shown.run(
        "new Promise((done) => { const look = () => "
        f"{results}.children.length ? done() : setTimeout(look, 50); look(); }})"
    )
    said = shown.run(f"{results}.innerText")
    assert "found" in said
    assert "forward" in said
    shown.run("document.querySelector('[data-results] button').click()")
    assert "mm" in shown.run("document.querySelector('[data-status] b').textContent")


@needs_browser
def test_show_lights_all_places_and_goes_through_them(shown: Browser, trace: Trace) -> None:
    count = shown.run("document.querySelector('[data-show]').textContent")
    number = ha.report(trace).screen.changes[0].count  # type: ignore[union-attr]
    assert count == (f"show {number:,}" if number > 1 else "show")
    shown.run("document.querySelector('[data-show]').click()")
    assert state(shown)["show"] == 0
    assert "show=1" in shown.run("location.hash")
    assert shown.run("document.querySelector('[data-show]').getAttribute('aria-pressed')") == "true"
    shown.press("n")
    assert "place 1 of" in shown.run("document.querySelector('[data-status]').textContent")
    shown.press("Escape")
    assert state(shown)["show"] is None


@needs_browser
def test_keys_alone_go_from_slice_to_slice_and_kinds_have_numbers(shown: Browser) -> None:
    shown.run("document.querySelector('canvas').focus()")
    shown.press("ArrowRight")
    first = shown.run(f"{VIEW}.state.selected.lane")
    shown.press("ArrowDown")
    assert shown.run(f"{VIEW}.state.selected.lane") != first
    shown.press("Enter")
    assert state(shown)["until"] - state(shown)["from"] < 400_000
    shown.press("2")
    assert state(shown)["view"] == 1
    assert shown.run("document.querySelectorAll('[role=tab]')[1].getAttribute('aria-selected')") == "true"


@needs_browser
def test_thin_slices_are_merged_and_a_click_looks_closer(browser: Browser, tmp_path: Path) -> None:
    with ha.load(ha.demo_trace()) as demo:
        file = tmp_path / "demo.html"
        file.write_text(ha.report(demo).to_html(charts.timeline(demo)), encoding="utf-8")
    browser.open(file, width=1400, height=900)
    merged = f"{VIEW}.hits().find((each) => each.members?.length > 1)"
    assert browser.run(f"{merged}.w") >= 3
    x, y = place(browser, f"(() => {{ const each = {merged}; return [each.x + each.w / 2, each.y + each.h / 2]; }})()")
    before = state(browser)
    drag(browser, (x, y), (x, y))
    after = state(browser)
    assert after["until"] - after["from"] < before["until"] - before["from"]


@needs_browser
@pytest.mark.parametrize(("width", "height"), [(800, 900), (1000, 900), (1366, 650)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_usable_in_a_narrow_window_and_in_the_dark(
    browser: Browser, page: Path, width: int, height: int, scheme: str
) -> None:
    browser.emulate(scheme)
    browser.complaints.clear()
    browser.call("Page.navigate", url="about:blank")
    browser.open(page, width=width, height=height)
    assert browser.complaints == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelector('.action.first h3').getBoundingClientRect().bottom") < height
    assert browser.run(f"{VIEW}.hits().length") > 4


CONTRAST = """
(() => {
  const rgba = (color) => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const light = (color) => {
    const [r, g, b] = rgba(color).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (rgba(color)[3] === 1) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  for (const each of document.querySelectorAll('.menu *, .screen *')) {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !each.getClientRects().length) continue;
    const [a, b] = [light(getComputedStyle(each).color), light(behind(each))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), each.className || each.tagName]);
  }
  return found.sort((a, b) => a[0] - b[0]);
})()
"""
"""The contrast of each visible text of the first screen with what is behind it (WCAG 2.2, 1.4.3), least first."""


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_the_first_screen_can_be_read(browser: Browser, page: Path, scheme: str) -> None:
    browser.emulate(scheme)
    browser.call("Page.navigate", url="about:blank")
    browser.open(page, width=1400, height=900)
    found = browser.run(CONTRAST)
    assert len(found) > 30
    assert found[0][0] >= 4.5, found[:5]
    # A table that scrolls is a landmark of its own name, and each control has one.
    names = browser.run("[...document.querySelectorAll('[role=region]')].map((each) => each.ariaLabel)")
    assert len(names) == len(set(names)) > 1
    unnamed = "(each) => !(each.ariaLabel || each.textContent.trim() || each.labels?.length)"
    assert (
        browser.run(f"[...document.querySelectorAll('button, input, select, summary')].filter({unnamed}).length") == 0
    )


@needs_browser
def test_names_of_a_hostile_trace_stay_text_in_it(browser: Browser, tmp_path: Path) -> None:
    with hostile().load(tmp_path, name="x.json") as made:
        file = tmp_path / "hostile.html"
        file.write_text(ha.report(made).to_html(charts.timeline(made)), encoding="utf-8")
    browser.complaints.clear()
    browser.open(file, width=1400)
    browser.run(f"{VIEW}.slices().forEach((each) => {VIEW}.select(each))")
    browser.run(
        "(() => { const box = document.querySelector('input[type=search]'); box.value = 'script';"
        " box.dispatchEvent(new Event('input')); return new Promise((done) => setTimeout(done, 300)); })()"
    )
    assert browser.complaints == []
    assert browser.run("document.title").startswith("x.json")
    assert browser.run("document.querySelectorAll('img').length") == 0
