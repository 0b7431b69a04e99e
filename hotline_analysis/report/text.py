"""A report as text for a terminal."""

from __future__ import annotations

import textwrap
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotline_analysis.humane import delta, duration, percent, safe, shorten
from hotline_analysis.report.model import Field, Report, Section


def render(report: Report, *, width: int, color: bool) -> str:
    """Render with ANSI colours or none. Names from the trace are never read as markup."""
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
    say(report.headline, "bold")
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
    if report.advice:
        say("")
        say("What to do", "bold cyan")
        for advice in report.advice:
            say(advice, indent="  • ", hang="    ")
    for warning in report.warnings:
        say(f"warning: {warning}", "yellow", hang="  ")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _table(section: Section, width: int) -> Table:
    """The rows as a table that fits; only the column of names gives way."""
    rows = [[cell(field, row[field.column]) for field in section.fields] for row in section.rows.iter_rows(named=True)]
    widths = [
        max(len(field.title), *(len(row[i]) for row in rows)) if rows else len(field.title)
        for i, field in enumerate(section.fields)
    ]
    room = max(16, width - sum(widths[1:]) - 2 * len(widths) - 2)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
    table.add_column("", width=0)
    for field in section.fields:
        table.add_column(field.title, justify="left" if field.kind == "name" else "right", no_wrap=True)
    for row in rows:
        table.add_row("", Text(shorten(row[0], room)), *(Text(value) for value in row[1:]))
    return table


def cell(field: Field, value: object) -> str:
    """A value as text, by the kind of its column."""
    if value is None:
        return "–"
    if field.kind == "time" and isinstance(value, int | float):
        return duration(value)
    if field.kind == "delta" and isinstance(value, int | float):
        return delta(value)
    if field.kind == "share" and isinstance(value, int | float):
        return percent(value)
    if field.kind == "count" and isinstance(value, int):
        return f"{value:,}" if field.title not in ("step", "rank") else str(value)
    return safe(str(value))
