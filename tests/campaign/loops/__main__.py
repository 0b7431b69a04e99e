"""The command line of the campaign of loops; see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from tests.campaign.loops.compared import disagreements
from tests.campaign.loops.pairs import Judged, judged
from tests.campaign.loops.plan import plan

Found = TypeVar("Found")
_SEEDS = 1_000_000  # the seeds of a campaign start at so much times its own
_FALSE_ALARMS_PCT = 1.0


def check_loop(seed: int) -> list[str]:
    """Everything that is wrong about the loop of a seed."""
    return _tried(lambda folder: disagreements(plan(seed), folder))


def check_pair(seed: int) -> list[Judged | str]:
    """The verdicts about the pairs of a seed, or an error."""
    return _tried(lambda folder: judged(seed, folder))


def _tried(ask: Callable[[Path], list[Found]]) -> list[Found | str]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return [*ask(Path(folder))]
        except Exception as error:  # whatever goes wrong is a finding
            return ["".join(traceback.format_exception(error)[-3:])]


def check_pairs(seeds: Sequence[int], jobs: int) -> bool:
    """Ask the gate about pairs, print each wrong verdict, and say whether there are too many."""
    verdicts: list[Judged] = []
    wrong = 0
    with ProcessPoolExecutor(jobs) as pool:
        for seed, found in zip(seeds, pool.map(check_pair, seeds), strict=True):
            for each in found:
                if isinstance(each, str):
                    print(f"pair {seed}: {each}", flush=True)
                    wrong += 1
                    continue
                verdicts.append(each)
                if each.is_wrong or each.is_false_alarm:
                    wrong += each.is_wrong
                    expected = " or ".join(sorted(each.right))
                    print(f"pair {seed} ({each.way or 'equal'}), right is {expected}: {each.statement}", flush=True)
    alarms = sum(each.is_false_alarm for each in verdicts)
    counts = Counter((each.way or "equal", each.answer) for each in verdicts)
    for (way, answer), number in sorted(counts.items()):
        print(f"{way}: {number} {answer}")
    equal = sum(not each.is_slower for each in verdicts)
    print(f"{equal} pairs of equal programs, {alarms} false alarms; {wrong} wrong verdicts")
    return wrong > 0 or alarms > _FALSE_ALARMS_PCT / 100 * equal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; the exit status says whether there was a disagreement."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.loops", description=__doc__)
    parser.add_argument("--loops", type=int, default=500, help="how many loops")
    parser.add_argument("--pairs", type=int, default=200, help="how many pairs of equal, and of slower programs")
    parser.add_argument("--seed", type=int, default=1, help="of the campaign; its loops have seeds of their own")
    parser.add_argument("--jobs", type=int, default=1, help="loops at a time")
    parser.add_argument("--loop", type=int, action="append", help="only the loop of this seed; repeatable")
    parser.add_argument("--pair", type=int, action="append", help="only the pairs of this seed; repeatable")
    given = parser.parse_args(arguments)
    first = _SEEDS * given.seed
    only = bool(given.loop or given.pair)
    loops = given.loop or ([] if only else range(first, first + given.loops))
    pairs = given.pair or ([] if only else range(first, first + given.pairs))
    wrong = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for seed, found in zip(loops, pool.map(check_loop, loops), strict=True):
            wrong += bool(found)
            for text in found:
                print(f"loop {seed}: {text}", flush=True)
    print(f"{len(loops)} loops, {wrong} with a disagreement", flush=True)
    too_many = check_pairs(pairs, given.jobs) if pairs else False
    return int(wrong > 0 or too_many)


if __name__ == "__main__":
    sys.exit(main())
