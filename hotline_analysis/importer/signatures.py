"""The user's op signatures: the work formula of an op, and the roles of its arguments."""

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
"""Op name, family and argument roles, as tuples or as a CSV file with the columns `name`, `family` and `roles`, like
`rules/op_signatures.csv`."""

OWN = "own"
"""Family of ops whose work is computed by the user's query (`read_op_work`)."""
_COLUMNS = ("name", "family", "roles")
_ROLES = re.compile(r"(?:\w+=\d+(?:\s+\w+=\d+)*)?")


def read_op_signatures(given: OpSignatures | None) -> pa.Table:
    """Check the user's op signatures and return them as the table `op_signature`."""
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
            raise HotlineError("a rule for the work of an op has no name", hint="Use names as in the trace: aten::mm.")
        if family not in families:
            raise HotlineError(f"{family!r} is not a family of ops ({name})", hint=f"Use {one_of(families)}.")
        if not _ROLES.fullmatch(roles.strip()):
            raise HotlineError(
                f"{roles!r} is not a list of roles for the arguments of {name}",
                hint="Give the position of each role, from 0, such as: a=0 b=1",
            )
    table = [
        {"position": number, "name": name, "family": family, "roles": roles.strip()}
        for number, (name, family, roles) in enumerate(rows)
    ]
    return table_of(table, TABLES["op_signature"].arrow)


def _read(file: str | os.PathLike[str]) -> list[tuple[str, str, str]]:
    try:
        # Spreadsheets write a byte order mark before the header.
        with open(path_of(file), newline="", encoding="utf-8-sig") as stream:
            header, *lines = csv.reader(stream)
        name, family, roles = (header.index(column) for column in _COLUMNS)
        return [(line[name], line[family], line[roles]) for line in lines if line]
    except OSError as error:
        raise HotlineError(f"cannot read {file}: {error.strerror or error}") from error
    except (IndexError, ValueError, csv.Error) as error:
        raise HotlineError(
            f"{file} is not a table of ops", hint="Give a CSV file with the first line: name,family,roles"
        ) from error
