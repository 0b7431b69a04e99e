"""Every chart by name: each draws, takes what it says, and can be saved; its page works without a network."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from hotline_analysis.charts import CHARTS, Timeline, draw, save
from hotline_analysis.errors import QueryNotFoundError, QueryParameterError
from tests.browser import Browser, needs_browser
from tests.charts.hostile import EVIL, hostile

NOT_CHARTS = {"CHARTS", "Timeline", "draw", "save"}


@pytest.fixture(scope="module")
def demo() -> Iterator[Trace]:
    with ha.load(ha.demo_trace()) as trace:
        yield trace


def test_each_chart_function_has_a_name_here() -> None:
    assert set(CHARTS) == set(charts.__all__) - NOT_CHARTS
    assert all(callable(getattr(charts, name)) for name in CHARTS)


@pytest.mark.parametrize("name", [name for name, kind in CHARTS.items() if kind.traces])
@pytest.mark.sampled
def test_each_draws_the_demo(demo: Trace, name: str) -> None:
    drawn = draw(name, *[demo] * CHARTS[name].traces)
    assert (drawn.chart() if isinstance(drawn, Timeline) else drawn).to_dict()["title"]["text"]


@pytest.mark.parametrize("name", [name for name, kind in CHARTS.items() if kind.traces == 1 and name != "timeline"])
@pytest.mark.sampled
def test_each_function_takes_a_trace(demo: Trace, name: str) -> None:
    """Charts of an answer's frame also take the trace, and draw the same."""
    assert getattr(charts, name)(demo).to_dict() == draw(name, demo).to_dict()


@pytest.mark.parametrize("name", CHARTS)
def test_each_says_what_it_shows_and_takes(name: str) -> None:
    kind = CHARTS[name]
    assert kind.summary
    assert "rom the answer" not in kind.summary
    if (answer := getattr(ha, name, None)) is not None and name not in ("critical_path", "stragglers"):
        taken = set(inspect.signature(answer).parameters) - {"trace", "a", "b", "parameters"}
        assert set(kind.parameters) - {"side"} == taken


def test_parameters_reach_the_answer_and_the_chart(demo: Trace) -> None:
    step = ha.steps(demo)["step"][1]
    asked = draw("slowest_kernels", demo, limit="3", step=str(step))
    assert asked.to_dict() == charts.slowest_kernels(ha.slowest_kernels(demo, 3, step=step)).to_dict()
    wide = draw("modules", demo, side="cpu")
    assert wide.to_dict() == charts.modules(ha.modules(demo), "cpu").to_dict()


def test_the_path_is_that_of_one_step(demo: Trace) -> None:
    """Of the step of median duration, or the one that is asked for."""
    assert draw("critical_path", demo).to_dict() in [
        charts.critical_path(ha.critical_path(demo, step=step)).to_dict() for step in ha.steps(demo)["step"]
    ]


def test_text_becomes_what_the_chart_takes() -> None:
    given = {"source_lines": "false", "max_nodes": "7", "rank": None}
    assert CHARTS["timeline"].arguments(given) == {"source_lines": False, "max_nodes": 7, "rank": None}
    assert CHARTS["diff"].arguments({"sigmas": "2.5", "by": "op"}) == {"sigmas": 2.5, "by": "op"}


@pytest.mark.parametrize(
    ("name", "parameters", "complaint"),
    [
        ("phases", {"colour": "red"}, "no parameter 'colour'"),
        ("phases", {"step": "first"}, "a whole number"),
        ("timeline", {"source_lines": "perhaps"}, "source_lines must be true or false, not 'perhaps'"),
        ("phases", {"rank": 77}, "no rank 77"),
        ("phases", {"step": 10**6}, "no step 1000000"),
        ("stragglers", {"by": "colour"}, "by must be step or collective, not 'colour'"),
        ("modules", {"side": "gpus"}, "side must be gpu or cpu, not 'gpus'"),
        ("slowest_modules", {"by": "colour"}, "by must be path or type, not 'colour'"),
    ],
)
def test_wrong_parameters_are_refused(demo: Trace, name: str, parameters: Any, complaint: str) -> None:
    with pytest.raises(QueryParameterError, match=complaint):
        draw(name, demo, **parameters)


def test_the_side_of_modules_is_checked_in_python_too(demo: Trace) -> None:
    with pytest.raises(QueryParameterError, match="side must be gpu or cpu, not 'gpus'"):
        charts.modules(ha.modules(demo), "gpus")  # type: ignore[arg-type]


def test_wrong_names_and_numbers_of_traces_are_refused(demo: Trace) -> None:
    with pytest.raises(QueryNotFoundError, match="phase") as raised:
        draw("phase", demo)
    assert "phases" in str(raised.value.hint)
    with pytest.raises(QueryParameterError, match="2 traces"):
        draw("diff", demo)
    with pytest.raises(QueryParameterError, match="one trace"):
        draw("phases", demo, demo)


@pytest.mark.parametrize("kind", ["html", "svg", "png", "json"])
@pytest.mark.sampled
def test_each_format(demo: Trace, tmp_path: Path, kind: str) -> None:
    begins = {"html": b"<!doctype html>", "svg": b"<svg", "png": b"\x89PNG", "json": b"{"}
    for name in ("phases", "overview", "timeline"):
        path = save(draw(name, demo), tmp_path / f"{name}.{kind}")
        assert path.read_bytes().startswith(begins[kind])


def test_other_endings_and_places_are_refused(demo: Trace, tmp_path: Path) -> None:
    chart = draw("phases", demo)
    with pytest.raises(ha.HotlineError, match=r"chart\.pdf"):
        save(chart, tmp_path / "chart.pdf")
    (tmp_path / "file").touch()
    with pytest.raises(ha.HotlineError, match="cannot write"):
        save(chart, tmp_path / "file" / "chart.html")


@pytest.mark.long
@needs_browser
def test_a_page_works_without_a_network_and_shows_names_as_text(demo: Trace, tmp_path: Path) -> None:
    made = hostile().load(tmp_path)
    charts_of = {"slowest": draw("slowest_kernels", made), "overview": draw("overview", demo)}
    browser = Browser()
    try:
        for name, chart in charts_of.items():
            page = save(chart, tmp_path / f"{name}.html")
            browser.requests.clear()
            browser.open(page)
            drawn = "document.querySelector('#chart svg')"
            browser.run(
                f"new Promise((done) => {{ const wait = () => {drawn} ? done() : setTimeout(wait, 20); wait() }})"
            )
            assert browser.complaints == []
            assert browser.requests == [page.resolve().as_uri()]
            assert browser.run("document.querySelectorAll('#chart img, #chart script').length") == 0
            assert browser.run(f"{drawn}.querySelectorAll('path[aria-roledescription]').length") > 0
            if name == "slowest":
                assert browser.run("document.title") != "owned"
                assert EVIL[:9] in browser.run(f"{drawn}.textContent")
    finally:
        browser.close()
