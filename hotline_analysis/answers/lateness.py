"""Which rank keeps the others waiting, and why."""

from __future__ import annotations

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import Phase


def collectives(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Each rank's collectives: who came last, who waited, and the bandwidth of the transfer.

    Times are integer nanoseconds on the clock of the lowest rank, bandwidths GB/s as NCCL's tests define them. Ranks
    need not be complete. Of a collective that is known of one rank only, waiting and transfer cannot be told apart
    (`wait_ns` is NULL), and the bandwidth is at least what it says. Empty without communication. See `hotline queries
    collectives` for the columns.
    """
    return trace.query("collectives", rank=rank, step=step, phase=phase, module=module)


def stragglers(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """How long the others waited for each rank, the worst first: late arrival apart from slow transfer.

    Times are integer nanoseconds, after clocks are aligned by the ends of collectives. Empty if no collective can be
    matched between ranks. See `hotline queries stragglers` for the columns.
    """
    return trace.query("stragglers", rank=rank, step=step, phase=phase, module=module)


def straggler_causes(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What late ranks spent longer on than the first rank, by phase, module and region; the largest excess first.

    `rank` restricts it to collectives in which this rank was last, `phase` and `module` (a path, with the modules in
    it) to time spent there. See `hotline queries straggler_causes` for the columns.
    """
    return trace.query("straggler_causes", rank=rank, step=step, phase=phase, module=module)
