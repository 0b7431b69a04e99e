"""The period of step kinds in a loop."""

from __future__ import annotations

from collections.abc import Sequence


def period(kinds: Sequence[int]) -> int:
    """The number of steps after which the kinds repeat exactly, at least twice; 1 without a period or with one kind."""
    count = len(kinds)
    if len(set(kinds)) > 1:
        for length in range(2, count // 2 + 1):
            if all(kinds[number] == kinds[number + length] for number in range(count - length)):
                return length
    return 1
