"""What HTA compares: two traces by name, ranks by their collectives, and ops by the kernels that they repeat."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.conformance.hta import path_of
from tests.real_traces import GPU, HTA, opened

pytestmark = [pytest.mark.traces, pytest.mark.skipif(not HTA.exists(), reason="the figures of HTA are not there")]


def reference() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(HTA.read_text(encoding="utf-8"))
    return figures


def by_name(trace: Trace, rank: int, step: int, devices: str) -> pl.DataFrame:
    """Count and time of every name in a step, as HTA sums them: work by the step that launched it."""
    rows = trace.sql(
        "select name, category, dur_ns from annotated_event where rank = $rank and step = $step and dur_ns is not null",
        rank=rank,
        step=step,
    )
    wanted = {"ALL": pl.lit(True), "GPU": pl.col("category").is_in(GPU), "CPU": ~pl.col("category").is_in(GPU)}
    return rows.filter(wanted[devices]).group_by("name").agg(pl.len().alias("count"), pl.col("dur_ns").sum())


# HTA took the first step of the lowest rank of both sides.
A, B = ("training/dlrm_a100_rank3", 3, 1009), ("training/dlrm_v100_cudagraph", 1, 1009)
RANKS = ("multi_rank", 0, 551), ("multi_rank", 1, 551)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "devices", "a", "b"),
    [
        ("control_vs_test_ALL", "ALL", A, B),
        ("control_vs_test_GPU", "GPU", A, B),
        ("control_vs_test_CPU", "CPU", A, B),
        ("rank0_vs_rank1_trace_filter", "ALL", *RANKS),
    ],
)
@pytest.mark.sampled
def test_steps_have_the_events_and_times_of_hta(
    name: str, devices: str, a: tuple[str, int, int], b: tuple[str, int, int]
) -> None:
    """What differs is what is made of them: HTA lists raw names, so that most of two devices is added and deleted."""
    theirs = reference()["trace_diff"][name]
    traces = [opened(one if one == "multi_rank" else path_of(one)) for one, _, _ in (a, b)]
    sides = [by_name(trace, rank, step, devices) for trace, (_, rank, step) in zip(traces, (a, b), strict=True)]
    for side, label in zip(sides, ("Control", "Test"), strict=True):
        assert side["count"].sum() == theirs["totals"][f"{label}_counts"]
        assert side["dur_ns"].sum() == 1000 * theirs["totals"][f"{label}_total_duration"]
    both = (
        sides[0]
        .join(sides[1], on="name", how="full", coalesce=True, suffix="_b")
        .with_columns(pl.col("count", "count_b", "dur_ns", "dur_ns_b").fill_null(0))
    )
    assert both.height == theirs["rows"]
    ours = {row["name"]: row for row in both.to_dicts()}
    for row in theirs["top10_abs_diff_duration"]:
        same = ours[row["name"]]
        assert (same["count"], same["count_b"]) == (row["Control_counts"], row["Test_counts"])
        assert same["dur_ns_b"] - same["dur_ns"] == 1000 * row["diff_duration"]
    kinds = Counter(
        "added"
        if not one
        else "deleted"
        if not two
        else "unchanged"
        if one == two
        else "increased"
        if two > one
        else "decreased"
        for one, two in both.select("count", "count_b").rows()
    )
    assert kinds == Counter(theirs["ops_diff_counts"])


@pytest.mark.slow
def test_diff_has_all_work_that_hta_compares() -> None:
    theirs = reference()["trace_diff"]["control_vs_test_GPU"]["totals"]
    a, b = (opened(path_of(name)) for name, _, _ in (A, B))
    ours = ha.diff(a, b, by="kernel", step_a=A[2], step_b=B[2])
    assert (ours["a_count"].sum(), ours["b_count"].sum()) == (theirs["Control_counts"], theirs["Test_counts"])
    # Overlapping work counts once, so ours is less than HTA's sum of durations.
    busy = ours.filter(~pl.col("part").str.starts_with("idle"))
    assert busy["a_ns"].sum() < 1000 * theirs["Control_total_duration"]
    assert busy["b_ns"].sum() < 1000 * theirs["Test_total_duration"]


@pytest.mark.parametrize("name", ["counters/alexnet_a100", "counters/simple_add_a100", "training/dlrm_v100_cudagraph"])
def test_patterns_of_an_op(name: str) -> None:
    """HTA counts the kernels of whole ops. Kernels that differ in the size of their tiles only are one to us."""
    variants = reference()["traces"][name]
    theirs = variants.get("all_steps", variants["default_steps"])["frequent_patterns_aten::linear"]["top"]
    lengths = {len(row["pattern"].split("|")) - 1 for row in theirs}
    assert lengths == {3}
    ours = ha.frequent_kernel_patterns(opened(path_of(name)), None, op="aten::linear").filter(length=3)
    assert ours.select("count", "gpu_ns").rows() == [
        (sum(row["count"] for row in theirs), 1000 * sum(row["GPU kernel duration (us)"] for row in theirs))
    ]


def test_stragglers() -> None:
    """HTA names as many ranks as asked for, two by default: of two ranks it names both. One of them was late."""
    assert reference()["traces"]["multi_rank"]["default_steps"]["potential_stragglers"] == [0, 1]
    late = ha.stragglers(opened("multi_rank"))
    assert dict(late.select("rank", "last_count").rows()) == {0: 0, 1: 5}
