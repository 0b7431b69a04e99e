"""What the generated pages have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

COLUMNS = 110  # of what commands print
NOTE = "<!-- Written by docs/generate.py from {source}. Change that, then run `make docs`. -->"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(headers)} |"
    yield f"|{'---|' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
