"""Queries over all ranks of a large job, a few ranks at a time, so that memory does not grow with the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from hotline_analysis import catalog
from hotline_analysis.schema import TABLES

# For 1,024 ranks of 40,000 events, `step_time_breakdown` takes 198 s of CPU and 8.6 GB with all ranks together. It
# takes 74 s and 1.0 GB with 64 ranks at a time, and 58 s and 0.5 GB with 16. `temporal_breakdown` takes 17, 9 and 13 s.
_EVENTS_AT_A_TIME = 2_500_000


def groups_of_ranks(parts: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """First and last rank of each group: a single rank, or several ranks with a limited number of events."""
    groups: list[tuple[int, int]] = []
    count = 0
    for part in sorted(parts, key=lambda part: part["rank"]):
        count += part["event_count"]
        if groups and count <= _EVENTS_AT_A_TIME:
            groups[-1] = (groups[-1][0], part["rank"])
        else:
            groups.append((part["rank"], part["rank"]))
            count = part["event_count"]
    return groups


def show_some(connection: duckdb.DuckDBPyConnection, names: Sequence[str], first: int, last: int) -> None:
    """Restrict a connection to the ranks from `first` to `last` of the existing tables and views."""
    visited: set[str] = set()

    def show(names: Sequence[str]) -> None:
        for name in names:
            if name in visited or name not in TABLES:
                continue
            visited.add(name)
            if TABLES[name].kind != "view":
                connection.execute(
                    f"create temp view {name} as from memory.main.{name} where rank between {first} and {last}"
                )
                continue
            view = catalog.get(name)
            show(view.tables)
            for query in (*view.steps, view):
                kind = "table" if query.is_kept else "view"
                connection.execute(catalog.parsed(connection, f"create temp {kind} {query.name} as {query.sql}"))

    show(names)
