"""Terminal output: frames as tables, JSON or CSV, messages, and a progress bar.

Names in a trace are untrusted text: never parsed as markup, and shown with visible control characters.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Literal

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotline_analysis.envelope import plain
from hotline_analysis.text.formats import SIZE_UNITS, TIME_UNITS, UNSAFE, readable_unit, safe

if TYPE_CHECKING:
    import polars as pl

MAX_ROWS = 100
"""Number of rows in a printed table."""

_WIDEST = 100
_NARROWEST = 16
_GAP = 2
_UNBOUNDED = 100_000
_IN_A_PIPE = 80  # columns, as terminals and pagers have at least

# Spreadsheets treat a cell as a formula depending on its first character, in some countries also a full-width one.
_FORMULA = "^[=+\\-@\uff1d\uff0b\uff0d\uff20]"
_IDENTIFIER = re.compile(r"(.*_)?(id|rank|step|device|stream|correlation)")
_EXAMPLE = "example_"  # columns with the id of an example event
_POSITION = re.compile(r"(.*_)?(start|end)_ns")
_IN_MS = TIME_UNITS[2:3]


# --- messages --------------------------------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """Return untrusted text on one line, with visible control characters."""
    return safe(" ".join(text.split()).encode(errors="backslashreplace").decode())


def error(message: str, hint: str | None) -> None:
    """Print an error and a hint as one line on stderr."""
    # DuckDB marks a position in the statement with a caret on the next line, which is meaningless on one line.
    text = one_line(re.sub(r"\n *\^+ *$", "", message.rstrip()))
    stop = "" if text.endswith((".", "!", "?")) else "."
    print(f"error: {text}{stop} Hint: {one_line(hint)}" if hint else f"error: {text}", file=sys.stderr)


WARNINGS: list[str] = []
"""Warnings since the command began, for the envelope."""


def warning(message: str) -> None:
    """Print a warning as one line on stderr."""
    WARNINGS.append(message)
    print(f"warning: {one_line(message)}", file=sys.stderr)


@contextmanager
def progress() -> Iterator[Callable[[str, float], None] | None]:
    """Give a function that shows a progress bar on stderr during the block; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show(what: str, share: float) -> None:
        bar.start()
        bar.update(task, description=escape(one_line(what)), completed=share)

    try:
        yield show
    finally:
        bar.stop()


def colored() -> bool:
    """Return whether output for people may use colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def has_blocks() -> bool:
    """Return whether the encoding of standard output has the block characters of a picture."""
    try:
        "▁█░→".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width() -> int:
    """Return the columns that a line may have: those of the terminal or of COLUMNS; 80 in a pipe."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return shutil.get_terminal_size().columns if known else _IN_A_PIPE


# --- frames for programs ---------------------------------------------------------------------------------------------


def to_json(frame: pl.DataFrame) -> str:
    """Return a JSON array with one object per row and line. Numbers that JSON cannot represent are null.

    Integers are exact. A decimal without an exact double is written as text.
    """
    rows = (json.dumps(plain(row)) for row in frame.iter_rows(named=True))
    return "[" + ",\n ".join(rows) + "]\n"


def to_envelope(content: Mapping[str, object]) -> str:
    """Return an envelope as JSON. Rows come last, one per line."""
    rows = content.get("rows")
    if not isinstance(rows, list):
        return json.dumps(content, indent=2) + "\n"
    head = json.dumps({key: value for key, value in content.items() if key != "rows"}, indent=2)
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    return f'{head[:-2]},\n  "rows": [' + (f"\n    {lines}\n  " if rows else "") + "]\n}\n"


def to_csv(frame: pl.DataFrame) -> str:
    """Return CSV with a header. NULL is an empty field; lists and structs are JSON.

    A text that a spreadsheet would treat as a formula is prefixed with `'`. Control characters are made visible.
    """
    import polars as pl

    texts = {
        column.name: pl.Series(values, dtype=pl.String) for column in frame if (values := _texts(column)) is not None
    }
    # Headers may contain trace text too: `pivot` turns values into columns.
    header = pl.DataFrame([_harmless(pl.Series(frame.columns, dtype=pl.String))]).transpose()
    columns = [_harmless(texts[name]).alias(name) if name in texts else frame[name] for name in frame.columns]
    rows = pl.DataFrame(columns)
    return header.write_csv(include_header=False) + rows.write_csv(include_header=False)


def _texts(column: pl.Series) -> Sequence[str | None] | pl.Series | None:
    """Return the column's values as text; None for numeric, temporal and boolean columns."""
    import polars as pl

    if column.dtype.is_nested() or column.dtype == pl.Binary:
        return [None if value is None else _text(value) for value in column.to_list()]
    return column.cast(pl.String) if column.dtype in (pl.String, pl.Categorical, pl.Enum) else None


def _harmless(texts: pl.Series) -> pl.Series:
    """Escape texts that a terminal or a spreadsheet would interpret."""
    import polars as pl

    odd = texts.filter(texts.str.contains(UNSAFE.pattern)).unique().drop_nulls()
    if len(odd):
        texts = texts.replace(odd, pl.Series([safe(text) for text in odd], dtype=pl.String))
    return texts.str.replace(f"({_FORMULA})", "'${1}")


def _text(value: object) -> str:
    said = plain(value)
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


