"""A built trace of which only what is asked for is made, for tests of derived tables and of single answers.

`tests.runs.opened` annotates a whole file, which takes fifty queries, while most tests ask for a table or an answer
that needs few of them. A `Made` trace reads its file as an import does, and runs a stage of the annotation only once a
statement names a table that follows from it. `tests/test_made.py` compares each table with that of an import.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hotline_analysis import Trace, catalog
from hotline_analysis.annotation.model_file import METADATA_KEY
from hotline_analysis.annotation.pipeline import PIPELINE, Stage, Work, begin
from hotline_analysis.database import rows_of
from hotline_analysis.importer.annotating import _OF_PART, _new_database
from hotline_analysis.importer.one_file import _rank_of, read_file
from hotline_analysis.importer.options import Options
from hotline_analysis.importer.tables import _kinds, reading
from hotline_analysis.run.opened import OpenRun
from hotline_analysis.schema import TABLES
from tests import runs

_WORD = re.compile(r"\w+")
# Stages that read or make, in Python, tables that their queries do not name: the stage's first query, and the tables.
_READ_BY_PYTHON: Mapping[str, Collection[str]] = {"step_unit": ("main_track", "step")}
_MADE_BY_PYTHON: Mapping[str, Collection[str]] = {"step_unit": ("step",)}


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The database in which this process makes the tables of all of these traces, each over its own connection."""
    return _new_database()


def _made_by(stage: Stage) -> set[str]:
    return {str(catalog.get(name).writes) for name in stage.queries} | {*_MADE_BY_PYTHON.get(stage.queries[0], ())}


def _read_by(stage: Stage) -> set[str]:
    read = {name for query in stage.queries for name in catalog.get(query).tables}
    return read | {*_READ_BY_PYTHON.get(stage.queries[0], ())}


@cache
def _stages_of(name: str, needed_stages: frozenset[int]) -> frozenset[int]:
    """The stages that a table follows from, as it stands when the annotation is done.

    Few traces need the stages with a condition, which looks at nothing but the table that the stage would change: what
    one of them reads is made only for a trace that was found to need it.
    """
    needed, found = {name}, set()
    for number in reversed(range(len(PIPELINE))):
        stage = PIPELINE[number]
        if needed & _made_by(stage):
            found.add(number)
            needed |= _read_by(stage) if stage.when is None or number in needed_stages else _made_by(stage)
    return frozenset(found)


@cache
def _changed_by(number: int) -> frozenset[str]:
    """The tables that a stage makes again, which an earlier stage has made."""
    before = frozenset().union(*(_made_by(stage) for stage in PIPELINE[:number]))
    return before & _made_by(PIPELINE[number])


@cache
def _comes_too_late(stage: int, done: frozenset[int]) -> bool:
    """Whether a later stage, which is done, has made a table again that this one reads or makes."""
    tables = _read_by(PIPELINE[stage]) | _made_by(PIPELINE[stage])
    return any(later > stage and _changed_by(later) & tables for later in done)


