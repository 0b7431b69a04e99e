"""The replay of a step in a loop against plain Python: copies of its graph in a row, and the longest path in them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.answers.limits import LIMIT
from hotline_analysis.answers.replay import Replay
from tests.random_traces import random_trace
from tests.replayed import period
from tests.trace_builder import TraceBuilder

US = 1000


def replay_of(trace: ha.Trace, step: int) -> Replay:
    return Replay(ha.dependency_graph(trace, step=step, until="launched", frames=False))


@pytest.mark.parametrize("seed", [3, 4])
def test_random_traces(tmp_path: Path, seed: int) -> None:
    trace = random_trace(seed, steps=8).load(tmp_path)
    seen = 0
    for step in trace.sql("select step from step order by step")["step"]:
        replay = replay_of(trace, step)
        if not replay.loops:
            continue
        assert replay.period_ns == period(replay, 30)
        halved = replay.edges.select(pl.when(kind="work").then(pl.col("weight_ns") // 2).otherwise("weight_ns"))
        weight = pl.when(kind="work").then(pl.col("weight_ns") // 2).otherwise("weight_ns")
        assert replay.changed_ns(weight) == period(replay, 30, halved.to_series().to_list())
        assert replay.changed_ns(2 * pl.col("weight_ns")) == 2 * replay.period_ns
        path = replay.path()
        assert path["path_ns"].sum() == replay.path_steps * replay.period_ns
        assert (path["path_ns"] <= path["weight_ns"]).all()
        seen += replay.edges.filter("is_carried").height
    assert seen > 20


def loop(host_us: int, gpu_us: int, *, waits: bool = False) -> TraceBuilder:
    """Steps of `host_us` on the CPU, each of which launches one kernel of `gpu_us`; with `waits`, each waits for it."""
    trace = TraceBuilder(rank=0)
    at = free = 0
    for number in range(4):
        trace.step(number).annotation("work", at, at + host_us).op("op", at, at + 10)
        begins = max(at + 5, free)
        free = begins + gpu_us
        trace.launches("kernel", begins, free, at=at, until=at + 2)
        if waits:
            trace.runtime("cudaDeviceSynchronize", at + host_us, free + 1, correlation=trace.new_correlation())
        at = free + 1 if waits else at + host_us
    return trace.annotation("the end", at, max(at + 1, free))


def test_a_loop_takes_as_long_as_its_slower_side(tmp_path: Path) -> None:
    for name, host, gpu in (("cpu", 100, 30), ("gpu", 30, 100)):
        (tmp_path / name).mkdir()
        replay = replay_of(loop(host, gpu).load(tmp_path / name), 2)
        assert replay.period_ns == 100 * US
        assert replay.without_ns(pl.col("kind") == "work") == host * US
        assert replay.without_ns(pl.col("kind") == "host") == gpu * US
        shares = dict(replay.path().group_by(LIMIT.alias("limit")).agg(pl.col("path_ns").sum()).rows())
        assert set(shares) == ({"launching", "python"} if name == "cpu" else {"computing"})


def test_sides_that_wait_for_each_other_take_turns(tmp_path: Path) -> None:
    """100 on the CPU, of which 5 until the kernel starts; the kernel of 130 ends at 135, the synchronise at 136.

    The last of the four steps is 1 us longer, so a mean step takes 136.25.
    """
    trace = loop(100, 130, waits=True).load(tmp_path)
    replay = replay_of(trace, 2)
    assert replay.period_ns == 136 * US
    assert replay.without_ns(pl.col("kind") == "work") == 101 * US
    limits = ha.step_limits(trace)
    assert limits["step_ns"][0] == 136.25 * US
    mean = 136.25 / 136 * US
    assert dict(limits.select("limit", "path_ns").rows()) == {
        "computing": pytest.approx(130 * mean, abs=2),
        "launching": pytest.approx(5 * mean, abs=2),  # from the launch call to the start of the kernel
        "sync": pytest.approx(1 * mean, abs=2),
    }
    assert limits["path_pct"].sum() == pytest.approx(100)


def test_a_trace_without_steps_runs_once(tmp_path: Path) -> None:
    """Nothing is in front of or behind it: the GPU's 100 us come after the launch at 20."""
    trace = TraceBuilder(rank=0).op("op", 0, 40).launches("kernel", 25, 125, at=20, until=22).load(tmp_path)
    limits = ha.step_limits(trace)
    assert limits["step_ns"][0] == 125 * US
    assert dict(limits.select("limit", "path_ns").rows()) == {"computing": 100 * US, "launching": 25 * US}
