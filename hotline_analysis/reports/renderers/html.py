"""A report as one self-contained HTML page: no network access, and no markup from a trace's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from markupsafe import Markup, escape

from hotline_analysis import catalog, charts
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.limits import LEAST_PCT
from hotline_analysis.charts.forms import link_to_node, to_picture
from hotline_analysis.charts.multi_scale import START, Timeline
from hotline_analysis.charts.page import asset, clean, page, to_script
from hotline_analysis.charts.theme import PHASES
from hotline_analysis.reports.content import Card, Field, Section, cell
from hotline_analysis.reports.renderers.drawing import draw
from hotline_analysis.reports.renderers.strips import share_line
from hotline_analysis.reports.screen import ON_DEVICE, ON_THREAD, Change, Part, Screen
from hotline_analysis.reports.whole import Content
from hotline_analysis.text.formats import TIME_UNITS, duration, percent, shared_path, shorten
from hotline_analysis.text.html import Cell, Table, frame_table
from hotline_analysis.text.html import render as fill
from hotline_analysis.vocabulary import USE_CAUSES, idle_title, idle_words

_EVIDENCE_ROWS = 50
_MEAN = re.compile(r"(?<= of )[\d.,]+ \w+")
_NUMBER = re.compile(r"\d[\d.,]*")
_STRIP = 600  # maximum number of steps distinguishable on a screen
_BEHIND = 1.25  # the picture shows that much more than a step if the GPU is visibly behind the CPU
_WORKS = ("computation", "communication", "memory")
_STEP_SCRIPTS = ("step_data.js", "step_draw.js", "step_input.js")
_START_STEP = (
    "for (const box of document.querySelectorAll('[data-hotline-step]')) {\n"
    "  const read = (each) => JSON.parse(each.textContent);\n"
    "  const screen = read(document.querySelector('[data-hotline-screen]'));\n"
    "  const all = (name) => [...document.querySelectorAll(name)].map(read);\n"
    "  const trees = [...all('[data-hotline-data]'), ...all('[data-hotline-tree]')];\n"
    "  window.hotlineStepView = hotlineStep(box, screen, screen.views.map((view) => trees[view.tree]));\n}\n"
    "const menu = document.querySelector('[data-menu]');\n"
    "if (menu && innerWidth <= 1100) menu.open = false;\n"
)
_SECOND = "device"  # the section before the timeline, on idle GPU time


@dataclass(frozen=True)
class _Part:
    """A section for the template."""

    id: str
    title: str
    note: str
    table: Table
    chart: Markup | None
    query: catalog.Query | None
    """The query whose header describes the figures."""


@dataclass(frozen=True)
class _Marked:
    """A text with a highlighted part."""

    before: str
    cause: str = ""
    after: str = ""


def render(report: Content, timeline: Timeline | None = None) -> str:
    """Render a page. The template determines the order of the parts."""
    parts = [_part(section, timeline) for section in report.sections]
    bound = report.findings[0].answer if report.findings else ""
    screen = report.screen
    views = [] if timeline is None or screen is None else _views(timeline, screen)
    contents = list(_contents(report, timeline))
    body = fill(
        "report.html",
        report=report,
        contents=contents,
        links={f"#{name}" for name, _ in contents} | ({"#caveats"} if report.caveats else set()),
        screen=None if screen is None else _screen(screen, report.head),
        headline=_headline(report),
        cards=[_card(each) for each in report.cards],
        views=[{"tab": view["tab"]} for view in views],
        other_trees=[
            to_script(other.to_dict()) for other in (timeline.others if timeline is not None and views else ())
        ],
        screen_data=to_script(_screen_data(screen, views)) if screen is not None and views else "",
        actions=[_action(each) for each in screen.changes] if screen is not None else [],
        more=_more(report),
        nothing_recorded=bound == "no-run",
        least=f"{LEAST_PCT:g} %",
        general=report.findings[0].advice if report.findings else "",
        begin=[part for part in parts if part.id in ("places", "modules", "ops")],
        first=[part for part in parts if part.id == _SECOND],
        rest=[part for part in parts if part.id != _SECOND],
        timeline=timeline,
        evidence=[_evidence(finding) for finding in report.findings],
        definitions=list(_definitions(report)),
    )
    scripts: tuple[str, ...] = ()
    if timeline is not None:
        scripts = (asset("timeline.js"), *(asset(name) for name in _STEP_SCRIPTS), START + _START_STEP)
    title = f"{report.title}: {report.subject}" if report.subject else report.title
    styles = ("page.css", "timeline.css", "screen.css")
    return page(title, body, styles=[asset(name) for name in styles], scripts=scripts)


def _headline(report: Content) -> _Marked:
    """The sentence with the cause highlighted, or with the best change if the step has no single cause."""
    text, cause = report.lead, report.sentence.cause if report.sentence is not None else ""
    if report.actions and report.screen is not None and not report.screen.hot:
        title = report.actions[0].title
        best = f"{title[:1].lower()}{title[1:]}"
        cause = best if best in text else cause
    at = text.find(cause) if cause else -1
    return _Marked(text) if at < 0 else _Marked(text[:at], cause, text[at + len(cause) :])


def _card(card: Card) -> Card:
    """The card with the answer's reason as the note: `The CPU`, and `it loads data`."""
    answer, _, reason = card.answer.partition(": ")
    return card if card.note or not reason else replace(card, answer=answer, note=reason)


