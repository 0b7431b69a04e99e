"""Which cases of a test `make test-kinds` runs, if the test has many: four, one seed, or one real trace of each kind.

The kinds of a real trace are the words of `_WORDS` that the file holds or lacks. Of the traces that a test goes over,
`make test-kinds` runs the smallest ones that together are of every kind. Of cases that differ only in their argument
`seed`, which draws the same kind of input again, it runs the first. Of other cases it runs the first and three more at
equal distances, and of a test marked `sampled` only the first, unless the test has more than sixteen cases, or the
smallest of these traces, with GPU work if any has. All cases of a query run, since a broken query shows nowhere else.
`make test-all` runs everything.

`make test` runs a sample of these, in minutes: of each module the first test that is not marked `slow`, with one case.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from hotline_analysis.catalog import Query
from tests.runs import SESSION

_MOST_CASES = 4  # cases of a test that goes over neither traces nor queries
_FEW_CASES = 16  # cases of a sampled test of which the first represents all

# What makes a difference to the tables of a trace, and how its file tells.
_WORDS: Mapping[str, Sequence[bytes]] = {
    "GPU work": (b'"kernel"', b'"Kernel"'),
    "CPU ops": (b'"cpu_op"', b'"Operator"'),
    "modules": (b"nn.Module: ",),
    "frames": (b'"python_function"', b'"Python function"'),
    "backward": (b"Backward0", b"autograd::engine"),
    "steps": (b"ProfilerStep#",),
    "shapes": (b'"Input Dims"', b'"Input dims"'),
    "allocations": (b'"[memory]"',),
    "graphs": (b"GraphLaunch",),
    "collectives": (b"nccl", b"rccl"),
    "compiled": (b"Torch-Compiled Region", b"CompiledFunction", b"triton_poi"),
    "counters": (b'"cuda_profiler_range"',),
}
# Kinds that are so common that each of them has the other as well as not.
_BOTH = (("modules", "backward"), ("GPU work", "backward"), ("frames", "steps"))
Kinds = frozenset[tuple[str, bool]]
_NAME = re.compile(r"[\w./-]{1,100}")


@cache
def of_file(file: Path) -> Kinds:
    """Of each word, and each pair, whether the file has it; and whether it is one of several ranks."""
    with gzip.open(file) as stream:
        text = stream.read()
    has = {kind: any(word in text for word in words) for kind, words in _WORDS.items()}
    has |= {f"{one} and {other}": has[one] and has[other] for one, other in _BOTH}
    has["other ranks"] = len(list(file.parent.glob("*rank*.json.gz"))) > 1 and "rank" in file.name
    return frozenset(has.items())


def of_files(files: Iterable[Path]) -> dict[Path, Kinds]:
    """The kinds of each file. To read them takes seconds: of the processes of a test session, one does."""
    files = sorted(files)
    if SESSION not in os.environ:
        return {file: of_file(file) for file in files}
    store = Path(os.environ[SESSION]) / "kinds.json"
    with store.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = json.loads(store.read_text()) if store.exists() else {}
        for file in files:
            if str(file) not in known:
                known[str(file)] = sorted(of_file(file))
        store.write_text(json.dumps(known))
    return {file: frozenset((kind, has) for kind, has in known[str(file)]) for file in files}


def smallest_of_each(files: Mapping[Path, Kinds], sizes: Mapping[Path, int]) -> set[Path]:
    """Files that together are of every kind that any of them is of, small ones first."""
    seen: set[tuple[str, bool]] = set()
    chosen = set()
    for file in sorted(files, key=lambda file: (sizes[file], str(file))):
        if files[file] - seen:
            chosen.add(file)
            seen |= files[file]
    # What a later one has as well needs no case of its own.
    for file in sorted(chosen, key=lambda file: (-sizes[file], str(file))):
        if files[file] <= frozenset().union(*(files[other] for other in chosen - {file})):
            chosen.remove(file)
    return chosen


def traces_in(parameters: Iterable[object], folder: Path) -> list[Path]:
    """The real traces that the arguments of a case name: by a path, or by a name in the folder of all."""
    found: list[Path] = []
    for each in parameters:
        if isinstance(each, Path):
            places = [each]
        elif isinstance(each, str) and _NAME.fullmatch(each):
            places = [folder / each, folder / f"{each}.json.gz"]
        else:
            continue
        for place in places:
            if place.is_relative_to(folder) and ".." not in place.parts:
                files = sorted(place.iterdir()) if place.is_dir() else [place]
                found += [file for file in files if file.name.endswith(".json.gz") and file.is_file()]
    return found


def left_out(items: Sequence[pytest.Item], folder: Path | None) -> list[pytest.Item]:
    """The cases that `make test-kinds` does not run; `folder` holds the real traces."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    left: list[pytest.Item] = []
    for cases in functions.values():
        is_sampled = bool(cases[0].get_closest_marker("sampled"))
        named = [traces_in(_arguments(item), folder) if folder else [] for item in cases]
        files = {file for each in named for file in each}
        if len(files) > 1:
            kinds, sizes = of_files(files), {file: file.stat().st_size for file in files}
            chosen = smallest_of_each(kinds, sizes)
            if is_sampled:
                chosen = {min(chosen, key=lambda file: (("GPU work", False) in kinds[file], sizes[file], str(file)))}
            left += [item for item, each in zip(cases, named, strict=True) if each and not chosen & set(each)]
        elif not any(isinstance(each, Query) for each in _arguments(cases[0])):
            again = _drawn_again(cases)
            left += again
            cases = [item for item in cases if item not in again]
            chosen_numbers = spread(len(cases), 1 if is_sampled and len(cases) <= _FEW_CASES else _MOST_CASES)
            left += [item for number, item in enumerate(cases) if number not in chosen_numbers]
    return left


def sample(items: Sequence[pytest.Item], left_out: Collection[pytest.Item]) -> list[pytest.Item]:
    """The cases that `make test` runs: the first of each module that is neither left out nor slow."""
    chosen: dict[str, pytest.Item] = {}
    for item in items:
        if item not in left_out and not any(map(item.get_closest_marker, ("long", "slow"))):
            chosen.setdefault(item.nodeid.partition("::")[0], item)
    return list(chosen.values())


def _drawn_again(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases that differ from an earlier one only in the seed of their random input."""
    seen: list[dict[str, object]] = []
    again = []
    for item in cases:
        own = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        if own.pop("seed", None) is None:
            continue
        if own in seen:
            again.append(item)
        else:
            seen.append(own)
    return again


def spread(count: int, most: int) -> set[int]:
    """Return the first of `count` numbers and others at equal distances, at most `most` in all."""
    return {number * count // most for number in range(most)} if count > most else set(range(count))


def of_other_queries(items: Sequence[pytest.Item], names: Sequence[str]) -> list[pytest.Item]:
    """The cases that are of a query, or of several, and of none with one of these names."""
    given = [(item, {each.name for each in _arguments(item) if isinstance(each, Query)}) for item in items]
    return [item for item, own in given if own and not own & set(names)]


def _arguments(item: pytest.Item) -> Iterable[object]:
    return item.callspec.params.values() if hasattr(item, "callspec") else ()
