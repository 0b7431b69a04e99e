"""A report as one HTML page that opens anywhere: no network, nothing in it that a trace's names could change."""

from __future__ import annotations

import html
import re
from typing import Any

import polars as pl

from hotline_analysis import catalog, charts
from hotline_analysis.answers.rules import LEAST_PCT, Advice
from hotline_analysis.answers.verdicts import HEADLINES
from hotline_analysis.charts.multi_scale import START, Timeline
from hotline_analysis.charts.page import asset, page
from hotline_analysis.charts.theme import link_to_node, to_picture
from hotline_analysis.reports.content import Content, Field, Section, cell
from hotline_analysis.text.formats import percent, shared_path, shorten
from hotline_analysis.text.html import as_text as _text
from hotline_analysis.text.html import frame_table, framed

_EVIDENCE_ROWS = 50
_SECOND = "device"  # the section that comes before the timeline: why the GPU is idle


def render(report: Content, timeline: Timeline | None = None) -> str:
    """Render a page: the bottleneck first, then the three answers, what to do, why the GPU is idle, and the rest."""
    first = [section for section in report.sections if section.name == _SECOND]
    rest = [section for section in report.sections if section.name != _SECOND]
    parts = [
        f"<header><h1>{_text(report.subject or report.title)}</h1>\n"
        + (f"<p class='note'>{_text(report.title)}</p>\n" if report.subject else "")
        + f"<p class='headline'>{_text(report.headline)}</p></header>\n",
        _findings(report),
        _list("Warnings", report.warnings, "warnings"),
        _advice(report, timeline),
        _list("Before you believe it", report.caveats, "caveats"),
        *(_section(section, timeline) for section in first),
        _timeline(timeline) if timeline is not None else "",
        *(_section(section, timeline) for section in rest),
        _list("To know more", report.recapture, "recapture"),
        _evidence(report),
        _facts(report),
        _definitions(report),
    ]
    body = f"<main>\n{_contents(report, timeline)}{''.join(parts)}</main>\n"
    scripts = (asset("timeline.js"), START) if timeline is not None else ()
    title = f"{report.title}: {report.subject}" if report.subject else report.title
    return page(title, body, styles=(asset("page.css"), asset("timeline.css")), scripts=scripts)


def fragment(report: Content) -> str:
    """The report as part of a notebook: the answers, what to do and the tables, without scripts."""
    answers = "".join(
        f"<li><strong>{_text(finding.question)}</strong> {_text(finding.statement)}</li>" for finding in report.findings
    )
    lists = "".join(
        f"<h4>{title}</h4><ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"
        for title, lines in (
            ("What to do", [str(advice) for advice in report.advice]),
            ("Before you believe it", report.caveats),
            ("To know more", report.recapture),
            ("Warnings", report.warnings),
        )
        if lines
    )
    tables = "".join(f"<h4>{_text(section.title)}</h4>{_table(section)}" for section in report.sections)
    of_file = f"<p>{_text(report.title)}</p>" if report.subject else ""
    return framed(
        f"<h3>{_text(report.subject or report.title)}</h3>{of_file}"
        f"<p><strong>{_text(report.headline)}</strong></p><ul>{answers}</ul>"
        f"{lists}{tables}<p>{_text(report.coverage)}</p>"
    )


# --- parts of the page -----------------------------------------------------------------------------------------------


