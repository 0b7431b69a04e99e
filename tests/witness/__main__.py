"""The command line of the witness; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.witness.comparing import Renames, compare
from tests.witness.writing import write


def main() -> int:
    """Write frames, or compare two folders of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.witness", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--jobs", type=int, default=2, help="traces at a time")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    for each in (writing, comparing):
        each.add_argument("--trace", default="", help="only traces with this in their name")
        each.add_argument("--query", default="", help="only tables and queries with this in their name")
    given = parser.parse_args()
    if given.command == "write":
        write(given.folder, given.trace, given.query, given.jobs)
        return 0
    renames = Renames.read(Path(__file__).with_name("renames.csv"))
    return compare(given.before, given.after, renames, given.trace, given.query)


if __name__ == "__main__":
    sys.exit(main())
