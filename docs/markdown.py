"""Helpers shared by the generated pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

COLUMNS = 110  # width of command output


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(headers)} |"
    yield f"|{'---|' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
