"""Make the traces of a large job out of that of one real rank, to measure how the package grows with ranks.

    python tests/benchmarks/fleet.py rank0.json.gz job/ --ranks 64 --slow 17 --missing 5
    python tests/benchmarks/fleet.py --tiny job/ --ranks 1024 --slow 417 --groups 8

Each rank is the given one with a clock of its own (normally distributed, 2 ms apart), and with times stretched and
squeezed between its collectives: each ends at one time on all ranks, and starts up to 30 % of its duration, or of the
time since the one before, earlier or later. So what lies in another event stays there, and the order stays. The slow
rank comes to each collective when a fifth of it is left. With `--groups N`, every second collective is of a group of N
neighbours, the others of those that have the same place among their neighbours. With `--slow-link P` as well, those of
the ranks in place P take 2.5 times as long, and their neighbours wait for these ranks in the next collective. `--tiny`
takes a rank of a few hundred events instead of a trace.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.trace_builder import TraceBuilder

Trace = dict[str, Any]
CLOCK_US = 2000.0  # standard deviation of the clocks
JITTER = 0.3
LATE = 0.8  # of the duration of a collective, how late the slow rank comes
SLOW_LINK = 2.5  # how many times as long a collective takes over the slow link
COLLECTIVE = ("nccl", "rccl")


def tiny(steps: int = 2, layers: int = 20) -> Trace:
    """One rank of a job that trains data parallel: so many layers and four all-reduces in each step."""
    built = TraceBuilder(rank=0, world_size=1)
    args: dict[str, Any] = {
        "Collective name": "allreduce",
        "dtype": "Float",
        "In msg nelems": 1_000_000,
        "Out msg nelems": 1_000_000,
        "Process Group Name": "0",
    }
    for step in range(steps):
        start = 20_000 * step
        built.step(step, start, start + 20_000).module("Net", 0, start + 5, start + 19_000)
        at = start + 100
        for layer in range(layers):
            built.op("aten::mm", at, at + 40).launches("gemm", at + 20, at + 700, at=at + 5, until=at + 12)
            at += 800
            if layer % (layers // 4) == layers // 4 - 1:
                built.op("c10d::allreduce_", at - 60, at - 40).launches(
                    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                    at - 30,
                    at + 700,
                    at=at - 58,
                    until=at - 52,
                    stream=9,
                    **args,
                )
                at += 900
    with tempfile.TemporaryDirectory() as folder:
        return read(built.write(Path(folder) / "rank0.json"))


def read(file: Path) -> Trace:
    """The trace that a file holds."""
    content = file.read_bytes()
    return dict(json.loads(gzip.decompress(content) if file.suffix == ".gz" else content))


def write_fleet(
    trace: Trace,
    folder: Path,
    ranks: int,
    *,
    slow: int | None = None,
    missing: Collection[int] = (),
    group: int | None = None,
    slow_link: int | None = None,
    seed: int = 0,
) -> list[Path]:
    """Write a file for each rank of a job of so many, but for those that are missing; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    events = [event for event in trace["traceEvents"] if isinstance(event.get("ts"), int | float)]
    starts = np.array([event["ts"] for event in events], dtype=np.float64)
    ends = starts + np.array([event.get("dur") or 0.0 for event in events], dtype=np.float64)
    calls = _collectives(events)
    numbers = _numbers(events, calls)
    files = []
    for rank in range(ranks):
        if rank in missing:
            continue
        random_of = random.Random(f"{seed} {rank}")
        clock = random_of.gauss(0, CLOCK_US) if rank else 0.0
        over_slow_link = [group is not None and slow_link is not None and number % 2 == 0 for number in numbers]
        before, after = _knots(
            calls,
            random_of,
            is_slow=rank == slow,
            over_slow_link=over_slow_link,
            is_linked=group is not None and rank % group == slow_link,
        )
        moved = np.stack([_warped(starts, before, after), _warped(ends, before, after)])
        first, last = np.round(moved + clock, 3)
        own = copy.copy(trace)
        own["traceEvents"] = [event for event in trace["traceEvents"] if not isinstance(event.get("ts"), int | float)]
        own["distributedInfo"] = _distributed(trace, rank, ranks, group)
        number = 0
        for event, start, end in zip(events, first.tolist(), last.tolist(), strict=True):
            made = {**event, "ts": round(start, 3)}
            if "dur" in event:
                made["dur"] = round(end - start, 3)
            if _says(event):
                name, members = _group(number, rank, ranks, group)
                said = f"[{', '.join(map(str, members))}]"
                made["args"] = {
                    **event["args"],
                    "Group size": len(members),
                    "Process Group Name": name,
                    "Process Group Ranks": said,
                }
                number += 1
            own["traceEvents"].append(made)
        file = folder / f"rank{rank:05}.json.gz"
        with gzip.open(file, "wt", compresslevel=1) as opened:
            json.dump(own, opened)
        files.append(file)
    return files


