"""The answer `diff`: a waterfall that adds up, what is noise, and how rows are matched."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.answers.comparison import Level
from hotline_analysis.errors import QueryParameterError
from tests.trace_builder import TraceBuilder


def training(gemms: list[int], *, kernel: str = "sgemm_a", extra: int = 0, rank: int = 0) -> TraceBuilder:
    """Steps of 1000 us. Each runs one gemm of the given length at 100, a relu of 50 at 500, and perhaps a copy."""
    built = TraceBuilder(rank=rank)
    for number, length in enumerate(gemms):
        at = 1000 * number
        built.step(number, at, at + 1000)
        built.op("aten::mm", at + 10, at + 20).launches(kernel, at + 100, at + 100 + length)
        built.op("aten::relu", at + 30, at + 40).launches("relu", at + 500, at + 550)
        if extra:
            built.op("aten::copy_", at + 50, at + 60).launches(
                "Memcpy", at + 600, at + 600 + extra, category="gpu_memcpy", call="cudaMemcpyAsync"
            )
    return built


@pytest.fixture(scope="module")
def a(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return training([100, 102, 104]).load(tmp_path_factory.mktemp("a"))


@pytest.fixture(scope="module")
def b(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return training([200, 201, 203], kernel="sgemm_b", extra=10).load(tmp_path_factory.mktemp("b"))


def test_ops_by_hand(a: Trace, b: Trace) -> None:
    found = ha.diff(a, b).filter(~pl.col("part").str.starts_with("idle"))
    assert found.drop("a_sd_ns", "b_sd_ns", "noise_ns", "a_graph_count", "b_graph_count").rows() == [
        # part, op, change, a, b, delta, count in a, in b; 604 / 3 us and 306 / 3 us, rounded so that all adds up
        ("computation", "aten::mm", "slower", 102_000, 201_333, 99_333, 1.0, 1.0),
        ("memory", "aten::copy_", "added", 0, 10_000, 10_000, 0.0, 1.0),
        ("computation", "aten::relu", "same", 50_000, 50_000, 0, 1.0, 1.0),
    ]


def test_the_spread_is_that_between_steps(a: Trace, b: Trace) -> None:
    row = ha.diff(a, b).filter(pl.col("op") == "aten::mm").row(0, named=True)
    assert row["a_sd_ns"] == pytest.approx(2_000)  # 100, 102, 104
    assert row["b_sd_ns"] == pytest.approx(1_527.525, abs=1e-3)  # 200, 201, 203: sqrt((16 + 1 + 25) / 9 / 2)
    # Three standard errors of the difference: 3 * sqrt(4 / 3 + 2.3333 / 3) us.
    assert row["noise_ns"] == pytest.approx(3_000 * (4 / 3 + 7 / 9) ** 0.5)


@pytest.mark.parametrize("by", ["step", "part", "phase", "module", "region", "op", "kernel"])
def test_every_level_adds_up_to_the_difference_of_the_steps(a: Trace, b: Trace, by: Level) -> None:
    found = ha.diff(a, b, by=by)
    # Three steps of 1000 us each, observed as a whole on both sides.
    assert (found["a_ns"].sum(), found["b_ns"].sum(), found["delta_ns"].sum()) == (1_000_000, 1_000_000, 0)


def test_kernels_of_other_names_are_added_and_removed(a: Trace, b: Trace) -> None:
    found = dict(ha.diff(a, b, by="kernel").filter(pl.col("op") == "aten::mm").select("kernel", "change").rows())
    assert found == {"sgemm_a": "removed", "sgemm_b": "added"}


def test_noise_is_no_news(a: Trace, tmp_path: Path) -> None:
    same_but_for_luck = training([103, 99, 105]).load(tmp_path)
    row = ha.diff(a, same_but_for_luck).filter(pl.col("op") == "aten::mm").row(0, named=True)
    assert row["delta_ns"] == 333
    assert row["change"] == "noise"
    assert ha.diff(a, same_but_for_luck, sigmas=0.01).filter(pl.col("op") == "aten::mm")["change"][0] == "slower"


def test_single_steps_have_no_spread(a: Trace) -> None:
    row = ha.diff(a, a, step_a=0, step_b=2).filter(pl.col("op") == "aten::mm").row(0, named=True)
    assert (row["a_ns"], row["b_ns"], row["change"]) == (100_000, 104_000, "slower")
    assert (row["a_sd_ns"], row["b_sd_ns"], row["noise_ns"]) == (None, None, None)


def test_the_spread_of_one_side_stands_for_both(a: Trace) -> None:
    row = ha.diff(a, a, step_b=2).filter(pl.col("op") == "aten::mm").row(0, named=True)
    assert row["noise_ns"] == pytest.approx(3 * 2_000 * (1 / 3 + 1) ** 0.5)
    assert row["change"] == "noise"


def test_work_of_no_step_is_not_compared_but_told(a: Trace, tmp_path: Path) -> None:
    """Work that was launched before the steps, as in every trace that starts while the GPU is busy."""
    built = training([100, 102, 104])
    built.gpu("kernel", "sgemm_a", -500, 0, stream=7)
    late = built.load(tmp_path)
    assert ha.gpu_parts(late).filter(pl.col("step").is_null())["time_ns"].sum() == 500_000
    for level in ("part", "op", "kernel"):
        assert ha.diff(late, a, by=level)["delta_ns"].unique().to_list() == [0]
    assert "was launched by no step" in ha.diff_report(late, a).caveats[-1]


def test_where_no_step_launched_anything_all_is_compared(tmp_path: Path) -> None:
    both = []
    for name, end in (("a", 30), ("b", 50)):
        (tmp_path / name).mkdir()
        both.append(TraceBuilder(rank=0).gpu("kernel", "k", 0, end, stream=7).load(tmp_path / name))
    row = ha.diff(*both, by="part").row(0, named=True)
    assert (row["part"], row["a_ns"], row["b_ns"]) == ("computation", 30_000, 50_000)


def test_ranks_of_one_trace(tmp_path: Path) -> None:
    training([100]).write(tmp_path / "a.json")
    training([150], rank=1).write(tmp_path / "b.json")
    both = ha.load(tmp_path)
    row = ha.diff(both, both, rank_a=0, rank_b=1).filter(pl.col("op") == "aten::mm").row(0, named=True)
    assert (row["a_ns"], row["b_ns"]) == (100_000, 150_000)
    whole = ha.diff(both, both).filter(pl.col("op") == "aten::mm").row(0, named=True)
    assert (whole["a_ns"], whole["a_count"], whole["change"]) == (125_000, 1.0, "same")


def test_modules_are_matched_by_path(tmp_path: Path) -> None:
    traces = []
    for name, length in (("a", 20), ("b", 50)):
        built = TraceBuilder(rank=0).step(0, 0, 200).module("Net", 0, 0, 100).module("Linear", 0, 10, 90)
        built.op("aten::mm", 20, 30).launches("gemm", 30, 30 + length)
        traces.append(built.load(tmp_path, f"{name}.json"))
    found = ha.diff(*traces, by="module").filter(pl.col("module_path") == "Net_0.Linear_0").row(0, named=True)
    assert found["delta_ns"] == 30_000  # its kernel; the idle time before is the same


def test_cpu_timeline(tmp_path: Path) -> None:
    traces = []
    for name, until in (("a", 30), ("b", 75)):
        built = TraceBuilder(rank=0).step(0, 0, 100).op("aten::mm", 10, until)
        traces.append(built.load(tmp_path, f"{name}.json"))
    found = ha.diff(*traces, by="part").select("part", "a_ns", "b_ns", "delta_ns")
    assert found.rows() == [("op", 20_000, 65_000, 45_000), ("outside ops", 80_000, 35_000, -45_000)]


def test_one_phase(a: Trace, b: Trace) -> None:
    phase = ha.gpu_parts(a).filter(pl.col("op") == "aten::mm")["phase"][0]
    assert ha.diff(a, b, phase=phase).filter(pl.col("op") == "aten::mm").height == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "colour"}, "by must be step, part, phase, module, region, op or kernel, not 'colour'"),
        ({"sigmas": -1.0}, "sigmas must be 0 or more, not -1.0"),
        ({"sigmas": float("nan")}, "sigmas must be 0 or more, not nan"),
        ({"timeline": "tpu"}, "timeline must be gpu or cpu"),
        ({"timeline": "cpu", "by": "kernel"}, "the CPU runs no kernels"),
        ({"rank_a": 5}, "trace a has no rank 5"),
        ({"device_b": 5}, "trace b has no device 5"),
        ({"step_b": 9}, "trace b has no step 9"),
        ({"phase": "lunch"}, "phase must be load_data, .* or other, not 'lunch'"),
        ({"phase": "loss"}, "neither trace has time in the phase 'loss'"),
        ({"module": "Net"}, "trace a has no module 'Net' Hint: The trace has no modules"),
    ],
)
def test_what_is_not_there(a: Trace, b: Trace, options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryParameterError, match=message):
        ha.diff(a, b, **options)


def test_a_module_that_one_side_lacks_is_new(a: Trace, tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).step(0, 0, 100).module("Net", 0, 0, 90)
    b = built.op("aten::mm", 10, 20).launches("gemm", 30, 70).load(tmp_path)
    row = ha.diff(a, b, by="step", module="Net_0").row(0, named=True)
    assert (row["change"], row["a_ns"], row["delta_ns"]) == ("added", 0, 30_000 + 40_000)  # idle before it, busy
    assert ha.diff(b, a, by="step", module="Net_0")["change"].to_list() == ["removed"]


def test_the_report_adds_up_and_tells_of_graphs(a: Trace, tmp_path: Path) -> None:
    built = TraceBuilder(rank=0)
    for number in range(3):
        at = 1000 * number
        built.step(number, at, at + 1000).op("CompiledFunction", at + 10, at + 20)
        built.runtime("cudaGraphLaunch", at + 12, at + 14, correlation=700 + number)
        built.kernel("gemm", at + 100, at + 500, correlation=700 + number)
    report = ha.diff_report(a, built.load(tmp_path))
    for section in report.sections:
        total = section.rows.filter(pl.col("label") == "total").row(0, named=True)
        others = section.rows.filter(pl.col("label") != "total")
        assert others["delta_ns"].sum() == total["delta_ns"] == 0
    text = report.to_text()
    assert "by graphs" in text
    assert "CompiledFunction" in text
    assert "only in B" in text
    assert report.to_markdown()
    assert '"delta_ns"' in report.to_json()


def test_a_part_that_changed_is_told_although_the_steps_vary_by_more(tmp_path: Path) -> None:
    """Steps of 1200 and 1180 us on average, 200 apart from each other; the kernel in them takes 80 us less.

    21 us less would be more than the 20 of the step, too, but no fiftieth of it.
    """

    def built(gemm: int, lengths: list[int], name: str) -> Trace:
        trace, at = TraceBuilder(rank=0), 0
        for number, length in enumerate(lengths):
            trace.step(number, at, at + length)
            trace.op("aten::mm", at + 10, at + 20).launches("sgemm", at + 100, at + 100 + gemm)
            at += length
        folder = tmp_path / name
        folder.mkdir()
        return trace.load(folder)

    shorter = [980, 1180, 1380]
    with built(100, [1000, 1200, 1400], "a") as left:
        with built(20, shorter, "b") as right:
            said = ha.diff_report(left, right).headline
        with built(79, shorter, "c") as right:
            small = ha.diff_report(left, right).headline
    assert said.startswith("No difference beyond noise: a step takes 1.20 ms in A and 1.18 ms in B")
    assert said.endswith(
        " These parts changed by more than the step, and beyond their own noise:"
        " computation \N{MINUS SIGN}80.0 \N{MICRO SIGN}s."
    )
    assert small.startswith("No difference beyond noise")
    assert small.endswith(" would count.")
