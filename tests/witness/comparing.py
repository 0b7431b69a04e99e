"""Frames of two states, cell by cell."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from polars.testing import assert_frame_equal

_CLOSE = 1e-9  # sums of floats depend on the order in which threads add them


@dataclass
class Renames:
    """Old names and their new ones; a row without a query is about all of them."""

    queries: dict[str, str] = field(default_factory=dict)
    columns: dict[tuple[str, str], str] = field(default_factory=dict)
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    arguments: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Renames:
        """Read the list."""
        found = cls()
        with path.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if row["kind"] == "query":
                    found.queries[row["old"]] = row["new"]
                else:
                    named = {"column": found.columns, "value": found.values, "argument": found.arguments}[row["kind"]]
                    named[row["query"], row["old"]] = row["new"]
        return found

    def of_query(self, words: str) -> str:
        """The name of a file of frames, after the renames."""
        prefix, name = ("table ", words.removeprefix("table ")) if words.startswith("table ") else ("", words)
        query, _, rest = name.partition(" ")
        for (where, old), new in self.arguments.items():
            if where in ("", query):
                rest = " ".join(new if word == old else word for word in rest.split(" "))
        return prefix + f"{self.queries.get(query, query)} {rest}".strip()

    def applied(self, query: str, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame of the state before, with the names of the state after."""
        values = {old: new for (where, old), new in self.values.items() if where in ("", query)}
        if values:
            texts = [name for name, kind in frame.schema.items() if kind == pl.String]
            frame = frame.with_columns(pl.col(name).replace(values) for name in texts)
        columns = {old: new for (where, old), new in self.columns.items() if where in ("", query)}
        return frame.rename({old: new for old, new in columns.items() if old in frame.columns})


def compare(before: Path, after: Path, renames: Renames, only_traces: str = "", only: str = "") -> int:
    """Print what differs; 1 if anything does, else 0."""
    differing: dict[str, list[str]] = defaultdict(list)
    count = 0
    for trace in sorted(folder.name for folder in before.iterdir() if only_traces in folder.name):
        there = {file.name for file in (after / trace).iterdir()} if (after / trace).is_dir() else set()
        for file in sorted((before / trace).iterdir()):
            words = file.name.removesuffix(file.suffix)
            if only not in words:
                continue
            count += 1
            name = renames.of_query(words) + file.suffix
            query = words.removeprefix("table ").partition(" ")[0]
            if name not in there:
                differing[f"{query}: no frame"].append(f"{trace}/{name}")
            elif file.suffix == ".parquet":
                old = renames.applied(query, pl.read_parquet(file))
                if problem := difference(old, pl.read_parquet(after / trace / name), words.startswith("table ")):
                    differing[f"{query}: {problem}"].append(f"{trace}/{name}")
            there.discard(name)
        for name in sorted(there):
            if only in name:
                differing["new frame"].append(f"{trace}/{name}")
    for problem, where in sorted(differing.items(), key=lambda each: -len(each[1])):
        print(f"{len(where):4} × {problem}\n       {', '.join(where[:3])}")
    print(f"{count:,} frames, {sum(map(len, differing.values())):,} differ")
    return 1 if differing or not count else 0


def difference(old: pl.DataFrame, new: pl.DataFrame, is_table: bool) -> str:
    """What differs, in one line; empty if nothing does. Rows of a table have no order, and columns of none matter."""
    if missing := [name for name in old.columns if name not in new.columns]:
        return f"without column {', '.join(missing)}"
    if more := [name for name in new.columns if name not in old.columns]:
        return f"new column {', '.join(more)}"
    if is_table:
        plain = [name for name, kind in old.schema.items() if not kind.is_nested()]
        old, new = old.select(plain).sort(plain), new.select(plain).sort(plain)
    try:
        assert_frame_equal(old, new, check_column_order=not is_table, rel_tol=_CLOSE, abs_tol=0)
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""