def _says(event: dict[str, Any]) -> bool:
    """Whether an event says which collective it is; those that do are numbered."""
    args = event.get("args")
    return isinstance(args, dict) and "Collective name" in args


def _collectives(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The collectives of a rank, without those that begin before the one before ends."""
    calls: list[dict[str, Any]] = []
    kernels = (event for event in events if event.get("cat") == "kernel")
    found = [event for event in kernels if any(word in event["name"].lower() for word in COLLECTIVE)]
    for event in sorted(found, key=lambda event: float(event["ts"])):
        if event["dur"] > 0 and (not calls or event["ts"] > calls[-1]["ts"] + calls[-1]["dur"]):
            calls.append(event)
    return calls


def _numbers(events: Sequence[dict[str, Any]], calls: Sequence[dict[str, Any]]) -> list[int]:
    """The numbers of some collectives, by which they have their groups; -1 of one that has none."""
    number = {id(event): number for number, event in enumerate(filter(_says, events))}
    return [number.get(id(call), -1) for call in calls]


def _knots(
    calls: Sequence[dict[str, Any]],
    random_of: random.Random,
    *,
    is_slow: bool,
    over_slow_link: Sequence[bool],
    is_linked: bool,
) -> tuple[Sequence[float], Sequence[float]]:
    """Times of the given rank, and what they are on this one, which `is_linked` by the slow link or is not."""
    before: list[float] = []
    after: list[float] = []
    late = 0.0  # by how much the slow link has delayed the job, and, below, this rank
    for call, is_over in zip(calls, over_slow_link, strict=True):
        start, end = float(call["ts"]), float(call["ts"]) + float(call["dur"])
        own = after[-1] - before[-1] if before else 0.0
        room = min(end - start, start - before[-1] if before else end - start)
        moved = LATE * (end - start) if is_slow else random_of.uniform(-JITTER, JITTER) * room
        more = (SLOW_LINK - 1) * (end - start) if is_over else 0.0
        before += [start, end]
        # Others of the groups over the link end in time, and wait for those that it delays in the next collective.
        after += [start + own + moved, end + late + (more if is_linked else 0.0)]
        late += more
    return before, after


def _warped(times: np.ndarray[Any, Any], before: Sequence[float], after: Sequence[float]) -> np.ndarray[Any, Any]:
    if not before:
        return times
    # Before the first collective, all is moved with its start; after the last one, with its end.
    earlier, later = times + (after[0] - before[0]), times + (after[-1] - before[-1])
    return np.where(times < before[0], earlier, np.where(times > before[-1], later, np.interp(times, before, after)))


def _group(number: int, rank: int, ranks: int, group: int | None) -> tuple[str, list[int]]:
    """Name and ranks of the process group of the n-th collective of a rank."""
    if group is None:
        return "0", list(range(ranks))
    if number % 2:
        first = rank - rank % group
        return f"neighbours of {first}", list(range(first, min(first + group, ranks)))
    return f"place {rank % group}", list(range(rank % group, ranks, group))


def _distributed(trace: Trace, rank: int, ranks: int, group: int | None) -> dict[str, Any]:
    given = trace.get("distributedInfo")
    groups = {_group(number, rank, ranks, group)[0]: _group(number, rank, ranks, group)[1] for number in (0, 1)}
    return {
        **(given if isinstance(given, dict) else {}),
        "rank": rank,
        "world_size": ranks,
        "pg_count": len(groups),
        "pg_config": [
            {"pg_name": name, "pg_desc": name, "pg_size": len(members), "ranks": members}
            for name, members in groups.items()
        ],
    }


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="the trace of a rank, and the folder to make")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--slow", type=int)
    parser.add_argument("--missing", type=int, nargs="*", default=[])
    parser.add_argument("--groups", type=int)
    parser.add_argument("--slow-link", type=int)
    given = parser.parse_args()
    if given.slow_link is not None and not given.groups:
        parser.error("--slow-link needs --groups")
    trace = tiny() if given.tiny else read(given.paths[0])
    files = write_fleet(
        trace,
        given.paths[-1],
        given.ranks,
        slow=given.slow,
        missing=given.missing,
        group=given.groups,
        slow_link=given.slow_link,
    )
    print(f"{len(files):,} files, {sum(file.stat().st_size for file in files):,} bytes, in {given.paths[-1]}")


if __name__ == "__main__":
    _main()
