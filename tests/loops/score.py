"""Compare the reports on captured loops with the stopwatch: `python -m tests.loops.score FOLDER [NAMES]`.

Two questions for each loop. Does each phase have the share that the stopwatch showed of the same steps, within three
points? And does the first screen of the report (headline, what to do, slowest places) name the planted cause and its
line, in one and the same entry? A phase with less than 1 % by the stopwatch and by the report does not count.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hotline_analysis as ha
from tests.loops.__main__ import PROGRAMS

TOLERANCE = 3.0
"""Points by which a share may differ from the stopwatch."""

LEAST = 1.0
"""A phase counts if it has this share by the stopwatch or by the report."""

PHASES = ("load_data", "forward", "loss", "zero_grad", "backward", "clipping", "optimizer", "other")
_PLANTED = "# planted"


@dataclass(frozen=True)
class Share:
    """A phase of a loop: its share of the steps, in per cent."""

    phase: str
    plain: float
    """By the stopwatch, in a run without the profiler."""
    recorded: float
    """By the stopwatch, in the steps that the profiler recorded."""
    ours: float

    @property
    def difference(self) -> float:
        """Points by which the report differs."""
        return self.ours - self.recorded

    @property
    def is_right(self) -> bool:
        """Whether it is close enough."""
        return abs(self.difference) <= TOLERANCE


@dataclass(frozen=True)
class Named:
    """Where the first screen names the planted cause: the first entries with its name, its line, and both."""

    both: str = ""
    name: str = ""
    line: str = ""


@dataclass(frozen=True)
class Score:
    """What was found of one loop."""

    loop: str
    shares: list[Share]
    named: Named
    first_screen: dict[str, list[str]]


# --- phases ----------------------------------------------------------------------------------------------------------


def shares_of(steps: list[dict[str, int]]) -> dict[str, float]:
    """The share of each phase of all steps together."""
    total = sum(sum(step.values()) for step in steps)
    phases = {phase for step in steps for phase in step}
    return {phase: 100 * sum(step.get(phase, 0) for step in steps) / total for phase in phases}


def compare(
    ours: Mapping[str, float], recorded: Mapping[str, float], plain: Mapping[str, float], least: float = LEAST
) -> list[Share]:
    """The shares of the phases that count. A phase of the stopwatch such as `forward+loss` is several of ours."""
    together = [phase.split("+") for phase in recorded if "+" in phase]
    groups = [*together, *([phase] for phase in PHASES if not any(phase in group for group in together))]
    shares = []
    for group in sorted(groups, key=lambda group: PHASES.index(group[0])):
        names = {*group, "+".join(group)}
        plain_pct, recorded_pct, ours_pct = (
            sum(share for phase, share in shares_by.items() if phase in names) for shares_by in (plain, recorded, ours)
        )
        if max(recorded_pct, ours_pct) >= least:
            shares.append(Share("+".join(group), plain_pct, recorded_pct, ours_pct))
    return shares


def phases_of(trace: ha.Trace, step: int | None = None) -> dict[int, dict[str, float]]:
    """The share of each phase that the analysis found, by rank, of all steps or of one."""
    found: dict[int, dict[str, float]] = {}
    for row in ha.phases(trace, step=step).iter_rows(named=True):
        found.setdefault(row["rank"], {})[row["phase"]] = row["cpu_pct"]
    return found


# --- the planted cause -----------------------------------------------------------------------------------------------


def planted(name: str) -> tuple[tuple[str, ...], set[int]]:
    """The names that a report may use for the planted cause, and the lines that it may give."""
    source = (PROGRAMS / f"{name}.py").read_text()
    tree = ast.parse(source)
    marked = {number for number, line in enumerate(source.splitlines(), 1) if line.rstrip().endswith(_PLANTED)}
    lines = set(marked)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.lineno in marked:
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines.update(range(begin, (node.end_lineno or begin) + 1))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PLANTED":
            return ast.literal_eval(node.value), lines
    raise ValueError(f"{name} has no PLANTED")


def first_screen(report: ha.Report) -> dict[str, list[str]]:
    """The entries that a user reads first, by where they stand: the text as it is printed."""
    blocks = re.split(r"\n\s*\n", report.to_text(width=1000))
    entries: dict[str, list[str]] = {"headline": [report.headline], "advice": [], "places": []}
    for block in blocks:
        title, *rows = block.strip().splitlines()
        if title.startswith("What to do"):
            for row in rows:
                if re.match(r"\s*\d+\. ", row):
                    entries["advice"].append(row.strip())
                elif entries["advice"]:
                    entries["advice"][-1] += " " + row.strip()
        elif title.startswith("Slowest places"):
            entries["places"] += [row.strip() for row in rows]
    return entries


def named(name: str, entries: Mapping[str, list[str]]) -> Named:
    """Where the planted cause and its line are named."""
    names, lines = planted(name)
    word = re.compile("|".join(rf"(?<![\w]){re.escape(each)}(?![a-zA-Z])" for each in names))
    place = re.compile(rf"{name}\.py:(\d+)")
    found: dict[str, str] = {}
    for where, texts in entries.items():
        for number, entry in enumerate(texts, 1):
            has_name = word.search(entry) is not None
            has_line = any(int(line) in lines for line in place.findall(entry))
            label = where if where == "headline" else f"{where} {number}"
            for kind, holds in (("both", has_name and has_line), ("name", has_name), ("line", has_line)):
                if holds:
                    found.setdefault(kind, label)
    return Named(**found)


# --- loops -----------------------------------------------------------------------------------------------------------


def score(name: str, folder: Path) -> Score:
    """Analyse the trace of one loop, and compare."""
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    files = sorted(folder.glob("run*.json.gz"))
    with ha.load(files[0] if len(files) == 1 else files) as trace:
        entries = first_screen(ha.report(trace))
        ours = phases_of(trace)
    shares = []
    for number, (rank, phases) in enumerate(sorted(ours.items())):
        recorded, plain = (shares_of(truth[kind][number]) for kind in ("recorded", "plain"))
        of_rank = compare(phases, recorded, plain)
        if len(ours) > 1:
            of_rank = [Share(f"{each.phase} (rank {rank})", each.plain, each.recorded, each.ours) for each in of_rank]
        shares += of_rank
    return Score(name, shares, named(name, entries), entries)


def table(scores: list[Score]) -> Iterator[str]:
    """The lines of a Markdown table of all phases, one of the causes, and the sums."""
    shares = [share for each in scores for share in each.shares]
    right = sum(share.is_right for share in shares)
    yield "| loop | phase | stopwatch, without profiler | stopwatch, recorded | report | difference |"
    yield "|---|---|---:|---:|---:|---:|"
    for each in scores:
        for number, share in enumerate(each.shares):
            loop = "" if number else f"`{each.loop}`"
            difference = f"{share.difference:+.1f}" if share.is_right else f"**{share.difference:+.1f}**"
            figures = " | ".join(f"{pct:.1f} %" for pct in (share.plain, share.recorded, share.ours))
            yield f"| {loop} | {share.phase} | {figures} | {difference} |"
    yield ""
    yield f"{right} of {len(shares)} phases are within {TOLERANCE:.0f} points ({100 * right / len(shares):.1f} %)."
    yield ""
    yield "| loop | planted bottleneck | name and line | name | line |"
    yield "|---|---|---|---|---|"
    for each in scores:
        cells = [cell or "–" for cell in (each.named.both or "**no**", each.named.name, each.named.line)]
        yield f"| `{each.loop}` | {_bottleneck(each.loop)} | {' | '.join(cells)} |"
    count = sum(bool(each.named.both) for each in scores)
    yield ""
    yield f"{count} of {len(scores)} planted causes are named with their line ({100 * count / len(scores):.1f} %)."


def _bottleneck(name: str) -> str:
    """What is planted, in the words of the loop's docstring."""
    docstring = ast.get_docstring(ast.parse((PROGRAMS / f"{name}.py").read_text())) or ""
    return docstring.rpartition("PLANTED: ")[2]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.loops.score", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder that `python -m tests.loops` wrote")
    parser.add_argument("names", nargs="*", help="loops, all by default; of the others the last score is taken")
    given = parser.parse_args()
    scores = []
    for folder in sorted(path.parent for path in given.folder.glob("*/truth.json")):
        last = folder / "score.json"
        if given.names and folder.name not in given.names and last.exists():
            kept = json.loads(last.read_text())
            kept["shares"] = [Share(**share) for share in kept["shares"]]
            scores.append(Score(**{**kept, "named": Named(**kept["named"])}))
            continue
        scores.append(score(folder.name, folder))
        last.write_text(json.dumps(asdict(scores[-1]), indent=1) + "\n")
        gc.collect()
    print("\n".join(table(scores)))


if __name__ == "__main__":
    main()
