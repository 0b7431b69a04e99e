"""Arithmetic of time intervals."""

from __future__ import annotations

from collections.abc import Iterable


def union(spans: Iterable[tuple[int, int]]) -> int:
    """The length of the union of intervals."""
    total, reached = 0, None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
