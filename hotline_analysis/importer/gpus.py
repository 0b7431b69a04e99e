"""The user's information about GPUs: the GPU of a trace, and figures of unknown GPUs."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import duckdb
import pyarrow as pa

from hotline_analysis.atomic import path_of
from hotline_analysis.database import table_of
from hotline_analysis.errors import HotlineError
from hotline_analysis.gpu_models import named_gpu
from hotline_analysis.schema import TABLES

Gpus = Sequence[Mapping[str, object]] | str | os.PathLike[str]
"""Figures of GPUs: a CSV file with the columns of `rules/gpus.csv` (`name_pattern` and `model` are required), or a dict
with these keys for each GPU."""

_NEEDED = ("name_pattern", "model")
_MORE = "without a name"  # for lines with more fields than the header
_FORM = "The columns name_pattern and model are required; `hotline schema gpu_given` lists all columns."


def read_gpus(given: Gpus | None, gpu: str | None = None) -> pa.Table:
    """Check the user's information about GPUs and return it as the table `gpu_given`.

    `gpu` names the GPU of every device, by its model or by the name in a trace. Its row comes first, without a pattern.
    """
    rows = [] if given is None else [_checked(row, location) for location, row in _given(given)]
    if gpu is not None:
        rows.insert(0, {**named_gpu(gpu, rows), "name_pattern": None})
    schema = TABLES["gpu_given"].arrow
    return table_of([{**row, "position": number} for number, row in enumerate(rows)], schema)


def _given(given: Gpus) -> list[tuple[str, Mapping[str, object]]]:
    """Return the rows as given, each with its location for error messages."""
    if not isinstance(given, (str, os.PathLike)):
        return [(f"GPU {number}", row) for number, row in enumerate(given, start=1)]
    try:
        # Spreadsheets write a byte order mark before the header.
        with open(path_of(given), newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, restkey=_MORE, strict=True)
            rows: list[tuple[str, Mapping[str, object]]] = [(f"{given}, line {reader.line_num}", row) for row in reader]
            header = list(reader.fieldnames or ())
    except OSError as error:
        raise HotlineError(f"cannot read {given}: {error.strerror or error}") from error
    except (ValueError, csv.Error) as error:
        raise HotlineError(f"{given} is not a CSV file: {error}", hint=_FORM) from error
    if missing := [name for name in _NEEDED if name not in header]:
        raise HotlineError(
            f"{given} has no column {' or '.join(missing)}, so the file is not a table of GPUs", hint=_FORM
        )
    return rows


def _checked(row: Mapping[str, object], where: str) -> dict[str, object]:
    """Convert a row to the types of the table. An empty field is NULL."""
    types = {column.name: column.type for column in TABLES["gpu_given"].columns if column.name != "position"}
    values: dict[str, object] = {}
    for name, value in row.items():
        if name not in types:
            close = get_close_matches(name, types, n=1)
            hint = f"Is it {close[0]}?" if close else _FORM
            raise HotlineError(f"{where} has a column {name}, which is unknown", hint=hint)
        if value is None or value == "":
            values[name] = None
        else:
            values[name] = str(value) if types[name] == "VARCHAR" else _number(value, types[name], f"{where}: {name}")
    for name in _NEEDED:
        if values.get(name) is None:
            raise HotlineError(f"{where} has no {name}", hint=_FORM)
    try:
        duckdb.execute("select regexp_matches('', ?)", [values["name_pattern"]]).fetchall()
    except duckdb.Error as error:
        raise HotlineError(f"{where}: {values['name_pattern']!r} is not a regular expression: {error}") from error
    return values


def _number(value: object, type_: str, where: str) -> int | float:
    """Return a figure, which is a number over 0. Raises `HotlineError` for other values."""
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:  # also excludes NaN
        raise HotlineError(f"{where} must be a number over 0, not {value!r}", hint="Leave out unknown values.")
    if type_ == "DOUBLE":
        return number
    if number != int(number):
        raise HotlineError(f"{where} must be a whole number, not {value!r}")
    return int(number)