def _screen(screen: Screen, head: Sequence[str]) -> dict[str, Any]:
    """The head and the legend for the template."""
    model, device, ranks, *figures = head
    return {
        "model": model,
        "device": device,
        "ranks": ranks,
        "figures": [_figure(each) for each in figures],
        "chips": screen.chips,
        "whole": screen.whole,
        "has_steps": screen.has_steps,
        "parts": [
            {
                "words": each.words,
                "share": each.share,
                "is_hot": each.is_hot,
                "swatch": _swatch(each),
                "color": PHASES.get(each.state, "var(--line)") if each.is_phase and not each.is_hot else "",
            }
            for each in screen.parts
        ],
    }


def _figure(text: str) -> _Marked:
    """A part of the first line with its main number marked: the mean of `5 steps of 151 ms (108 ms to 195 ms)`."""
    found = _MEAN.search(text) or _NUMBER.search(text)
    return _Marked(text) if found is None else _Marked(text[: found.start()], found[0], text[found.end() :])


def _swatch(part: Part) -> str:
    """The CSS classes of the square next to a part: work is solid, idle time hatched."""
    if part.is_hot and (part.state == "place" or (part.is_phase and part.state != "load_data")):
        return "place hot"
    works = part.state if part.state in _WORKS else "memory" if part.words.startswith("GPU") else "idle"
    return f"{works} hot" if part.is_hot else works


def _action(each: Change) -> dict[str, Any]:
    """A change for the template. Positions on the bar are percent of the present step."""
    action = each.action
    part = 100 / max(1, action.step_ns)
    low, high = action.low_ns, action.high_ns
    return {
        "title": action.title,
        "range": each.range if action.gains else "",
        "gains": action.gains,
        "change": each.change,
        "then_pct": f"{min(100, part * action.after_ns):.1f}",
        "low_pct": None if low is None else f"{min(100, part * low):.1f}",
        "wide_pct": None if low is None or high is None else f"{max(0, min(100, part * high) - part * low):.1f}",
        "where": each.where,
        "count": f"{each.count:,} place{'s' if each.count != 1 else ''}",
        "parts": each.parts,
        "hint": each.hint if not each.where else "",
        "code": escape(action.code),  # from this package, not from the trace; several lines
        "do": action.do,
        "text": f"{action.what}. {action.do}",
        "shows": bool(any(each.spans.values())),
        "shown": f"{each.count:,}" if each.count > 1 else "",
    }


def _more(report: Content) -> list[str]:
    """Advice without a card, in sentences."""
    carded = {(each.rule, each.what) for each in report.actions} if report.screen is not None else set()
    return [
        f"At most {percent(each.gain_pct)} shorter. {each.what}. {each.do} {each.predicted}".rstrip()
        for each in report.advice
        if (each.rule, each.what) not in carded
    ]


def _views(timeline: Timeline, screen: Screen) -> list[dict[str, Any]]:
    """The selectable steps: one per kind, the kind with the largest share of time first."""
    kinds = {kind.step: kind for kind in screen.kinds}
    lengths = {step: length_ns for step, length_ns, _ in screen.lengths}
    views = []
    for at, each in enumerate((timeline, *timeline.others)):
        kind = kinds.get(each.step) if each.step is not None else None
        said = f"step {each.step}" if each.step is not None and screen.has_steps else "the whole recording"
        spans, cause = (
            [
                [
                    [max(0, start - each.begin_ns), end - each.begin_ns, count, on_gpu]
                    for start, end, count, on_gpu in by_step.get(each.step if each.step is not None else -1, ())
                ]
                for by_step in shown
            ]
            for shown in ([action.spans for action in screen.changes], [screen.causes])
        )
        named = kind is not None and len(screen.kinds) > 1
        tab = f"{said[:1].upper()}{said[1:]}"
        if kind is not None and named:
            tab = f"{kind.count:,} × {duration(kind.mean_ns)} · {kind.name} · {kind.loop_pct:.0f} % of the time"
        elif len(screen.lengths) > 1:
            tab += f", typical of {len(screen.lengths):,} counted steps"
        picture = each.picture()
        about = [f"typical of “{kind.name}”"] if kind is not None and named else []
        if each.step in lengths and picture["span"] > _BEHIND * lengths[each.step]:
            about.append(f"drawn over {duration(picture['span'])}: the GPU does the step's work after the CPU")
        views.append(
            {
                **picture,
                "tree": at,
                "step": each.step,
                "kind": kind.number if kind is not None else None,
                "tab": tab,
                "said": said,
                "about": " · ".join(about),
                "share": kind.loop_pct if kind is not None else 100.0,
                "spans": spans,
                "cause": cause[0],
            }
        )
    views.sort(key=lambda view: -view["share"])
    return views


