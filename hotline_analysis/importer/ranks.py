"""Decide which parts of an import are ranks, and assign the rank numbers.

A declared rank keeps its number. A process without a rank, GPU work or training is listed as a process of the job, not
as a rank. Consecutive recordings of one process form one rank. Recordings of different jobs are refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from hotline_analysis.errors import HotlineError
from hotline_analysis.importer import regroup
from hotline_analysis.importer.identity import COORDINATES, is_one_program
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.tables import save_table
from hotline_analysis.schema import TABLES
from hotline_analysis.text.formats import listed

Part = dict[str, Any]
_NAMED = 4  # number of files named in a sentence
# One year. Processes run for weeks; larger gaps come from damaged times.
_LONGEST_PAUSE_NS = 365 * 86_400 * 10**9
INSIST = "--rank-from-order"


def settle(
    parts: Sequence[Part], folder: Path, options: Options, on_progress: Progress | None, *, from_order: bool
) -> tuple[list[Part], list[Part]]:
    """Return the parts that are ranks, and the other processes with their names and event counts.

    Raises `HotlineError` for recordings of different jobs. With `from_order`, each part becomes a rank in order
    instead.
    """
    other_processes: list[Part] = []
    split_parts: list[Part] = []
    for part in parts:
        pieces = regroup.split(part, folder, options, on_progress) if part.pop("is_several", False) else [part]
        for piece in pieces:
            other_processes += piece.pop("others", [])
        split_parts += pieces
    split_parts = _without_merged(split_parts)
    if from_order:
        for rank, part in enumerate(split_parts):
            _number(part, rank, "order")
        return split_parts, other_processes
    ranks, processes = _working(split_parts)
    for part in processes:
        other_processes.append({"name": part["file"], "event_count": part["event_count"]})
        shutil.rmtree(part["folder"], ignore_errors=True)
    _number_by_coordinates(ranks)
    ranks = _one_after_the_other(ranks, lambda some, cuts: regroup.joined(some, cuts, folder, options, on_progress))
    _refuse_strangers(ranks)
    return ranks, other_processes


def _without_merged(parts: Sequence[Part]) -> list[Part]:
    """Drop the parts of a merged file whose ranks also have their own files, as written by SGLang."""
    merged_parts = [part for part in parts if part.get("rank_source") == "process" and _has_place(_places(part))]
    single_parts = [part for part in parts if part.get("rank_source") != "process"]
    if not merged_parts or not {_places(part) for part in merged_parts} <= {_places(part) for part in single_parts}:
        return list(parts)
    for part in merged_parts:
        shutil.rmtree(part["folder"], ignore_errors=True)
    names = listed(list(dict.fromkeys(part["file"] for part in merged_parts)))
    single_parts[0]["notes"] = [*single_parts[0]["notes"], f"{names} contains the ranks of other files and is left out"]
    return [part for part in parts if part not in merged_parts]


def _places(part: Part) -> tuple[int | None, ...]:
    """Return the parallel-group coordinates of a part."""
    return tuple(part.get(name) for name in COORDINATES)


def _working(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Split the parts into ranks, which declare a rank or do work, and other processes. At least one part is a rank."""
    ranks: list[Part] = []
    processes: list[Part] = []
    for part in parts:
        is_rank = _is_declared(part) or _identity(part).get("is_working", True)
        (ranks if is_rank else processes).append(part)
    return (ranks, processes) if ranks else (list(parts), [])


def _is_declared(part: Part) -> bool:
    return part.get("rank_source") != "default"


def _identity(part: Part) -> dict[str, Any]:
    return part.get("identity") or {}


def _number_by_coordinates(parts: Sequence[Part]) -> None:
    """Number the parts by their parallel-group coordinates, if all have unique coordinates and none declares a rank."""
    coordinates = [_places(part) for part in parts]
    if (
        any(map(_is_declared, parts))
        or len(set(coordinates)) < len(coordinates)
        or not all(map(_has_place, coordinates))
    ):
        return
    in_order = sorted(parts, key=lambda part: [part.get(name) or 0 for name in ("pp", "dp", "tp", "ep")])
    if len(parts) == 1:  # the job's other files are missing
        values = [part[name] for part in parts for name in COORDINATES if part.get(name) is not None]
        if len(values) == 1:
            _number(parts[0], values[0], "coordinates")
        return
    for rank, part in enumerate(in_order):
        _number(part, rank, "coordinates")


