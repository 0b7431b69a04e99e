"""Columns → lines of JSON, in native code, and the numbers that our own processes and threads have in a trace file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from hotline_analysis.text.formats import UNSEEN

# Perfetto reads process and thread numbers as unsigned 32-bit integers. No operating system gives numbers this large,
# so our tracks cannot fall together with those of the file.
CPU_PID = 4_000_000_000
GPU_PID = 4_000_010_000  # plus the device
PATH_PID = 4_000_900_000
PATH_TID = 4_090_000_000
FIRST_TID = 4_100_000_000

_ROWS = 50_000  # at a time, so that memory does not grow with the trace


def lines(frame: pl.DataFrame, *parts: pl.Expr) -> Iterator[pl.Series]:
    """One line per row, of these parts."""
    for some in frame.iter_slices(_ROWS):
        yield some.select(pl.concat_str(parts).alias("json"))["json"]


def text(fixed: str) -> pl.Expr:
    """The same text in each line."""
    return pl.lit(fixed)


def gpu_pid() -> pl.Expr:
    """The process that stands for the column `device`."""
    return pl.col("device").clip(0) + GPU_PID


def json_text(column: str) -> pl.Expr:
    """A column of texts as JSON."""
    return pl.struct(v=column).struct.json_encode().str.strip_prefix('{"v":').str.strip_suffix("}")


def printable(lines: pl.Series) -> pl.Series:
    """Lines of JSON in which texts mean the same, and nothing disturbs the terminal or editor that shows them."""
    # JSON itself escapes the first 32 characters.
    unseen = f"[{UNSEEN}]"
    odd = lines.filter(lines.str.contains(unseen))
    found = odd.str.extract_all(unseen).explode().unique().to_list()
    return lines.str.replace_many(found, [_escape(char) for char in found]) if found else lines


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def microseconds(column: str) -> pl.Expr:
    """Integer nanoseconds as a decimal number of microseconds, exactly."""
    size = pl.col(column).abs()
    sign = pl.when(pl.col(column) < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    return pl.concat_str(sign, (size // 1000).cast(pl.String), pl.lit("."), (size % 1000).cast(pl.String).str.zfill(3))


# Texts are matched first, so that a word inside them is no number. The other pattern finds the few lines to look at.
_MAYBE_NOT_FINITE = r"(?i)[:,\[\s][-+]?(nan|inf)"
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|[-+]?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE)


def finite(lines: pl.Series) -> pl.Series:
    """Lines of JSON in which what JSON has no number for (NaN, infinity) is null."""
    odd = lines.str.contains(_MAYBE_NOT_FINITE)
    if not odd.any():
        return lines
    return lines.scatter(odd.arg_true(), [finite_text(line) for line in lines.filter(odd)])


def finite_text(text: str) -> str:
    """A JSON text in which NaN and infinity are null."""
    return _NOT_FINITE.sub(lambda match: match[0] if match[0].startswith('"') else "null", text)
