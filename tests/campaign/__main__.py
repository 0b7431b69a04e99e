"""The command line of the campaign; see the package."""

from __future__ import annotations

import argparse
import gc
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

# Threads of a library would not live on in forked processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tests.campaign import bases, children, exports, mutations, reading
from tests.campaign.asking import Asker, Finding
from tests.campaign.cases import Case, case, export_case, untouched

_WARM: tuple[str, ...] = (
    "hotline_analysis.cli",
    "hotline_analysis.charts",
    "hotline_analysis.export",
    "hotline_analysis.reports",
)
_WARM += ("hotline_analysis.importer", "hotline_analysis.capture", "altair", "pyarrow.parquet", "rich.console")
_PLAIN_BYTES = 8 << 30  # addresses of a process that reads in plain Python
_SEEDS = 1_000_000  # the seeds of a campaign's cases start at so much times its own


@dataclass
class Done:
    """A case and what came of it."""

    case: Case
    findings: list[Finding]
    outcome: str
    event_count: int
    missed: int
    seconds: float
    peak_bytes: int


@dataclass
class Running:
    """A case on its way: first it is written and read by ourselves, then it is asked."""

    case: Case
    folder: Path
    child: children.Child
    expected: reading.Reading | None = None
    is_asked: bool = False
    result: Done | None = field(default=None)


def write_and_read(chosen: Case, folder: Path) -> reading.Reading | None:
    """Write the file of a case, and read it in our own way; an export is compared with nothing but itself."""
    data = chosen.content()
    (folder / f"{chosen.base}.json").write_bytes(data)
    if chosen.base == exports.BASE:
        return None
    # Plain Python takes a hundred bytes for one of a bomb: rather it gives up than the machine.
    resource.setrlimit(resource.RLIMIT_AS, (_PLAIN_BYTES, _PLAIN_BYTES))
    return reading.read(data)


def ask(chosen: Case, folder: Path, expected: reading.Reading | None, *, one_in: int) -> Asker:
    """Import the file of a case and ask of it."""
    rng = random.Random(f"ask {chosen.seed}")
    asker = Asker(folder / f"{chosen.base}.json", expected, rng, one_in=one_in)
    asker.run()
    asker.expected = None  # it has been compared
    return asker


def run(chosen: Sequence[Case], jobs: int, keep: Path | None, *, one_in: int) -> list[Done]:
    """Run cases, so many at a time."""
    waiting = list(reversed(chosen))
    running: list[Running] = []
    done: list[Done] = []
    with tempfile.TemporaryDirectory(prefix="campaign-of-damage-") as place:
        while waiting or running:
            while waiting and len(running) < jobs:
                next_case = waiting.pop()
                folder = Path(tempfile.mkdtemp(dir=place))
                child = children.start(lambda at, of=next_case: write_and_read(of, at), folder=folder, limited=False)  # type: ignore[misc]
                running.append(Running(next_case, folder, child))
            for each in list(running):
                if _go_on(each, one_in):
                    running.remove(each)
                    assert each.result is not None
                    done.append(each.result)
                    _tell(each.result)
                    if len(done) % 50 == 0:
                        print(f"{len(done):,} of {len(chosen):,} cases", flush=True)
                    if keep is not None and each.result.findings:
                        shutil.copytree(each.folder, keep / str(each.case.seed), dirs_exist_ok=True)
                    children.remove(each.folder)
            time.sleep(0.02)
    return sorted(done, key=lambda each: each.case.seed)


def _go_on(each: Running, one_in: int) -> bool:
    """Whether a case is done; begins its second part after the first."""
    result = each.child.poll()
    if result is None:
        return False
    if not each.is_asked:
        if result.problem is not None:  # then only what the figures say of each other is compared
            print(f"case {each.case.seed} is not read in plain Python: {result.problem}", flush=True)
        (each.folder / "result").unlink(missing_ok=True)
        each.expected = result.value
        each.child = children.start(lambda at: ask(each.case, at, each.expected, one_in=one_in), folder=each.folder)
        each.is_asked = True
        return False
    asker: Asker | None = result.value
    findings = list(asker.findings) if asker else []
    if result.problem is not None:
        findings.append(Finding(result.problem.partition(":")[0], result.problem))
    count = len(each.expected.events) if each.expected else 0
    outcome, missed = (asker.outcome, asker.missed) if asker else ("no answer", 0)
    each.result = Done(each.case, findings, outcome, count, missed, result.seconds, result.peak_bytes)
    return True


def _tell(done: Done) -> None:
    for finding in done.findings:
        classes = ", ".join(done.case.classes) or "untouched"
        print(
            f"FINDING case {done.case.seed} ({done.case.base}: {classes})\n  {finding.kind}: {finding.text}", flush=True
        )


