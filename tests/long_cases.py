"""Cases of tests that take long, while quicker ones of the same function are always run.

    python -m tests.long_cases junit.xml    # write the list anew from the durations of a whole run

`make test` leaves out all cases in `long_cases.txt`, and the tests that are marked `long`; `make test-all` runs them as
well. A case is in the list if it takes more than 0.3 s and is not among the quickest eighth of its function's
cases, so that no function is left out for its cases.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

_LIST = Path(__file__).with_suffix(".txt")
_LONG_S = 0.3
_KEPT = 8  # one case in so many is always run


def listed() -> frozenset[str]:
    """The ids of the cases in the list."""
    return frozenset(_LIST.read_text().splitlines())


def of(report: Path) -> list[str]:
    """The ids of the long cases in a JUnit report."""
    functions: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        name = case.attrib["name"]
        seconds = float(case.attrib["time"])
        functions[f"{file}::{name.partition('[')[0]}"].append((seconds, f"{file}::{name}"))
    slower = [case for cases in functions.values() for case in sorted(cases)[math.ceil(len(cases) / _KEPT) :]]
    return sorted(name for seconds, name in slower if seconds > _LONG_S)


if __name__ == "__main__":
    _LIST.write_text("".join(f"{name}\n" for name in of(Path(sys.argv[1]))))
