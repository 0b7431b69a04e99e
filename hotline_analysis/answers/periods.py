"""After how many steps of a loop their kinds repeat."""

from __future__ import annotations

from collections.abc import Sequence


def period(kinds: Sequence[int]) -> int:
    """After how many steps their kinds repeat, exactly and at least twice; 1 if they do not, or all are of one kind."""
    count = len(kinds)
    if len(set(kinds)) > 1:
        for length in range(2, count // 2 + 1):
            if all(kinds[place] == kinds[place + length] for place in range(count - length)):
                return length
    return 1
