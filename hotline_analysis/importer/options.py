"""What the user tells the import beside the traces."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from hotline_analysis.atomic import path_of
from hotline_analysis.database import table_of
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer.gpus import read_gpus
from hotline_analysis.importer.signatures import read_op_signatures
from hotline_analysis.schema import TABLES
from hotline_analysis.vocabulary import KERNEL_CLASSES

KernelClasses = Mapping[str, str] | str | os.PathLike[str]
"""Patterns of kernel names and the class of what they match, or a CSV file with the columns `pattern` and `class`."""

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of the whole that is done, from 0 to 1."""


@dataclass(frozen=True)
class Options:
    """What the user says beside the trace.

    The model (a file), classes of kernels (the table `kernel_class`), GPUs (the table `gpu_given`), rules for the
    work of ops (the table `op_signature`), a statement that counts it, and whether secrets in the metadata stay.
    """

    model: Path | None = None
    classes: pa.Table = field(default_factory=lambda: read_kernel_classes(None))
    gpus: pa.Table = field(default_factory=lambda: read_gpus(None))
    signatures: pa.Table = field(default_factory=lambda: read_op_signatures(None))
    keep_secrets: bool = False
    op_work: str | None = None

    def tables(self) -> dict[str, pa.Table]:
        """The rules, as the tables of a run that have them."""
        return {"kernel_class": self.classes, "gpu_given": self.gpus, "op_signature": self.signatures}

    def to_json(self) -> str:
        """The options as text, for a process that imports one of several files."""
        given = {"model": self.model and str(self.model), "keep_secrets": self.keep_secrets, "op_work": self.op_work}
        tables = {"classes": self.classes, "gpus": self.gpus, "signatures": self.signatures}
        return json.dumps(given | {name: table.to_pylist() for name, table in tables.items()})

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The options as `to_json` wrote them."""
        given = json.loads(text)
        tables = {"classes": "kernel_class", "gpus": "gpu_given", "signatures": "op_signature"}
        return cls(
            model=Path(given["model"]) if given["model"] else None,
            keep_secrets=given["keep_secrets"],
            op_work=given["op_work"],
            **{name: table_of(given[name], TABLES[table].arrow) for name, table in tables.items()},
        )


def read_kernel_classes(given: KernelClasses | None) -> pa.Table:
    """Check the user's classes of kernels and return them as the table `kernel_class`."""
    if given is None:
        pairs: list[tuple[str, str]] = []
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        try:
            # Spreadsheets write a mark of the encoding before the header.
            with open(path_of(given), newline="", encoding="utf-8-sig") as stream:
                header, *lines = csv.reader(stream)
            pattern, name = header.index("pattern"), header.index("class")
            pairs = [(line[pattern], line[name]) for line in lines if line]
        except OSError as error:
            raise HotlineError(f"cannot read {given}: {error.strerror or error}") from error
        except (IndexError, ValueError, csv.Error) as error:
            raise HotlineError(
                f"{given} is no table of kernel classes", hint="It is a CSV file whose first line is: pattern,class"
            ) from error
    for regex, kernel_class in pairs:
        if kernel_class not in KERNEL_CLASSES:
            raise HotlineError(
                f"{kernel_class!r} is no class of kernels (pattern {regex!r})",
                hint=f"Use {', '.join(KERNEL_CLASSES)}.",
            )
        try:
            duckdb.execute("select regexp_matches('', ?)", [regex]).fetchall()
        except duckdb.Error as error:
            raise HotlineError(f"{regex!r} is no regular expression: {error}") from error
    rows = [{"position": number, "pattern": each[0], "class": each[1]} for number, each in enumerate(pairs)]
    return table_of(rows, TABLES["kernel_class"].arrow)
