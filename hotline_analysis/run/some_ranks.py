"""Questions about all ranks of a large job, asked of some at a time, so that memory does not grow with the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from hotline_analysis import catalog
from hotline_analysis.schema import TABLES

# Of 1,024 ranks of 40,000 events, `step_time_breakdown` takes 198 s of CPU and 8.6 GB when asked of all together, 74 s
# and 1.0 GB with 64 ranks at a time, and 58 s and 0.5 GB with 16; but `temporal_breakdown` 17, 9 and 13 s.
_EVENTS_AT_A_TIME = 2_500_000


def groups_of_ranks(parts: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """The first and the last of ranks that are asked together: a rank, or several with not too many events."""
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
    """Let a connection see only the ranks from `first` to `last` in tables and views that its database has already."""
    shown: set[str] = set()

    def show(names: Sequence[str]) -> None:
        for name in names:
            if name in shown or name not in TABLES:
                continue
            shown.add(name)
            if TABLES[name].kind != "view":
                connection.execute(
                    f"create temp view {name} as from memory.main.{name} where rank between {first} and {last}"
                )
                continue
            view = catalog.get(name)
            show(view.tables)
            for each in (*view.steps, view):
                kind = "table" if each.is_kept else "view"
                connection.execute(catalog.parsed(connection, f"create temp {kind} {each.name} as {each.sql}"))

    show(names)