def _number(part: Part, rank: int, source: str) -> None:
    """Set the rank of a part, also in its tables."""
    part |= {"rank": rank, "rank_source": source}
    file = Path(part["folder"]) / "rank_info.parquet"
    row = pl.read_parquet(file, hive_partitioning=False, glob=False).with_columns(rank_source=pl.lit(source))
    save_table(row.to_arrow().cast(TABLES["rank_info"].arrow), "rank_info", file.parent)


def _has_place(places: Sequence[int | None]) -> bool:
    """Return whether any coordinate is known."""
    return any(number is not None for number in places)


def _one_after_the_other(parts: Sequence[Part], join: Callable[[Sequence[Part], Sequence[int]], Part]) -> list[Part]:
    """Join the parts that are recordings of one process, and return all parts.

    The time between two recordings is cut out. Ranks with equally many recordings lose equally much time: the shortest
    of their pauses. So their clocks keep their relative offsets.
    """
    groups: dict[tuple[Any, ...], list[Part]] = {}
    for part in parts:
        key = (part["rank"], part.get("rank_source"), *_identity(part).get("pids", ()))
        groups.setdefault(key, []).append(part)
    chains: list[list[Part]] = []
    for group in groups.values():
        open_chains: list[list[Part]] = []
        for part in sorted(group, key=lambda part: _begin_ns(part) or 0):
            chain = next((chain for chain in open_chains if _follows(chain[-1], part)), None)
            if chain is None:
                open_chains.append([part])
            else:
                chain.append(part)
        chains += open_chains
    pauses = {
        count: [min(_pause_ns(chain, number) for chain in chains if len(chain) == count) for number in range(1, count)]
        for count in {len(chain) for chain in chains}
    }
    result = []
    for chain in chains:
        result.append(chain[0] if len(chain) == 1 else join(chain, pauses[len(chain)]))
        if len(chain) > 1:
            for part in chain:
                shutil.rmtree(part["folder"], ignore_errors=True)
    return result


def _pause_ns(chain: Sequence[Part], number: int) -> int:
    """Return the time between a recording and the previous recording."""
    return (_begin_ns(chain[number]) or 0) - (_end_ns(chain[number - 1]) or 0)


def _begin_ns(part: Part) -> int | None:
    identity = _identity(part)
    return None if identity.get("start_ns") is None else identity["start_ns"] + (identity["base_ns"] or 0)


def _end_ns(part: Part) -> int | None:
    identity = _identity(part)
    return None if identity.get("end_ns") is None else identity["end_ns"] + (identity["base_ns"] or 0)


def _follows(one: Part, other: Part) -> bool:
    """Return whether the second recording is a later recording of the same process."""
    first, second = _identity(one), _identity(other)
    if not first.get("pids") or not first["is_working"] or not second["is_working"]:
        return False
    if (first["base_ns"] is None) != (second["base_ns"] is None) or first["worker"] != second["worker"]:
        return False
    end, begin = _end_ns(one), _begin_ns(other)
    is_later = end is not None and begin is not None and 0 <= begin - end < _LONGEST_PAUSE_NS
    return is_later and is_one_program(first["program"], second["program"])


def _refuse_strangers(parts: Sequence[Part]) -> None:
    """Raise `HotlineError` if parts with the same rank are of different programs, or of different runs of a program."""
    claims: dict[int, list[Part]] = {}
    for part in parts:
        claims.setdefault(part["rank"], []).append(part)
    for rank, group in claims.items():
        first = group[0]
        for other in group[1:]:
            reason = _strange(first, other)
            if reason:
                files = [part["file"] for part in group]
                names = listed(files[:_NAMED] if len(files) <= _NAMED else [*files[:_NAMED], "others"])
                claim = f"each would be rank {rank}" if not any(map(_is_declared, group)) else f"each is rank {rank}"
                raise HotlineError(
                    f"{names} are recordings of {reason}, but {claim}: these files are not the ranks of one job",
                    hint="Name the files of one job. `hotline diff A B` compares two recordings."
                    f" {INSIST} makes each file a rank, in order.",
                )


def _strange(one: Part, other: Part) -> str:
    """Return the reason why two parts cannot be ranks of one job; empty if they can."""
    first, second = _identity(one), _identity(other)
    if not first or not second:
        return ""
    if not is_one_program(first["program"], second["program"]):
        return "different programs"
    if first["base_ns"] is None or second["base_ns"] is None:
        return ""
    spans = [(_begin_ns(part), _end_ns(part)) for part in (one, other)]
    (begin, end), (other_begin, other_end) = spans
    if None in (begin, end, other_begin, other_end):
        return ""
    is_apart = end <= other_begin or other_end <= begin  # type: ignore[operator]
    return "processes that ran one after the other" if is_apart else ""
