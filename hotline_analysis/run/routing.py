"""Which ranks a query opens: one, one with the ranks compared with it, all in groups, or all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.run.failures import as_hotline_error
from hotline_analysis.run.opened import OpenRun, needed
from hotline_analysis.run.some_ranks import groups_of_ranks, show_some

# Views of a collective with all of its ranks, whichever rank is queried.
_OF_ALL_RANKS = ("collective_match", "collective_wait")


def answer(
    run: OpenRun, query: catalog.Query, bound: Mapping[str, object], open_rank: Callable[[int], OpenRun]
) -> pl.DataFrame:
    """Run a query over the ranks that it needs. `open_rank` returns the open run of one rank."""
    rank = bound.get("rank")
    if len(run.ranks) == 1:
        return run.answer(query, bound)
    if not isinstance(rank, int):
        groups = groups_of_ranks(run.manifest["parts"]) if catalog.goes_rank_by_rank(query.name) else []
        return _answer_by_groups(run, query, bound, groups) if len(groups) > 1 else run.answer(query, bound)
    if not catalog.compares_ranks(query.name):
        return open_rank(rank).answer(query, bound)
    with _compared_ranks(run, rank) as subset:
        return subset.answer(query, bound)


def _answer_by_groups(
    run: OpenRun, query: catalog.Query, bound: Mapping[str, object], groups: Sequence[tuple[int, int]]
) -> pl.DataFrame:
    """Run a query that goes rank by rank over one group of ranks after the other."""
    frames = []
    with as_hotline_error():
        run.provide(needed(query))
        for first, last in groups:
            with run.apart() as other:
                show_some(other.connection, query.tables, first, last)
                frames.append(other.answer_here(query, bound))
    return pl.concat(frames, how="vertical_relaxed")


@contextmanager
def _compared_ranks(run: OpenRun, rank: int) -> Iterator[OpenRun]:
    """A run with the collectives of all ranks, and otherwise only a rank and the ranks compared with it.

    If this would include most ranks, the run itself is returned.
    """
    with as_hotline_error():
        tables = {name: run.select(name, f"from {name}", {}) for name in _OF_ALL_RANKS}
        early_ranks = run.select(
            "late_pair", "select distinct early_rank from late_pair where rank = $rank", {"rank": rank}
        )
    ranks = sorted({rank, *early_ranks["early_rank"].to_list()})
    if 2 * len(ranks) > len(run.ranks) or not run.is_open:
        yield run
        return
    subset = run.subset(ranks)
    try:
        with as_hotline_error():
            for name, rows in tables.items():
                subset.use_table(name, rows)
        yield subset
    finally:
        subset.close()
