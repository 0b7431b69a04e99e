"""Identify the origin of a file: the rank, its place in parallel groups, the process, and the program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

MAX_RANK = 1_000_000_000
COORDINATES = ("tp", "pp", "dp", "ep")
"""Coordinates of a rank in tensor, pipeline, data and expert parallelism."""

_IN_NAME = re.compile(r"(?<![a-z])rank[-_. ]?(\d{1,9})(?!\d)", re.IGNORECASE)
# SGLang: `-TP-0-DP-1.trace.json.gz`, `[TP00-DP01]`; vLLM: `dp0_pp0_tp1_dcp0_ep1_rank1`.
_COORDINATE = re.compile(r"(?<![a-z])(tp|pp|dp|ep)([-_]?)(\d{1,6})(?!\d)", re.IGNORECASE)
# PyTorch's `tensorboard_trace_handler`: `{host}_{pid}.{time}.pt.trace.json`.
_WORKER = re.compile(r"(.+_\d+)\.\d+\.pt\.trace\.json", re.IGNORECASE)
_LABEL = re.compile(r"\[([^\]]+)\]")
_MOST_NAMES = 200
# Nanoseconds since 1970 are larger: this is September 2001.
_SINCE_1970_NS = 10**18

# Minimum share of common op names in two traces of one program. Ranks of one job share 91 % (two ranks of a training on
# A100), and traces of 15 pairs of different programs below 45 %.
_LIKE = 0.5


def integer(value: object) -> int | None:
    """Return a 64-bit integer; None for other values."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def rank_of(name: str, metadata: Mapping[str, Any]) -> tuple[int, str]:
    """Return the rank of a file, and the source of the rank."""
    distributed = metadata.get("distributedInfo")
    rank = integer(distributed.get("rank")) if isinstance(distributed, dict) else None
    if rank is not None and 0 <= rank < MAX_RANK:
        return rank, "distributedInfo"
    in_name = _IN_NAME.search(name)
    return (int(in_name[1]), "file_name") if in_name else (0, "default")


def coordinates_of(text: str) -> dict[str, int]:
    """Return the parallel-group coordinates in a file name or a process label.

    A single coordinate such as `tp8` can be a group size. It counts only with other coordinates, with a separator, or
    with two digits (`TP-8`, `TP08`).
    """
    matches = {match[1].lower(): match for match in _COORDINATE.finditer(text)}
    if len(matches) == 1:
        (match,) = matches.values()
        is_epoch = match[1].lower() == "ep"
        is_place = bool(match[2]) or len(match[3]) > 1 or int(match[3]) == 0
        if is_epoch or not is_place:
            return {}
    return {name: int(matches[name][3]) for name in COORDINATES if name in matches}


def label_order(label: str) -> tuple[tuple[int, ...], int, str]:
    """Return the sort key of processes in a file: coordinates first, then the number."""
    coordinates = coordinates_of(label)
    number = integer(label)
    return (
        tuple(coordinates.get(name, 0) for name in ("pp", "dp", "tp", "ep")),
        number if number is not None else MAX_RANK,
        label,
    )


def identity_of(connection: duckdb.DuckDBPyConnection, name: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts for deciding whether recordings belong to one process, one job or different programs.

    `info` is the row of `rank_info`; `track`, `event` and `process_track` are tables of the database. The result is
    plain JSON.
    """
    is_working, pids = connection.execute(
        "select coalesce(sum(launch_count) + sum(gpu_count) + sum(training_count), 0) > 0,"
        " list(distinct process order by process) from process_track"
    ).fetchall()[0]
    base = info["base_time_ns"]
    start, end = info["start_ns"], info["end_ns"]
    if base is None and start is not None and start > _SINCE_1970_NS:
        base = 0
    worker = _WORKER.match(name)
    return {
        "is_working": is_working,
        "pids": [pid for pid in pids or [] if pid is not None],
        "worker": worker[1] if worker else None,
        "program": _program(connection),
        "base_ns": base,
        "start_ns": start,
        "end_ns": end,
    }


def _program(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the most frequent op names; without ops, the most frequent kernel or function names."""
    for category in ("cpu_op", "kernel", "python_function"):
        rows = connection.execute(
            "select name from event where category = ? group by name order by count(*) desc, name limit ?",
            [category, _MOST_NAMES],
        ).fetchall()
        if rows:
            return [category, *(row[0] for row in rows)]
    return []


def is_one_program(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two traces are of one program, by their names. Without names, the answer is True."""
    if not one or not other:
        return True
    names, other_names = set(one), set(other)
    return len(names & other_names) >= _LIKE * len(names | other_names)


def labels_of(pids: Sequence[str]) -> str:
    """Return the labels before process ids, as one text."""
    return " ".join(match[1] for match in map(_LABEL.match, pids) if match)
