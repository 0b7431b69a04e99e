"""A few cases of the campaign (see docs/robustness.md), and that its oracles can tell."""

import copy
import os
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests.campaign import bases, exports, mutations, reading
from tests.campaign.cases import case, untouched
from tests.campaign.draft import Draft

pytestmark = pytest.mark.traces(replaced=True)

ROOT = Path(__file__).parents[1]
# Of the generated traces.
SEEDS = [7_000_000 + number for number in (1, 4, 7)]


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "HOTLINE_TRACES"}
    return subprocess.run(
        [sys.executable, "-m", "tests.campaign", "--generated", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")
def test_a_few_cases_end_without_a_finding() -> None:
    done = campaign(*(f"--case={seed}" for seed in SEEDS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"| cases | {len(SEEDS)} |" in done.stdout


def test_a_seed_is_one_case() -> None:
    for seed in (5, 6, 7):
        assert case(seed, bases.GENERATED) == case(seed, bases.GENERATED)
        assert case(seed, bases.GENERATED).content() == case(seed, bases.GENERATED).content()
    assert len({case(seed).classes for seed in range(50)}) > 40


@pytest.mark.parametrize("name", mutations.STRUCTURE)
def test_every_class_changes_the_trace(name: str) -> None:
    original = bases.base("all_kinds")
    texts = set()
    for seed in range(4):
        draft = Draft(copy.deepcopy(original.top), copy.deepcopy(original.events))
        mutations.STRUCTURE[name](random.Random(seed), draft)
        texts.add(draft.text())
    assert texts - {original.text()}


def test_every_class_is_drawn() -> None:
    drawn = {name for seed in range(400) for name in case(seed).classes}
    assert drawn == {*mutations.STRUCTURE, *mutations.TEXT, *mutations.FILE, *exports.EXPORT, *exports.BYTES}


# --- the independent reading: it has to know what it compares with ---------------------------------------------------

TWO = '{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}, 5, {"name": "b"}], "more": 1}'


def test_a_valid_file_is_read_by_position() -> None:
    found = reading.read(TWO.encode())
    assert found.is_whole
    assert {place: event["name"] for place, event in found.events.items()} == {0: "a", 2: "b"}
    assert found.foreign_count == 1


def test_what_is_behind_damage_is_read() -> None:
    found = reading.read(b'{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", ?}, {"args": {}, "ph": "i"}')
    assert not found.is_whole
    assert [event.get("name") for event in found.events.values()] == ["a", None]


@pytest.mark.parametrize(("opening", "closing"), [('{"a": ', "}"), ("[", "]")])
def test_what_nests_deeply_is_no_damage(opening: str, closing: str) -> None:
    """Python's own parser refuses it, and the importer does not."""
    for depth in (250, 900, 20_000):
        deep = opening * depth + '"]}"' + closing * depth
        events = f'[{{"ph": "X", "args": {{"b": {deep}, "c": {deep}}}, "name": "a"}}, {{"ph": "i", "name": "b"}}]'
        found = reading.read(events.encode())
        assert found.is_whole
        assert [event["name"] for event in found.events.values()] == ["a", "b"]
        assert reading._whole(events.replace('"]}"', '"]}"?', 1)) is None
        assert reading._whole(events.replace(closing * depth, closing * (depth - 1))) is None


def test_commas_with_nothing_between_them_hide_no_event() -> None:
    found = reading.read(b'[{"ph": "X", "name": "a,,\\",,"},,\n , {"ph": "X"}]')
    assert (found.is_whole, found.has_extra_commas) == (False, True)
    assert [event.get("name") for event in found.events.values()] == ['a,,",,', None]
    assert not reading.read(b'[{"ph": "X",,}, {"ph": "X"}').has_extra_commas


def test_the_first_of_doubled_keys_counts() -> None:
    found = reading.read(b'[{"ph": "X", "ts": 1, "ts": 2}]')
    assert found.events[0]["ts"] == 1


def test_begins_and_ends_are_paired_like_brackets() -> None:
    edges = [("B", 0), ("B", 10), ("E", 30), ("E", 50), ("E", 60), ("B", 70)]
    events = {place: {"ph": ph, "ts": at, "tid": 1} for place, (ph, at) in enumerate(edges)}
    assert reading.times(events) == {0: (Decimal(0), Decimal(50_000)), 1: (Decimal(10_000), Decimal(20_000))}


def test_gpu_work_that_counts() -> None:
    def kernel(**changes: object) -> dict[str, object]:
        return {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, **changes}

    events = {
        0: kernel(),
        1: kernel(ph="i"),
        2: kernel(ts=None),
        3: kernel(dur="x"),
        4: kernel(cat="Memcpy", dur="2.5"),
    }
    events |= {5: kernel(cat="cpu_op"), 6: kernel(dur=-1), 7: kernel(ts=True)}
    assert {place: int(work.dur) for place, work in reading.gpu_work(events).items()} == {0: 2000, 4: 2500}


def test_changed_times_are_those_that_count() -> None:
    """A zero needs no change; a kernel may be cut, but not made longer, and only GPU work may move."""
    events = {number: {"ph": "X", "cat": "kernel", "name": "k", "ts": number, "dur": number} for number in range(4)}
    cut = {2: reading.Change("overlap", Decimal(2000), Decimal(500))}
    found = {place: (int(start), int(dur)) for place, (start, dur) in reading.times(events, cut).items()}
    assert found == {1: (1000, 1000), 2: (2000, 500), 3: (3000, 3000)}
    assert not reading.faults(events, cut)
    assert reading.faults(events, {2: reading.Change("overlap", Decimal(2000), Decimal(5000))})
    assert reading.faults(
        {5: {**events[3], "cat": "cpu_op"}}, {5: reading.Change("other_clock", Decimal(1), Decimal(1))}
    )
    assert reading.faults(events, {3: reading.Change("zero_time", Decimal(3000), None)})


def test_a_union_counts_overlaps_once() -> None:
    intervals = [(Decimal(begin), Decimal(end)) for begin, end in ((0, 10), (5, 12), (12, 13), (20, 30))]
    assert reading.union(intervals) == 23


def test_untouched_cases_are_the_traces() -> None:
    found = reading.read(untouched("training").content())
    assert found.is_whole
    assert len(found.events) == len(bases.base("training").events)
