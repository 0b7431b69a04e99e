"""The user's import options, besides the traces."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from hotline_analysis.annotation.model_file import read_model
from hotline_analysis.atomic import path_of
from hotline_analysis.database import table_of
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer.gpus import Gpus, read_gpus
from hotline_analysis.importer.signatures import OpSignatures, read_op_signatures
from hotline_analysis.importer.sources import Source
from hotline_analysis.importer.work import OpWork, read_op_work
from hotline_analysis.schema import TABLES
from hotline_analysis.vocabulary import KERNEL_CLASSES

KernelClasses = Mapping[str, str] | str | os.PathLike[str]
"""Kernel name patterns and their classes, or a CSV file with the columns `pattern` and `class`."""

Progress = Callable[[str, float], None]
"""Called with the current activity and the overall progress, from 0 to 1."""


@dataclass(frozen=True)
class Given:
    """The user's model, rules and GPUs as passed to `import_traces`, and whether secrets stay."""

    model: Source | None = None
    kernel_classes: KernelClasses | None = None
    gpu: str | None = None
    gpus: Gpus | None = None
    op_signatures: OpSignatures | None = None
    op_work: OpWork | None = None
    keep_secrets: bool = False

    def read(self) -> Options:
        """Read the files and check the values. Raises `HotlineError` for a mistake."""
        options = Options(
            model=None if self.model is None else Path(os.path.abspath(path_of(self.model))),
            classes=read_kernel_classes(self.kernel_classes),
            gpus=read_gpus(self.gpus, self.gpu),
            signatures=read_op_signatures(self.op_signatures),
            keep_secrets=self.keep_secrets,
            op_work=read_op_work(self.op_work),
        )
        if options.model is not None:
            read_model(options.model)  # report mistakes in the model before reading the traces
        return options


@dataclass(frozen=True)
class Options:
    """The user's options besides the trace.

    The model file, kernel classes (table `kernel_class`), GPUs (table `gpu_given`), rules for the work of ops (table
    `op_signature`), a statement that computes the work, and whether secrets in the metadata stay.
    """

    model: Path | None = None
    classes: pa.Table = field(default_factory=lambda: read_kernel_classes(None))
    gpus: pa.Table = field(default_factory=lambda: read_gpus(None))
    signatures: pa.Table = field(default_factory=lambda: read_op_signatures(None))
    keep_secrets: bool = False
    op_work: str | None = None

    def tables(self) -> dict[str, pa.Table]:
        """Return the kernel classes, GPUs and rules for the work of ops, by the name of their table."""
        return {"kernel_class": self.classes, "gpu_given": self.gpus, "op_signature": self.signatures}

    def to_json(self) -> str:
        """Return the options as text, for a process that imports one of several files."""
        values = {"model": self.model and str(self.model), "keep_secrets": self.keep_secrets, "op_work": self.op_work}
        tables = {"classes": self.classes, "gpus": self.gpus, "signatures": self.signatures}
        return json.dumps(values | {name: table.to_pylist() for name, table in tables.items()})

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Restore options from the text of `to_json`."""
        values = json.loads(text)
        tables = {"classes": "kernel_class", "gpus": "gpu_given", "signatures": "op_signature"}
        return cls(
            model=Path(values["model"]) if values["model"] else None,
            keep_secrets=values["keep_secrets"],
            op_work=values["op_work"],
            **{name: table_of(values[name], TABLES[table].arrow) for name, table in tables.items()},
        )


def read_kernel_classes(given: KernelClasses | None) -> pa.Table:
    """Check the user's kernel classes and return them as the table `kernel_class`."""
    if given is None:
        pairs: list[tuple[str, str]] = []
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        try:
            # Spreadsheets write a byte order mark before the header.
            with open(path_of(given), newline="", encoding="utf-8-sig") as stream:
                header, *lines = csv.reader(stream)
            pattern, name = header.index("pattern"), header.index("class")
            pairs = [(line[pattern], line[name]) for line in lines if line]
        except OSError as error:
            raise HotlineError(f"cannot read {given}: {error.strerror or error}") from error
        except (IndexError, ValueError, csv.Error) as error:
            raise HotlineError(
                f"{given} is not a table of kernel classes", hint="Give a CSV file with the first line: pattern,class"
            ) from error
    for regex, kernel_class in pairs:
        if kernel_class not in KERNEL_CLASSES:
            raise HotlineError(
                f"{kernel_class!r} is not a class of kernels (pattern {regex!r})",
                hint=f"Use {', '.join(KERNEL_CLASSES)}.",
            )
        try:
            duckdb.execute("select regexp_matches('', ?)", [regex]).fetchall()
        except duckdb.Error as error:
            raise HotlineError(f"{regex!r} is not a regular expression: {error}") from error
    rows = [{"position": number, "pattern": pair[0], "class": pair[1]} for number, pair in enumerate(pairs)]
    return table_of(rows, TABLES["kernel_class"].arrow)
