"""HTML for notebooks, whose pages have styles of their own, light or dark, or none; and frames as tables."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from hotline_analysis.text.formats import duration, percent, safe, shorten, size

if TYPE_CHECKING:
    import polars as pl

_LONGEST = 600

# Colours come from the page around it. The class keeps the rules from everything else there.
_STYLE = """
.hotline { line-height: 1.45; overflow-x: auto; }
.hotline h3 { font-size: 1.15em; font-weight: 600; margin: .5em 0 .2em; }
.hotline h4 { font-size: 1em; font-weight: 600; margin: .9em 0 .2em; }
.hotline p { margin: .3em 0; }
.hotline ul { margin: .3em 0; padding-left: 1.5em; list-style: disc; }
.hotline table { border-collapse: collapse; width: auto; margin: .2em 0; font-size: .92em;
  font-variant-numeric: tabular-nums; }
.hotline th, .hotline td { padding: .1em .7em; text-align: right; white-space: nowrap; color: inherit; background: none;
  border: 0; border-bottom: 1px solid color-mix(in srgb, currentColor 22%, transparent); }
.hotline th { font-weight: 500; }
.hotline thead th { opacity: .7; }
.hotline th.text, .hotline td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.hotline .share { display: inline-block; min-width: 80px;
  background: linear-gradient(to right, color-mix(in srgb, #0072b2 40%, transparent) var(--share), transparent 0); }
"""


def framed(body: str) -> str:
    """A part of a notebook's page in our style. The body is trusted."""
    return f'<div class="hotline"><style>{_STYLE}</style>{body}</div>'


def frame_table(frame: pl.DataFrame, limit: int) -> str:
    """The first rows of a frame as a table, with units."""
    head = "".join(f'<th scope="col">{as_text(name)}</th>' for name in frame.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{as_text(_value(name, row[name]))}</td>" for name in frame.columns) + "</tr>\n"
        for row in frame.head(limit).iter_rows(named=True)
    )
    more = f"<p>The first {limit} of {frame.height:,} rows.</p>" if frame.height > limit else ""
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>{more}"


def as_text(value: str) -> str:
    """A text with names from the trace, on one line; the middle of a very long one is cut out."""
    return html.escape(safe(shorten(value, _LONGEST)), quote=True)


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
