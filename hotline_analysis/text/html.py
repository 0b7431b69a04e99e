"""HTML from the templates in this package. Every value is inserted as text, so trace names cannot become markup."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from hotline_analysis.text.formats import duration, percent, safe, shorten, size

if TYPE_CHECKING:
    import polars as pl

_LONGEST = 600


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    is_text: bool = False
    """Whether the cell is left-aligned like text, not right-aligned like figures."""
    names_row: bool = False
    share: float | None = None
    """Filled part of the cell's width in percent; `None` draws no bar."""
    link: str | None = None


@dataclass(frozen=True)
class Table:
    """A table for `table.html`."""

    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    more: str = ""
    """A sentence on the omitted rows; empty if no rows are omitted."""


def render(template: str, **values: Any) -> Markup:
    """Render a template, as a part of a page or of another template.

    Texts are escaped, very long texts are cut in the middle, and characters that could hide or reverse text are made
    visible.
    """
    return Markup(_environment().get_template(template).render(values))


def frame_table(frame: pl.DataFrame, limit: int) -> Table:
    """The first rows of a frame as a table, with units."""
    return Table(
        heads=[Cell(name) for name in frame.columns],
        rows=[
            [Cell(_value(name, value)) for name, value in row.items()]
            for row in frame.head(limit).iter_rows(named=True)
        ],
        more=f"The first {limit} of {frame.height:,} rows." if frame.height > limit else "",
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hotline_analysis.text"),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": _code, "paragraphs": _paragraphs}
    return environment


def _shown(value: object) -> object:
    """Shorten and escape a text for a page. HTML is unchanged."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else safe(shorten(value, _LONGEST))


def _code(value: str) -> Markup:
    """A text from this package, in full, with names in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(value))))


def _paragraphs(value: str) -> Markup:
    """The description of a query: paragraphs, and lists whose lines begin with a dash."""
    return Markup("\n").join(
        _list(lines) if lines[0].startswith("- ") else Markup("<p>{}</p>").format(_code(" ".join(lines)))
        for part in value.split("\n\n")
        if (lines := part.splitlines())
    )


def _list(lines: Sequence[str]) -> Markup:
    items = (Markup("<li>{}</li>").format(_code(line.removeprefix("- "))) for line in lines)
    return Markup("<ul>{}</ul>").format(Markup().join(items))


def _value(name: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, int | float) and name.endswith("_ns"):
        return duration(value)
    if isinstance(value, int | float) and name.endswith("_pct"):
        return percent(value)
    if isinstance(value, int) and (name == "bytes" or name.endswith("_bytes")):
        return size(value)
    return f"{value:,}" if isinstance(value, int) and name.endswith("_count") else str(value)
