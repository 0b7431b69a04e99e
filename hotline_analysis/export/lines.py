"""Columns → lines of JSON, in native code, and the numbers of our own processes and threads in a trace file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from hotline_analysis.text.formats import UNSEEN

# Perfetto reads process and thread numbers as unsigned 32-bit integers. No operating system uses numbers this large, so
# our tracks cannot collide with tracks of the file.
CPU_PID = 4_000_000_000
GPU_PID = 4_000_010_000  # plus the device number
PATH_PID = 4_000_900_000
PATH_TID = 4_090_000_000
FIRST_TID = 4_100_000_000

_ROWS = 50_000  # rows per batch, so memory does not grow with the trace


def lines(frame: pl.DataFrame, *parts: pl.Expr) -> Iterator[pl.Series]:
    """One line per row, concatenated from the parts."""
    for batch in frame.iter_slices(_ROWS):
        yield batch.select(pl.concat_str(parts).alias("json"))["json"]


def text(fixed: str) -> pl.Expr:
    """The same text in each line."""
    return pl.lit(fixed)


def gpu_pid() -> pl.Expr:
    """The process number of the column `device`."""
    return pl.col("device").clip(0) + GPU_PID


def json_text(column: str) -> pl.Expr:
    """A column of texts as JSON."""
    return pl.struct(v=column).struct.json_encode().str.strip_prefix('{"v":').str.strip_suffix("}")


def printable(lines: pl.Series) -> pl.Series:
    """Escape invisible characters in lines of JSON. The texts mean the same, and are safe in terminals and editors."""
    # JSON itself escapes the first 32 characters.
    pattern = f"[{UNSEEN}]"
    odd_lines = lines.filter(lines.str.contains(pattern))
    chars = odd_lines.str.extract_all(pattern).explode().unique().to_list()
    return lines.str.replace_many(chars, [_escape(char) for char in chars]) if chars else lines


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def microseconds(column: str) -> pl.Expr:
    """Integer nanoseconds as an exact decimal number of microseconds."""
    size = pl.col(column).abs()
    sign = pl.when(pl.col(column) < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    return pl.concat_str(sign, (size // 1000).cast(pl.String), pl.lit("."), (size % 1000).cast(pl.String).str.zfill(3))


# The first pattern finds the few candidate lines. The second pattern matches texts first, so a word inside a text is
# not mistaken for a number.
_MAYBE_NOT_FINITE = r"(?i)[:,\[\s][-+]?(nan|inf)"
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|[-+]?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE)


def finite(lines: pl.Series) -> pl.Series:
    """Replace NaN and infinity, which JSON cannot represent, by null in lines of JSON."""
    is_odd = lines.str.contains(_MAYBE_NOT_FINITE)
    if not is_odd.any():
        return lines
    return lines.scatter(is_odd.arg_true(), [finite_text(line) for line in lines.filter(is_odd)])


def finite_text(text: str) -> str:
    """Replace NaN and infinity by null in a JSON text."""
    return _NOT_FINITE.sub(lambda match: match[0] if match[0].startswith('"') else "null", text)
