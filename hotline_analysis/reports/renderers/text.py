"""A report as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotline_analysis.reports.content import Field, Section, cell
from hotline_analysis.reports.whole import Content
from hotline_analysis.text.formats import file_and_line, percent, shorten, shorten_place

_GAP = 2  # between columns
_READABLE = 12  # minimum width of a recognisable name
_NARROWEST = 4
_LONGEST_FILE = 40  # file and line of a place are not cut up to this width


def render(report: Content, *, width: int, color: bool) -> str:
    """Render with or without ANSI colours. Names from the trace are never parsed as markup."""
    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        legacy_windows=False,
    )

    def say(text: str, style: str = "", indent: str = "", hang: str = "") -> None:
        wrapped = textwrap.fill(text, width, initial_indent=indent, subsequent_indent=hang or indent)
        console.print(Text(wrapped, style=style), soft_wrap=True)

    say(report.title, "bold")
    wide = max(9, *map(len, report.facts))
    for name, value in report.facts.items():
        say(f"{name:<{wide}} {value}", indent="  ", hang=" " * (wide + 3))
    say("")
    say(report.lead, "bold")
    if report.sentence is not None and report.headline != report.lead:
        say(report.headline)
    for number, advice in enumerate(report.advice, start=1):
        if number == 1:
            say("")
            say("What to do, and how much shorter the step is without the cause", "bold cyan")
        mark = f"{number}. "
        say(f"{percent(advice.gain_pct)}: {advice.what}.", indent=f"  {mark}", hang=" " * (2 + len(mark)))
        say(f"{advice.do} {advice.predicted}".rstrip(), indent=" " * (2 + len(mark)))
        if advice.where:
            say(advice.where, "dim", indent=" " * (2 + len(mark)))
    if report.caveats:
        say("")
        say("Before you believe it", "bold cyan")
        for caveat in report.caveats:
            say(caveat, indent="  • ", hang="    ")
    if report.findings:
        say("")
    for finding in report.findings:
        say(finding.question, "bold cyan")
        say(finding.statement, indent="  ")
    for section in report.sections:
        say("")
        say(section.title, "bold cyan")
        console.print(_table(section, width))
        if section.note:
            say(section.note, "dim", indent="  ")
    say("")
    say(report.coverage)
    if report.recapture:
        say("")
        say("To know more", "bold cyan")
        for hint in report.recapture:
            say(hint, indent="  • ", hang="    ")
    for warning in report.warnings:
        say(f"warning: {warning}", "yellow", hang="  ")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _table(section: Section, width: int) -> Table:
    """Fit the rows into a table. Names are shortened first, widest first; then the least important columns are dropped.

    Every table keeps the row's name and the row's time or change.
    """
    fields = list(section.fields)
    rows = [[cell(field, row[field.column]) for field in fields] for row in section.rows.iter_rows(named=True)]
    widths = [max(len(field.title), *(len(row[i]) for row in rows), 0) for i, field in enumerate(fields)]
    names = [i for i, field in enumerate(fields) if field.is_text]
    places = {
        i: min(_LONGEST_FILE, max((len(file_and_line(row[i])) for row in rows), default=0))
        for i in names
        if fields[i].kind == "place"
    }
    kept = list(range(len(fields)))
    numbers = [i for i in kept if i not in names]
    times = sorted((fields[i].kind != "delta", i) for i in numbers if fields[i].kind in ("delta", "time"))
    first = {0, *([times[0][1]] if times else numbers[:1])}

    def too_much() -> int:
        return sum(widths[i] for i in kept) + _GAP * (len(kept) + 1 + (len(kept) < len(fields))) - width

    def shrink_names(least: Mapping[int, int]) -> None:
        while too_much() > 0 and (wide := [i for i in names if i in kept and widths[i] > least[i]]):
            widths[max(wide, key=lambda i: (widths[i], -i))] -= 1

    wanted = list(widths)
    shrink_names(dict.fromkeys(names, _READABLE) | places)
    while too_much() > 0 and set(kept) > first:
        kept.remove(max(set(kept) - first, key=lambda i: (i not in names, i not in places, i)))
    if len(kept) < len(fields):
        # Give the room of dropped columns to the remaining columns.
        widths[:] = wanted
        shrink_names(dict.fromkeys(names, _READABLE) | places)
    shrink_names(dict.fromkeys(names, _NARROWEST) | places)
    shrink_names(dict.fromkeys(names, _NARROWEST))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_edge=False, header_style="dim")
    table.add_column("", width=0)
    for i in kept:
        title = shorten(fields[i].title, widths[i])
        table.add_column(title, justify="left" if i in names else "right", no_wrap=True)
    if len(kept) < len(fields):
        table.add_column("…", width=1)
    for row in rows:
        table.add_row("", *(Text(_shortened(fields[i], row[i], widths[i])) for i in kept))
    return table


def _shortened(field: Field, text: str, width: int) -> str:
    return shorten_place(text, width) if field.kind == "place" else shorten(text, width)