def _contents(report: Content, timeline: Timeline | None) -> str:
    links = [] if report.scope else [("advice", "What to do first")]
    links += [(section.name, section.title) for section in report.sections if section.name == _SECOND]
    links += [("timeline", "Timeline")] if timeline is not None else []
    links += [(section.name, section.title) for section in report.sections if section.name != _SECOND]
    links += [("recapture", "To know more")] if report.recapture else []
    links += [("evidence", "Evidence")] if report.findings else []
    links += [("facts", "Run"), ("definitions", "Definitions")]
    items = "".join(f'<li><a href="#{_id(name)}">{_text(title)}</a></li>' for name, title in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>\n'


def _findings(report: Content) -> str:
    cards = "".join(
        f'<article class="card"><h2>{_text(finding.question)}</h2>'
        f'<p><b class="answer">{_text(shorten(HEADLINES.get(finding.answer, finding.answer), 80))}</b></p>'
        f"<p>{_text(finding.statement)}</p></article>\n"
        for finding in report.findings
    )
    return f'<section class="cards" aria-label="Answers">\n{cards}</section>\n'


def _advice(report: Content, timeline: Timeline | None) -> str:
    """What to do, by number, with its gain and a link to where it is on the timeline."""
    if report.scope:
        return ""  # it is about the whole run
    if not report.advice:
        return f'<section id="advice"><h2>What to do first</h2>\n<p>{_no_advice(report)}</p></section>\n'
    paths = [path for each in report.advice for path in _paths(each.where)]
    shared = shared_path([*paths, *_modules(report)])
    items = "".join(
        f"<li><p><b>{_text(percent(each.gain_pct))} shorter at most</b> · {_text(each.what)}.</p>\n"
        f'<p class="do">{_text(f"{each.do} {each.predicted}".rstrip())}</p>\n{_place(each, shared, timeline)}</li>\n'
        for each in report.advice
    )
    return (
        f'<section id="advice"><h2>What to do first</h2>\n<ol class="advice">\n{items}</ol>\n'
        '<p class="note">How much shorter a step gets at most is found by replaying the recorded step without what the'
        " line names. Shares do not add up where lines are about the same time.</p></section>\n"
    )


def _no_advice(report: Content) -> str:
    """Where to begin if no rule found anything."""
    bound = report.findings[0]
    if bound.answer == "no-run":
        return "Record steps of the run itself: nothing that this trace shows could make them shorter."
    links = " or ".join(
        f'<a href="#{section.name}">{_text(section.title.lower())}</a>'
        for section in report.sections
        if section.name in ("sources", "modules", "ops")
    )
    begin = f" Begin with what takes most time: {links}." if links else ""
    general = f" {_text(bound.advice)}" if bound.advice else ""
    return f"No single change is known here that makes a step {LEAST_PCT:g} % shorter.{general}{begin}"


def _place(each: Advice, shared: str, timeline: Timeline | None) -> str:
    """Where it is, without what the paths of all modules begin with, and the way there."""
    parts = each.where.split(", ")
    event = parts.pop() if parts[-1].startswith("event ") else ""
    said = [shorten(part.removeprefix(shared), 90) for part in parts]
    node = timeline.position_of(each.event_id) if timeline is not None else None
    link = "" if node is None else f'<a href="#timeline" data-hotline-node="{node}">show on the timeline</a>'
    shown = [link] if link else []
    shown += [_text(", ".join(said))] if any(said) else []
    shown += [_text(event)] if event else []
    return f'<p class="note" title="{_text(each.where)}">{" · ".join(shown)}</p>' if shown else ""


def _paths(where: str) -> list[str]:
    """The path of the module in the place of an advice; places in the code have a colon before the line."""
    path = where.partition(", ")[0]
    return [path] if path and ":" not in path and not path.startswith("event ") else []


def _modules(report: Content) -> list[str]:
    return [path for section in report.sections if section.name == "modules" for path in section.rows["module"]]


def _list(title: str, lines: Any, name: str) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{_text(line)}</li>\n" for line in lines)
    return f'<section id="{name}"><h2>{title}</h2>\n<ul>\n{items}</ul></section>\n'


def _timeline(timeline: Timeline) -> str:
    return (
        f'<section id="timeline"><h2>Timeline of {_text(timeline.title)}</h2>\n'
        '<p class="note">The first level has one time axis. Each level below shows the parts of what is opened above,'
        " at full width. It is opened along what the step waits for; click another slice to open that.</p>\n"
        f"{timeline.fragment()}</section>\n"
    )


def _section(section: Section, timeline: Timeline | None) -> str:
    return (
        f'<section id="{_id(section.name)}"><h2>{_text(section.title)}</h2>\n'
        f"{_chart(section, timeline)}{_table(section)}"
        f'<p class="note">{_code(section.note)}</p></section>\n'
    )


def _chart(section: Section, timeline: Timeline | None) -> str:
    if not section.chart or section.rows.height < 2:
        return ""
    draw = getattr(charts, section.chart)
    rows = section.rows
    if timeline is not None and "largest_id" in rows.columns:
        # A click leads to the event that a row names.
        nodes = [None if event is None else timeline.position_of(event) for event in rows["largest_id"]]
        rows = rows.with_columns(link=pl.Series([link_to_node(node) for node in nodes], dtype=pl.String))
    # The texts of the chart are those of the table below it, so the picture needs no more than its title in words.
    return f"<figure>{to_picture(draw(rows))}</figure>\n"


def _table(section: Section) -> str:
    shared = shared_path(section.rows["module"].to_list()) if section.name == "modules" else ""
    titles = [
        f"module, in {shorten(shared[:-1], 48)}" if shared and field.column == "module" else field.title
        for field in section.fields
    ]
    head = "".join(
        f'<th scope="col"{_side(field)}>{_text(title)}</th>'
        for title, field in zip(titles, section.fields, strict=True)
    )
    rows = []
    for row in section.rows.iter_rows(named=True):
        cells = []
        for number, field in enumerate(section.fields):
            value = row[field.column]
            text = _text(cell(field, value).removeprefix(shared))
            if number == 0:
                cells.append(f'<th scope="row"{_side(field)}>{text}</th>')
            elif field.kind == "share" and value is not None:
                width = min(100.0, max(0.0, float(value)))
                cells.append(f'<td{_side(field)}><span class="share" style="--share:{width:.1f}%">{text}</span></td>')
            else:
                cells.append(f"<td{_side(field)}>{text}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>\n")
    return _scrolling(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n</table>")


def _side(field: Field) -> str:
    return ' class="text"' if field.is_text else ""


def _scrolling(table: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table">{table}</div>\n'


def _evidence(report: Content) -> str:
    if not report.findings:
        return ""
    parts = []
    for finding in report.findings:
        limits = ", ".join(f"{name} = {value:g}" for name, value in finding.thresholds.items())
        drawn = ""
        if "limit" in finding.evidence.columns and finding.evidence.height > 1:
            drawn = f"<figure>{to_picture(charts.step_limits(finding.evidence))}</figure>\n"
        figures = _scrolling(frame_table(finding.evidence, _EVIDENCE_ROWS))
        parts.append(
            f"<h3>{_text(finding.question)}</h3>\n<p>{_text(finding.statement)}"
            f"{f' <span class=note>Limits: {_text(limits)}.</span>' if limits else ''}</p>\n"
            f"{drawn}<details><summary>The figures it comes from</summary>{figures}"
            "</details>\n"
        )
    return f'<section id="evidence"><h2>Evidence</h2>\n{"".join(parts)}</section>\n'


def _facts(report: Content) -> str:
    rows = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>\n" for name, value in report.facts.items())
    return (
        f'<section id="facts"><h2>Run</h2>\n<dl class="run">\n{rows}</dl>\n<p>{_text(report.coverage)}</p></section>\n'
    )


def _definitions(report: Content) -> str:
    """What each table shows, in the words of the query that computes it."""
    known = {query.name: query for query in catalog.queries("answers")}
    parts = []
    for section in report.sections:
        query = known.get(section.query or section.name)
        if query is None:
            continue
        columns = "".join(
            f"<dt><code>{_text(column.name)}</code></dt><dd>{_prose(column.description)}</dd>\n"
            for column in query.columns
        )
        parts.append(
            f"<details><summary>{_text(section.title)}: {_prose(query.summary)}</summary>\n"
            f'<p>{_prose(query.description)}</p>\n<dl class="run">\n{columns}</dl></details>\n'
        )
    return (
        '<section id="definitions"><h2>How each figure is defined</h2>\n'
        "<p>GPU work belongs to the step, phase and module of the call that launched it, whenever it runs."
        " Waiting is time, and is never left out.</p>\n"
        f"{''.join(parts)}</section>\n"
    )


def _id(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def _code(value: str) -> str:
    """A text of our own in which names of queries stand between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", _text(value))


def _prose(value: str) -> str:
    """A text of our own, such as the description of a query."""
    return html.escape(" ".join(value.split()), quote=True)
