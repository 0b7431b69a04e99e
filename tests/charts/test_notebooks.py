"""Charts in notebooks: what a cell shows needs no network, and no name from a trace is markup in it."""

from __future__ import annotations

import html
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from hotline_analysis import Trace, charts
from tests.browser import Browser, needs_browser
from tests.charts.hostile import hostile
from tests.trace_builder import TraceBuilder

NAMES = sorted(set(charts.CHARTS) - {"timeline", "diff"})


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    made = TraceBuilder(rank=0).step(0, 0, 100).module("Linear", 0, 5, 90).op("aten::mm", 10, 80)
    return made.launches("gemm", 20, 70, at=12, until=14).load(tmp_path_factory.mktemp("notebook"))


def shown(chart: Any) -> str:
    """What a cell of a notebook shows."""
    bundle = chart._repr_mimebundle_()
    assert list(bundle) == ["text/html"]
    return str(bundle["text/html"])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched(trace: Trace, name: str) -> None:
    text = shown(charts.draw(name, trace))
    inside = html.unescape("".join(re.findall('srcdoc="([^"]*)"', text))) or text
    assert "<svg" in inside or "vegaEmbed" in inside
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|cdn\.jsdelivr|import\(["']http""", inside)


def test_pictures_have_no_scripts_and_tell_values(trace: Trace) -> None:
    text = shown(charts.draw("phases", trace))
    assert "<script" not in text
    assert re.search("<title>[^<]*phase: forward; [^<]*time: 85.0 µs", text)


def test_changed_charts_stay_so(trace: Trace) -> None:
    chart = charts.draw("phases", trace).properties(width=300)
    assert "<script" not in shown(chart)
    assert "<script" not in shown(pickle.loads(pickle.dumps(chart)))


def test_a_renderer_that_someone_chose_is_used(trace: Trace) -> None:
    chart = charts.draw("phases", trace)
    with alt.renderers.enable("svg"):
        assert list(chart._repr_mimebundle_()) == ["image/svg+xml"]
    assert "<svg" in shown(chart)


def test_names_are_text(tmp_path: Path) -> None:
    with hostile().load(tmp_path, name="x.json") as made:
        for name in ("slowest_ops", "modules", "kernel_breakdown"):
            assert not re.search(r"<(script|img)", shown(charts.draw(name, made)))


def test_no_name_ends_the_process_that_draws(tmp_path: Path) -> None:
    """What draws pictures ends the whole process at a character that XML does not have; so this is one of its own."""
    odd = "\x00\x01\x1b\ufffe\uffff"
    made = TraceBuilder().step(0, 0, 100).module(f"A{odd}", 0, 5, 90).annotation(odd, 6, 89).op(f"mm{odd}", 10, 80)
    path = made.launches(f"gemm{odd}", 20, 70, at=12, until=14).write(tmp_path / "t.json")
    code = (
        "import sys, hotline_analysis as ha\n"
        "with ha.load(sys.argv[1]) as trace:\n"
        "    for name in ('modules', 'slowest_ops', 'kernel_breakdown', 'timeline'):\n"
        "        ha.charts.draw(name, trace).save(f'{sys.argv[2]}/{name}.svg')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "mm\\x00\\x01\\x1b\\ufffe\\uffff" in (tmp_path / "slowest_ops.svg").read_text(encoding="utf-8")


def test_frames_are_kept_apart_from_the_notebook(trace: Trace) -> None:
    for text in (charts.timeline(trace)._repr_html_(), *(shown(charts.draw(name, trace)) for name in NAMES)):
        for frame in re.findall("<iframe[^>]*>", text):
            allowed = re.findall(r'sandbox="([^"]*)"', frame)[0].split()
            assert "allow-scripts" in allowed
            assert "allow-same-origin" not in allowed


@pytest.mark.long
@needs_browser
def test_a_browser_asks_no_network(trace: Trace, tmp_path: Path) -> None:
    page = tmp_path / "cells.html"
    parts = [shown(charts.draw(name, trace)) for name in NAMES] + [charts.timeline(trace)._repr_html_()]
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(parts), encoding="utf-8")
    browser = Browser()
    try:
        browser.open(page)
        charted = "document.querySelectorAll('#chart svg').length"
        opened = "document.querySelectorAll('.hl-slice').length"
        for _ in range(50):
            if sum(browser.run(charted, frame) + browser.run(opened, frame) for frame in browser.frames) > 1:
                break
            browser.run("new Promise((done) => setTimeout(done, 100))")
        assert sorted(browser.run(charted, frame) for frame in browser.frames) == [0, 1]
        assert sorted(browser.run(opened, frame) > 0 for frame in browser.frames) == [False, True]
        assert browser.run("document.querySelectorAll('svg').length") == len(NAMES) - 1
        assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []
        assert browser.complaints == []
        # What is in a frame and the page around it cannot reach each other.
        reach = "try { parent.document.title; 'reached' } catch (error) { 'refused' }"
        assert [browser.run(reach, frame) for frame in browser.frames] == ["refused", "refused"]
        inside = "Array.from(document.querySelectorAll('iframe'), (frame) => frame.contentDocument)"
        assert browser.run(inside) == [None, None]
    finally:
        browser.close()
