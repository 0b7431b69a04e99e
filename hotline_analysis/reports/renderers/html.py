"""A report as one HTML page that opens anywhere: no network, nothing in it that a trace's names could change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from markupsafe import Markup

from hotline_analysis import catalog, charts
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.rules import LEAST_PCT, Advice
from hotline_analysis.answers.verdicts import HEADLINES
from hotline_analysis.charts.multi_scale import START, Timeline
from hotline_analysis.charts.page import asset, page
from hotline_analysis.charts.theme import link_to_node, to_picture
from hotline_analysis.reports.content import Content, Field, Section, cell
from hotline_analysis.text.formats import percent, shared_path, shorten
from hotline_analysis.text.html import Cell, Table, frame_table
from hotline_analysis.text.html import render as fill

_EVIDENCE_ROWS = 50
_SECOND = "device"  # the section that comes before the timeline: why the GPU is idle


@dataclass(frozen=True)
class _Part:
    """A section as the template takes it."""

    id: str
    title: str
    note: str
    table: Table
    chart: Markup | None


@dataclass(frozen=True)
class _Place:
    """A part of the place of an advice; `node` is its position on the timeline, if it is a link there."""

    text: str
    node: int | None = None


def render(report: Content, timeline: Timeline | None = None) -> str:
    """Render a page. The order of its parts is that of the template."""
    parts = [_part(section, timeline) for section in report.sections]
    bound = report.findings[0].answer if report.findings else ""
    body = fill(
        "report.html",
        report=report,
        contents=list(_contents(report, timeline)),
        cards=[replace(finding, answer=_short(finding.answer)) for finding in report.findings],
        advice=_advice(report, timeline),
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
    scripts = (asset("timeline.js"), START) if timeline is not None else ()
    title = f"{report.title}: {report.subject}" if report.subject else report.title
    return page(title, body, styles=(asset("page.css"), asset("timeline.css")), scripts=scripts)


def fragment(report: Content) -> str:
    """The report as part of a notebook: the answers, what to do and the tables, without scripts."""
    lists = (
        ("What to do", report.advice),
        ("Before you believe it", report.caveats),
        ("To know more", report.recapture),
        ("Warnings", report.warnings),
    )
    tables = [(section.title, _table(section)) for section in report.sections]
    return str(fill("notebook_report.html", report=report, lists=lists, tables=tables))


def _contents(report: Content, timeline: Timeline | None) -> Iterator[tuple[str, str]]:
    """The id and the title of each part of the page."""
    if not report.scope:
        yield "advice", "What to do first"
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


def _short(answer: str) -> str:
    return shorten(HEADLINES.get(answer, answer), 80)


def _advice(report: Content, timeline: Timeline | None) -> list[dict[str, Any]]:
    """What to do, with its gain and the places where."""
    paths = [path for each in report.advice for path in _paths(each.where)]
    shared = shared_path([*paths, *_modules(report)])
    return [
        {
            "gain": percent(each.gain_pct),
            "what": each.what,
            "do": f"{each.do} {each.predicted}".rstrip(),
            "where": each.where,
            "shown": list(_places(each, shared, timeline)),
        }
        for each in report.advice
    ]


def _places(each: Advice, shared: str, timeline: Timeline | None) -> Iterator[_Place]:
    """The way to the timeline, where it is, without what the paths of all modules begin with, and the event."""
    parts = each.where.split(", ")
    event = parts.pop() if parts[-1].startswith("event ") else ""
    said = [shorten(part.removeprefix(shared), 90) for part in parts]
    node = timeline.position_of(each.event_id) if timeline is not None else None
    if node is not None:
        yield _Place("show on the timeline", node)
    if any(said):
        yield _Place(", ".join(said))
    if event:
        yield _Place(event)


def _paths(where: str) -> list[str]:
    """The path of the module in the place of an advice; places in the code have a colon before the line."""
    path = where.partition(", ")[0]
    return [path] if path and ":" not in path and not path.startswith("event ") else []


def _modules(report: Content) -> list[str]:
    return [path for section in report.sections if section.name == "modules" for path in section.rows["module"]]


def _part(section: Section, timeline: Timeline | None) -> _Part:
    return _Part(_id(section.name), section.title, section.note, _table(section), _chart(section, timeline))


def _chart(section: Section, timeline: Timeline | None) -> Markup | None:
    if not section.chart or section.rows.height < 2:
        return None
    draw = getattr(charts, section.chart)
    rows = section.rows
    if timeline is not None and "largest_id" in rows.columns:
        # A click leads to the event that a row names.
        nodes = [None if event is None else timeline.position_of(event) for event in rows["largest_id"]]
        rows = rows.with_columns(link=pl.Series([link_to_node(node) for node in nodes], dtype=pl.String))
    # The texts of the chart are those of the table below it, so the picture needs no more than its title in words.
    return to_picture(draw(rows))


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
    """The query behind each section, whose header says what the table shows."""
    known = {query.name: query for query in catalog.queries("answers")}
    for section in report.sections:
        query = known.get(section.query or section.name)
        if query is not None:
            yield section.title, query


def _id(name: str) -> str:
    return re.sub(r"\W+", "-", name)