# --- frames for people -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    header: str
    cells: list[str]
    is_number: bool

    @property
    def width(self) -> int:
        return max(map(cell_len, [self.header, *self.cells]))


def to_table(frame: pl.DataFrame, *, width: int | None = None, color: bool = False) -> str:
    """Return the first rows as a table that fits into the width, if a width is given.

    Times, sizes and shares get units, shown in the header. Long texts are shortened in the middle. If the columns do
    not fit, example columns are left out; if the rest still does not fit, each row is printed as a list.
    """
    if not frame.width:
        return ""
    columns = [_column(series) for series in frame.head(MAX_ROWS)]
    without = [column for column in columns if not column.header.startswith(_EXAMPLE)]
    longest = _longest_text(columns, width)
    left_out = []
    if longest is None and without and (longest := _longest_text(without, width)) is not None:
        left_out = [column.header for column in columns if column.header.startswith(_EXAMPLE)]
        columns = without
    if longest is None:
        text = _as_lists(columns, max(_NARROWEST, (width or _UNBOUNDED) - _GAP - max(len(c.header) for c in columns)))
    else:
        text = _as_table(columns, longest, color=color)
    if left_out:
        text += f"without {' and '.join(left_out)}, which a wider terminal, --json and --csv show\n"
    if frame.height > MAX_ROWS:
        text += f"{MAX_ROWS} of {frame.height:,} rows; --json and --csv give all of them\n"
    elif frame.height == 0:
        text += "no rows\n"
    return text


def to_listing(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None, color: bool = False
) -> str:
    """Return our own texts as a table. All columns except the first wrap."""
    table = _new_table()
    for header in headers:
        table.add_column(Text(header), no_wrap=header == headers[0])
    for row in rows:
        table.add_row(*map(Text, row))
    return _render(table, width, color=color)


def _new_table() -> Table:
    rule = Box("\n".join(["    ", "    ", " ── ", "    ", "    ", "    ", "    ", "    "]))
    return Table(box=rule, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0), header_style="bold")


def _render(table: Table, width: int | None, *, color: bool) -> str:
    file = StringIO()
    system: Literal["standard"] | None = "standard" if color else None
    console = Console(file=file, width=width or _UNBOUNDED, force_terminal=color, color_system=system, _environ={})
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _longest_text(columns: Sequence[_Column], width: int | None) -> int | None:
    """Return the maximum text length at which these columns fit next to each other; None if they do not fit."""
    room = (width or _UNBOUNDED) - _GAP * (len(columns) - 1)
    numbers = sum(column.width for column in columns if column.is_number)
    return _longest_that_fits([column.width for column in columns if not column.is_number], room - numbers)


def _longest_that_fits(widths: Sequence[int], room: int) -> int | None:
    """Return the maximum text length at which columns of these widths fit; None if the text would be unreadable."""
    for longest in range(_WIDEST, _NARROWEST - 1, -1):
        if sum(min(width, longest) for width in widths) <= room:
            return longest
    return None


def _as_table(columns: Sequence[_Column], longest: int, *, color: bool) -> str:
    table = _new_table()
    for column in columns:
        table.add_column(Text(_shorten(column.header, longest)), justify="right" if column.is_number else "left")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(_shorten(cell, longest)) for cell in row))
    return _render(table, None, color=color)


def _as_lists(columns: Sequence[_Column], longest: int) -> str:
    indent = max(len(column.header) for column in columns)
    lines = []
    for number in range(len(columns[0].cells)):
        lines.append(f"─── row {number + 1}")
        lines += [f"{column.header:<{indent}}  {_shorten(column.cells[number], longest)}" for column in columns]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _shorten(text: str, longest: int) -> str:
    """Cut the middle out of a long text: both ends of a kernel or module name are informative."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def _column(series: pl.Series) -> _Column:
    values = series.to_list()
    header = one_line(series.name)
    if not series.dtype.is_numeric():
        return _Column(header, [_cell(value) for value in values], False)
    numbers = [None if value is None or not math.isfinite(value) else value for value in values]
    biggest = max((abs(value) for value in numbers if value is not None), default=0)
    scale: float = 1
    if header.endswith("_ns"):
        # A position is a large number with significant last digits, which would be lost in seconds.
        units = _IN_MS if _POSITION.fullmatch(header) else TIME_UNITS[:3] if biggest < 10_000_000_000 else TIME_UNITS
        scale, unit = readable_unit(biggest, units)
        header = f"{header.removesuffix('_ns')} {unit}"
        form = ",.3f" if scale > 1 else ",.0f"
    elif header == "bytes" or header.endswith("_bytes"):
        scale, unit = readable_unit(biggest, SIZE_UNITS)
        header = f"{header.removesuffix('bytes').removesuffix('_')} {unit}".strip()
        form = ",.1f" if scale > 1 else ",.0f"
    elif header.endswith("_pct"):
        header = f"{header.removesuffix('_pct')} %"
        form = ".1f"
    elif series.dtype.is_float():
        form = ",.1f" if biggest >= 1000 else ".4g"
    else:
        form = "d" if _IDENTIFIER.fullmatch(header) else ","
    cells = ["–" if value is None else format(value / scale if scale > 1 else value, form) for value in numbers]
    return _Column(header, cells, True)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(_text(value))
