"""What the user says of ops: which formula counts the work of an op, and which argument is what."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence

import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.atomic import path_of
from hotline_analysis.database import table_of
from hotline_analysis.errors import HotlineError
from hotline_analysis.schema import TABLES
from hotline_analysis.text.formats import one_of

OpSignatures = Sequence[tuple[str, str, str]] | str | os.PathLike[str]
"""Name of an op, family and roles of its arguments, as tuples or as a CSV file with the columns `name`, `family` and
`roles`, like `rules/op_signatures.csv`."""

OWN = "own"
"""The family of ops whose work a query of the user counts (`read_op_work`)."""
_COLUMNS = ("name", "family", "roles")
_ROLES = re.compile(r"(?:\w+=\d+(?:\s+\w+=\d+)*)?")


def read_op_signatures(given: OpSignatures | None) -> pa.Table:
    """Check the user's rules for the work of ops and return them as the table `op_signature`."""
    rows: Sequence[tuple[str, str, str]]
    if given is None:
        rows = []
    elif isinstance(given, (str, os.PathLike)):
        rows = _read(given)
    else:
        rows = given
    families = sorted({*catalog.rules()["op_signatures"]["family"].to_pylist(), OWN})
    for name, family, roles in rows:
        if not name:
            raise HotlineError("a rule for the work of an op has no name", hint="Names are as in the trace: aten::mm.")
        if family not in families:
            raise HotlineError(f"{family!r} is no family of ops ({name})", hint=f"Use {one_of(families)}.")
        if not _ROLES.fullmatch(roles.strip()):
            raise HotlineError(
                f"{roles!r} does not say what the arguments of {name} are",
                hint="Write the position of each, from 0, such as: a=0 b=1",
            )
    table = [
        {"position": number, "name": name, "family": family, "roles": roles.strip()}
        for number, (name, family, roles) in enumerate(rows)
    ]
    return table_of(table, TABLES["op_signature"].arrow)


def _read(file: str | os.PathLike[str]) -> list[tuple[str, str, str]]:
    try:
        # Spreadsheets write a mark of the encoding before the header.
        with open(path_of(file), newline="", encoding="utf-8-sig") as stream:
            header, *lines = csv.reader(stream)
        name, family, roles = (header.index(column) for column in _COLUMNS)
        return [(line[name], line[family], line[roles]) for line in lines if line]
    except OSError as error:
        raise HotlineError(f"cannot read {file}: {error.strerror or error}") from error
    except (IndexError, ValueError, csv.Error) as error:
        raise HotlineError(
            f"{file} is no table of ops", hint="It is a CSV file whose first line is: name,family,roles"
        ) from error