class Annotation:
    """The annotation of one trace, as far as it was asked for."""

    def __init__(self, file: Path, folder: Path) -> None:
        self._folder = folder
        self._done: frozenset[int] = frozenset()
        self._asked: set[str] = set()
        self._needed: frozenset[int] = frozenset()  # stages whose condition the trace meets
        self.connection = _database().cursor()
        read = read_file(self.connection, file, folder, 1, lambda *_: None, Options())
        self.reader = read.reader
        self._prepared = read.prepare(self.connection)
        self.connection.register("rank_info", self._prepared.row)
        self.connection.execute(f"create or replace temp view track as from {reading(folder / 'track.parquet')}")
        (self.info,) = self._prepared.row.to_pylist()
        self._work = self._begun()

    def _begun(self) -> Work:
        self._done = frozenset()
        return begin(Work(self.connection, None, lambda note: None, None, dict(self._prepared.has_rows)))

    def make(self, names: Collection[str]) -> None:
        """Make some tables, and all that they follow from."""
        self._asked |= set(names)
        while not self._made():
            self._work = self._begun()

    def _made(self) -> bool:
        """Run the stages that are missing in their order; False where that is not their order any more."""
        missing = frozenset().union(*(_stages_of(name, self._needed) for name in self._asked)) - self._done
        if any(_comes_too_late(number, self._done) for number in missing):
            return False
        for number in sorted(missing):
            stage = PIPELINE[number]
            if stage.when is not None and number not in self._needed:
                if stage.when(self._work):
                    self._needed |= {number}
                    return False
            else:
                stage.build(self._work)
        self._done |= missing
        return True

    def table(self, name: str) -> pa.Table:
        """The rows of a table that a run keeps, with the types that it has there."""
        self.make([name])
        columns = ", ".join(f'"{column}"::{kind} as "{column}"' for column, kind in _kinds(name).items())
        return rows_of(self.connection.execute(f"select {columns} from {name}"))

    def close(self) -> None:
        self.connection.close()


class MadeRun(OpenRun):
    """An open run of one small file, whose tables the annotation makes when a statement first uses them."""

    def __init__(self, annotation: Annotation, file: Path, folder: Path) -> None:
        self._annotation = annotation
        self._rank = _rank_of(file, annotation.reader.metadata)[0]
        super().__init__([folder])

    def _read_manifests(self, runs: Sequence[Path]) -> Mapping[str, Any]:
        self._rank_folders[self._rank] = runs[0]
        known = {name: self._annotation.info[name] for name in _OF_PART}
        return {"parts": [{"rank": self._rank, **known}], "warnings": []}

    def provide(self, statement: str) -> None:
        words = set(_WORD.findall(statement.lower()))
        with self._providing:  # a report asks in several threads
            self._annotation.make(_kept(frozenset(TABLES.keys() & words or TABLES.keys())) - self.known)
            super().provide(statement)

    def _make(self, name: str) -> None:
        if name in _annotated():
            self._create(name, [column.name for column in TABLES[name].columns])
        else:
            super()._make(name)

    def _create(self, name: str, columns: Sequence[str]) -> None:
        listed = ", ".join(f'"{column}"' for column in columns)
        self.connection.register("given", self._annotation.table(name))
        self.connection.execute(f"create table {name} as select {self._rank}::bigint as rank, {listed} from given")
        self.connection.unregister("given")


class Made(Trace):
    """A trace of one small file. What it is asked, it answers as the trace of an import would."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.annotation = Annotation(file, folder)
        self._begin(MadeRun(self.annotation, file, folder))

    def close(self) -> None:
        super().close()
        self.annotation.close()


@cache
def _annotated() -> frozenset[str]:
    """The tables that the annotation makes. A run has some of them as views over the wide tables, made much later."""
    return frozenset(str(catalog.get(name).writes) for stage in PIPELINE for name in stage.queries)


@cache
def _kept(names: frozenset[str]) -> frozenset[str]:
    """These tables, and in the place of views those that they are made of."""
    found: set[str] = set()
    for name in names:
        is_view = TABLES[name].kind == "view" and name not in _annotated()
        found |= _kept(frozenset(catalog.get(name).tables)) if is_view else {name}
    return frozenset(found)


def opened(file: Path) -> Trace:
    """A trace of a file whose tables are made when they are asked for.

    Where an import has something to tell of the file, or nothing to read, or places a model, it is imported: all of it
    is known only in the end.
    """
    trace = Made(file, Path(tempfile.mkdtemp(dir=os.environ.get(runs.SESSION))))
    reader = trace.annotation.reader
    if reader.event_count and not (reader.damage.notes or reader.damage.repairs or METADATA_KEY in reader.metadata):
        return trace
    trace.close()
    return runs.opened(file)
