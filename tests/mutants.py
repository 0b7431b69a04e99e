"""Does a test see it when a line is wrong? Random small changes of queries and Python, each against the tests near it.

    python -m tests.mutants --count 200 --seed 1    # make mutants

A mutant differs in one place: an operator, a number, the kind of a join, `and` for `or`, `min` for `max`. It lives in a
copy of the repository. What `tests.changed` names for its file is run until a test fails; that kills it. Mutants that
survive are printed: each wants a test, or means the same as before.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import changed

_FOLDERS = ("queries/", "hotline_analysis/")
_OTHER: Mapping[str, str] = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "<>": "=", "+": "-", "-": "+", "*": "/"},
    **{"and": "or", "or": "and", "min": "max", "max": "min", "True": "False", "False": "True", "true": "false"},
    **{"inner": "left", "left": "inner", "asc": "desc", "desc": "asc", "first": "last", "last": "first"},
    **{"false": "true", "any": "all", "all": "any"},
}
# Comments and texts of SQL stay as they are; an alias as `left` is no join.
_SQL = re.compile(
    r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|(?P<join>\b(?:inner|left)(?= join\b))"
    r"|(?P<word>\b(?:and|or|true|false|desc|asc)\b|\b(?:min|max|first|last)(?=\())"
    r"|(?P<sign>(?<= )(?:<=|>=|<>|!=|<|>|\+|-|\*)(?= ))|(?P<number>(?<![\w.$])\d+(?![\w.]))"
)
_MOST_S = 1800
_SECONDS = itertools.count(int(time.time()))


@dataclass(frozen=True)
class Mutant:
    """One change of a file: the text from `start` to `end` becomes `new`."""

    file: str
    start: int
    end: int
    new: str

    def of(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def told(self, text: str) -> str:
        line = text.count("\n", 0, self.start)
        return f"{self.file}:{line + 1}: {text[self.start : self.end]} -> {self.new}: {text.splitlines()[line].strip()}"


def mutants_of(file: str, text: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    for start, end in _sql_places(text) if file.endswith(".sql") else _python_places(text):
        old = text[start:end]
        yield Mutant(file, start, end, str(int(old) + 1) if old.isdecimal() else _OTHER[old])


def _sql_places(text: str) -> Iterator[tuple[int, int]]:
    for found in _SQL.finditer(text):
        if found.lastgroup:
            yield found.span()


def _python_places(text: str) -> Iterator[tuple[int, int]]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_number = token.type == tokenize.NUMBER and token.string.isdecimal()
        # `*` and `-` before an argument or a number are others.
        is_binary = (
            token.type == tokenize.OP and token.string in _OTHER and (before[-1:].isalnum() or before in (")", "]"))
        )
        is_word = token.type == tokenize.NAME and token.string in _OTHER and before != "."
        if is_number or is_binary or is_word:
            yield starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        before = token.string


def chosen(count: int, seed: int, only: Sequence[str] = _FOLDERS) -> list[Mutant]:
    """Mutants at random, of each file as many as it has places."""
    found: list[Mutant] = []
    for file in changed.files():
        if file.startswith(tuple(only)) and file.endswith((".sql", ".py")) and (changed.ROOT / file).exists():
            found += mutants_of(file, (changed.ROOT / file).read_text(encoding="utf-8"))
    return random.Random(seed).sample(found, min(count, len(found)))


def copied(folder: Path) -> None:
    """The repository in another folder, with the queries where the installed package has them."""
    for file in changed.files():
        if (changed.ROOT / file).is_file():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(changed.ROOT / file, folder / file)
    (folder / "hotline_analysis" / "queries").symlink_to(folder / "queries", target_is_directory=True)


def is_killed(mutant: Mutant, folder: Path, *tests: str) -> bool:
    """Whether a test fails; one that takes very long has failed."""
    file = folder / mutant.file
    text = file.read_text(encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not long"]
    try:
        _write(file, mutant.of(text))
        done = subprocess.run(
            [*command, *(tests or changed.to_run([mutant.file]))],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            timeout=_MOST_S,
        )
        return done.returncode not in (0, 5)  # 5: no test was collected
    except subprocess.TimeoutExpired:
        return True
    finally:
        _write(file, text)


def _write(file: Path, text: str) -> None:
    """Write a file at a second of its own, by which Python knows whether compiled code is that of its source."""
    file.write_text(text, encoding="utf-8")
    second = next(_SECONDS)
    os.utime(file, (second, second))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "only", nargs="*", default=list(_FOLDERS), help="folders or files, all of the package by default"
    )
    given = parser.parse_args(arguments)
    killed = 0
    with tempfile.TemporaryDirectory() as name:
        copied(Path(name))
        for number, mutant in enumerate(chosen(given.count, given.seed, given.only), 1):
            if is_killed(mutant, Path(name)):
                killed += 1
            else:
                print(mutant.told((changed.ROOT / mutant.file).read_text(encoding="utf-8")), flush=True)
            print(f"{killed} of {number} killed", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