def _screen_data(screen: Screen, views: list[dict[str, Any]]) -> dict[str, Any]:
    """The data of the step view, in addition to the event trees."""
    words = {cause: idle_words(cause) for cause in USE_CAUSES}
    return {
        "views": [{name: value for name, value in view.items() if name not in ("tab", "share")} for view in views],
        "start": 0,
        "hot": screen.hot,
        "cause": next((clean(part.words) for part in screen.parts if part.state == "place"), "")
        if screen.causes
        else "",
        "actions": [
            {
                "title": each.action.title,
                "where": clean(each.where),
                "noun": "place" if each.count > 1 else "piece",  # one place may be in several pieces
            }
            for each in screen.changes
        ],
        "strip": screen.lengths if len(screen.lengths) <= _STRIP else [],
        "words": {**words, **ON_DEVICE},
        "titles": {cause: idle_title(cause) for cause in USE_CAUSES},
        "waits": ON_THREAD,
        "units": TIME_UNITS,
    }


def fragment(report: Content) -> str:
    """The report as a part of a notebook: answers, a picture of the step, advice and tables, without scripts."""
    lists = (
        ("What to do", report.advice),
        ("Before you believe it", report.caveats),
        ("To know more", report.recapture),
        ("Warnings", report.warnings),
    )
    tables = [(section.title, _table(section)) for section in report.sections]
    shares = share_line(report.screen.parts) if report.screen is not None else ""
    drawn = report.screen.picture if report.screen is not None else None
    return str(
        fill(
            "notebook_report.html",
            report=report,
            lists=lists,
            tables=tables,
            title=drawn.title if drawn is not None else "",
            picture=draw(drawn, shares) if drawn is not None else None,
            shares=shares,
        )
    )


def _contents(report: Content, timeline: Timeline | None) -> Iterator[tuple[str, str]]:
    """The id and the title of each part of the page."""
    yield "overview", "Overview"
    if report.warnings:
        yield "warnings", "Warnings"
    if report.of_the_job:
        yield "job", "About the job"
    if _more(report):
        yield "more", "More advice"
    if report.caveats:
        yield "caveats", "Before you believe it"
    yield from ((section.name, section.title) for section in report.sections if section.name == _SECOND)
    if timeline is not None:
        yield "timeline", "Timeline"
    yield from ((_id(section.name), section.title) for section in report.sections if section.name != _SECOND)
    if report.recapture:
        yield "recapture", "To know more"
    if report.findings:
        yield "evidence", "Evidence"
    yield "facts", "Run"
    yield "definitions", "Definitions"


def _part(section: Section, timeline: Timeline | None) -> _Part:
    query = {query.name: query for query in catalog.queries("answers")}.get(section.query or section.name)
    return _Part(_id(section.name), section.title, section.note, _table(section), _chart(section, timeline), query)


def _chart(section: Section, timeline: Timeline | None) -> Markup | None:
    if not section.chart or section.rows.height < 2:
        return None
    chart = getattr(charts, section.chart)
    rows = section.rows
    if timeline is not None and "largest_id" in rows.columns:
        # A click leads to the row's largest event.
        nodes = [None if event is None else timeline.position_of(event) for event in rows["largest_id"]]
        rows = rows.with_columns(link=pl.Series([link_to_node(node) for node in nodes], dtype=pl.String))
    # The table below has the same texts as the chart, so the title is a sufficient text alternative.
    return to_picture(chart(rows))


def _table(section: Section) -> Table:
    shared = shared_path(section.rows["module"].to_list()) if section.name == "modules" else ""
    heads = [
        Cell(
            f"module, in {shorten(shared[:-1], 48)}" if shared and field.column == "module" else field.title,
            is_text=field.is_text,
        )
        for field in section.fields
    ]
    rows = [
        [_cell(field, row[field.column], shared, names_row=not at) for at, field in enumerate(section.fields)]
        for row in section.rows.iter_rows(named=True)
    ]
    return Table(heads, rows)


def _cell(field: Field, value: Any, shared: str, *, names_row: bool) -> Cell:
    filled = field.kind == "share" and value is not None and not names_row
    return Cell(
        cell(field, value).removeprefix(shared),
        is_text=field.is_text,
        names_row=names_row,
        share=min(100.0, max(0.0, float(value))) if filled else None,
    )


def _evidence(finding: Finding) -> dict[str, Any]:
    frame = finding.evidence
    return {
        "finding": finding,
        "limits": ", ".join(f"{name} = {value:g}" for name, value in finding.thresholds.items()),
        "chart": to_picture(charts.step_limits(frame)) if "without_ns" in frame.columns and frame.height > 1 else None,
        "figures": frame_table(frame, _EVIDENCE_ROWS),
    }


def _definitions(report: Content) -> Iterator[tuple[str, catalog.Query]]:
    """The query of each section. The query's header describes the table."""
    known = {query.name: query for query in catalog.queries("answers")}
    for section in report.sections:
        query = known.get(section.query or section.name)
        if query is not None:
            yield section.title, query


def _id(name: str) -> str:
    return re.sub(r"\W+", "-", name)
