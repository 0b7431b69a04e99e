"""Blocks of memory against a snapshot of PyTorch's allocator, of the same run (`capture.py --memory-snapshot`).

    python tests/benchmarks/bench_snapshot.py FOLDER

For each `NAME.json` that has a `NAME.snapshot.pickle` beside it: at the moment at which most memory is allocated, which
blocks are alive by `memory_block`, and which by the allocator's own history. Nothing here passes or fails.

A snapshot has the bytes that were asked for. A trace has those of the block, which the allocator rounds up to 512, and
does not split where no more than 1 MiB would be left of a large one (c10/cuda/CUDACachingAllocator.cpp).
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import hotline_analysis as ha

_ROUNDED = 512
_UNSPLIT = 1 << 20


class _PlainUnpickler(pickle.Unpickler):
    """Reads what holds plain values alone; a snapshot that names a class or function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the snapshot names {module}.{name}")


def alive_by_snapshot(path: Path, event_count: int, peak: int) -> dict[int, tuple[int, bool]]:
    """Blocks that are alive at an event, counted from 1, of the last ones, which the trace has, too.

    By address: the bytes, and whether they are older than these events.
    """
    with path.open("rb") as file:
        history = _PlainUnpickler(file).load()["device_traces"][0]
    history = [event for event in history if event["action"] in ("alloc", "free_completed")]
    first = len(history) - event_count
    alive: dict[int, tuple[int, bool]] = {}
    for place, event in enumerate(history[: first + peak]):
        if event["action"] == "alloc":
            alive[event["addr"]] = -(-event["size"] // _ROUNDED) * _ROUNDED, place < first
        else:
            alive.pop(event["addr"], None)
    return alive


def alive_by_trace(trace: ha.Trace) -> tuple[int, int, dict[int, int]]:
    """How many changes of the GPU's memory there are, which is at the peak, and the blocks of the trace alive then."""
    count, peak, at = trace.sql(
        "select count(*), arg_max(place, allocated_bytes), arg_max(start_ns, allocated_bytes) from"
        " (select *, row_number() over (order by start_ns, event_id) as place from memory_change"
        " where device_type = 'cuda')"
    ).row(0)
    blocks = trace.sql(
        "select address, bytes from memory_block where device_type = 'cuda' and start_ns <= $at"
        " and coalesce(end_ns > $at, true)",
        at=at,
    )
    return count, peak, dict(blocks.rows())


def main() -> None:
    """Print a row for each pair of files."""
    parser = argparse.ArgumentParser(description="Compare blocks of memory with snapshots of the allocator.")
    parser.add_argument("folder", type=Path)
    print(f"{'trace':32} {'blocks':>7} {'same':>5} {'larger':>7} {'gone':>5} {'missing':>8} {'older':>6}")
    for snapshot in sorted(parser.parse_args().folder.glob("*.snapshot.pickle")):
        name = snapshot.name.removesuffix(".snapshot.pickle")
        with ha.load(snapshot.with_name(f"{name}.json")) as trace:
            count, peak, ours = alive_by_trace(trace)
        theirs = alive_by_snapshot(snapshot, count, peak)
        both = [(nbytes, theirs[address][0]) for address, nbytes in ours.items() if address in theirs]
        same = sum(nbytes == asked for nbytes, asked in both)
        larger = sum(asked < nbytes <= asked + _UNSPLIT for nbytes, asked in both)
        missing = sum(not is_older and address not in ours for address, (_, is_older) in theirs.items())
        older = sum(is_older for _, is_older in theirs.values())
        print(f"{name:32} {len(ours):7} {same:5} {larger:7} {len(ours) - len(both):5} {missing:8} {older:6}")


if __name__ == "__main__":
    main()