def summary(done: Sequence[Done], seed: str) -> str:
    """The figures as Markdown, to be pasted into docs/robustness.md."""
    outcomes = Counter(each.outcome for each in done)
    found = [each for each in done if each.findings]
    slowest = max(done, key=lambda each: each.seconds)
    biggest = max(done, key=lambda each: each.peak_bytes)
    mutated = [name for each in done for name in each.case.classes]
    rows = [
        ("cases", f"{len(done):,}"),
        ("seeds", seed),
        (
            "traces",
            ", ".join(f"{name} ({bases.source(name)})" for name in dict.fromkeys(each.case.base for each in done)),
        ),
        (
            "mutations",
            f"{len(mutated):,} of {len(set(mutated))} classes",
        ),
        ("readable events, by plain Python", f"{sum(each.event_count for each in done):,}"),
        ("of them not read, and told in a warning", f"{sum(each.missed for each in done):,}"),
        ("files that were imported and asked", f"{outcomes['asked']:,}"),
        (
            "files refused by a clear error, with nothing readable in them",
            f"{outcomes['TraceFormatError'] + outcomes['EmptyTraceError']:,}",
        ),
        ("longest case, in processor time", f"{slowest.seconds:.1f} s (seed {slowest.case.seed})"),
        ("highest peak of memory", f"{biggest.peak_bytes / 1e6:,.0f} MB (seed {biggest.case.seed})"),
        ("cases with a finding", f"{len(found):,}"),
    ]
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    per_class = Counter(name for each in done for name in each.case.classes)
    lines += ["", "| class of mutation | cases | with a finding |", "|---|---:|---:|"]
    bad = Counter(name for each in found for name in each.case.classes)
    known = (*mutations.STRUCTURE, *mutations.TEXT, *mutations.FILE, *exports.EXPORT, *exports.BYTES)
    lines += [f"| {name.replace('_', ' ')} | {per_class[name]} | {bad[name]} |" for name in known]
    return "\n".join(lines)


def grouped(done: Sequence[Done]) -> str:
    """Findings of one kind together, the most frequent first, with their seeds."""
    groups: dict[str, list[int]] = defaultdict(list)
    for each in done:
        for finding in each.findings:
            text = re.sub(r"\d+", "N", f"{finding.kind}: {finding.text}".partition("\n")[0])[:150]
            groups[text].append(each.case.seed)
    lines = []
    for text, seeds in sorted(groups.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(map(str, list(dict.fromkeys(seeds))[:6]))
        lines.append(f"{len(set(seeds)):5} × {text}\n        {shown}")
    return "\n".join(lines)


def warm_up(names: Sequence[str]) -> None:
    """Import everything and read the traces, so that the children need not."""
    for name in _WARM:
        try:
            import_module(name)
        except ImportError:
            continue
    import duckdb

    from hotline_analysis import catalog

    # A connection has no threads as long as it only parses.
    with duckdb.connect(config={"threads": 1}) as connection:
        for macro in catalog.macros().values():
            catalog.parsed(connection, macro.sql)
        for query in catalog.queries():
            if query.kind == "views":
                catalog.parsed(connection, f"create view {query.name} as {query.sql}")
            catalog.parsed(connection, query.sql)
    for base in names:
        bases.base(base)
    gc.collect()
    # Python warns of forks beside threads; those here are the allocator's, and see to forks themselves.
    warnings.simplefilter("ignore", DeprecationWarning)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign; the exit status says whether there was a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many")
    parser.add_argument("--skip", type=int, default=0, help="how many of them have been run before")
    parser.add_argument("--seed", type=int, default=1, help="of the campaign; its cases have seeds of their own")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--case", type=int, action="append", help="only the case of this seed; repeatable")
    parser.add_argument(
        "--one-in", type=int, default=3, help="a case asks one in so many questions; 1: all (default: 3)"
    )
    parser.add_argument("--generated", action="store_true", help="only the traces that are generated")
    parser.add_argument("--exports", action="store_true", help="only exports of Nsight Systems")
    parser.add_argument("--untouched", action="store_true", help="the traces as they are")
    parser.add_argument("--keep", type=Path, help="a folder for the files of cases with findings")
    given = parser.parse_args(arguments)
    names = bases.GENERATED if given.generated else bases.NAMES
    warm_up(names)
    if given.untouched:
        chosen = [untouched(name) for name in names]
    elif given.case:
        chosen = [export_case(seed) if given.exports else case(seed, names) for seed in given.case]
    elif given.exports:
        chosen = [export_case(_SEEDS * given.seed + number) for number in range(given.skip, given.cases)]
    else:
        chosen = [case(_SEEDS * given.seed + number, names) for number in range(given.skip, given.cases)]
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    done = run(chosen, given.jobs, given.keep, one_in=given.one_in)
    seeds = f"{chosen[0].seed} to {chosen[-1].seed}"
    print(f"\n{summary(done, seeds)}\n")
    if found := grouped(done):
        print(f"Findings:\n{found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
