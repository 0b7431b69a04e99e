"""`hotline whatif` and the chart: what they print, and what they refuse before a trace is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import charts
from tests.command import Result, hotline
from tests.scenario_steps import GEMM, POINTWISE, kernel, steps
from tests.whatif_traces import two_kernels, with_gradients

US = 1000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps of two kernels, of 40 and 60 us, on one stream; the CPU needs 20 us for a step."""
    return two_kernels(20, 40, 60).write(tmp_path_factory.mktemp("whatif") / "trace.json")


def test_the_list_has_a_range_for_each_and_a_reason_for_the_others(file: Path) -> None:
    text = " ".join(hotline("whatif", file).split())
    assert text.startswith("A step takes 100 µs (step 1 to 4); another run would take 96.0 µs to 104 µs.")
    assert "Alone, the CPU needs 20.0 µs, the GPU 100 µs. 100.0 % of it is explained." in text
    assert "The trace has no DataLoader calls." in text
    rows = json.loads(hotline("whatif", file, "--json"))["rows"]
    assert {row["scenario"] for row in rows} >= {"amp", "ddp", "loader"}
    assert all((row["predicted_ns"] is None) == (row["reason"] is not None) for row in rows)
    assert all(row["low_ns"] <= row["predicted_ns"] <= row["high_ns"] for row in rows if row["reason"] is None)


def test_edits_of_ones_own(file: Path, tmp_path: Path) -> None:
    after = tmp_path / "after.json"
    text = hotline("whatif", file, "--scale", "0.5: name = 'k0'", "--remove", "name = 'k1'", "-o", after)
    assert text.startswith("your scenario: a step takes 20.0 µs (")
    with ha.load(after) as trace:
        assert trace.sql("select distinct name from event where category = 'kernel'")["name"].to_list() == ["k0"]
    found = json.loads(hotline("whatif", file, "--scale", "0.5: name = 'k0'", "--json"))["prediction"]
    assert (found["baseline_ns"], found["predicted_ns"]) == (100 * US, 80 * US)
    assert len(found["evidence"]) == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("ampp",), "there is no scenario 'ampp'"),
        (("amp", "-p", "gemm=2"), "amp has no parameter 'gemm'"),
        (("amp", "-p", "matmul=fast"), "matmul of amp must be a number, not 'fast'"),
        (("amp", "-p", "matmul=-1"), "matmul of amp must be 0.001 or more, not '-1'"),
        (("-p", "matmul=2"), "parameters belong to a scenario"),
        (("amp", "--scale", "0.5: true"), "cannot be combined with a name"),
        (("--scale", "half: true"), "is not FACTOR:WHERE"),
        (("--scale", "-2: true"), "factor must be 0 or more, not -2.0"),
        (("--remove", "name"), "'name' is not a condition"),
        (("-o", "after.json"), "only the steps of a single scenario can be written"),
        (("no_recompute",), "no_recompute does not apply: no forward of a module is known to run again in backward"),
        (("--rank", "7"), "has no rank 7"),
    ],
)
@pytest.mark.sampled
def test_what_is_refused(file: Path, given: tuple[str, ...], said: str) -> None:
    result = Result("whatif", file, *given)
    assert result.status != 0
    assert said in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_the_chart_has_the_ranges_and_the_limits(tmp_path: Path) -> None:
    """A product of 90 us and a sum of 40 on the GPU, and 40 us of the CPU: half precision helps."""
    trace = steps(tmp_path, kernel(GEMM, 90), kernel(POINTWISE, 40))
    drawn = charts.whatif(trace).to_dict()
    rows = [row for part in drawn["datasets"].values() for row in part]
    applies = ha.whatif(trace).drop_nulls("predicted_ns")
    bars = {row["scenario"]: (row["low"], row["high"]) for row in rows if "scenario" in row}
    assert "amp" in bars
    assert set(bars) == set(applies["scenario"])
    for name, low, high in applies.select("scenario", "low_ns", "high_ns").rows():
        assert bars[name] == pytest.approx((low / US, high / US))
    assert {row["limit"]: row["at"] for row in rows if "limit" in row} == {
        "as recorded": 130,
        "the CPU alone": 40,
        "the GPU alone": 130,
    }
    assert " would help most: " in drawn["title"]["text"]


def test_the_chart_of_one_scenario_adds_up_to_the_step_before_and_after(tmp_path: Path) -> None:
    trace = steps(tmp_path, kernel(GEMM, 90), kernel(POINTWISE, 40), major=8)
    drawn = charts.whatif(trace, scenario="tf32").to_dict()
    rows = [row for part in drawn["datasets"].values() for row in part]
    total = {label: sum(row["time_ns"] for row in rows if row["label"] == label) for label in ("as recorded", "tf32")}
    assert total == {"as recorded": 130 * US, "tf32": 70 * US}  # 90 / 3 + 40
    assert drawn["title"]["text"] == "tf32: a step takes 70.0 µs, not 130 µs"


def test_tables_of_ranks_buckets_and_backward(tmp_path: Path) -> None:
    """Two ranks of `with_gradients` take 1,198.6 us at 1 GB/s, as `test_more_ranks_and_another_network` has it."""
    with_gradients(tmp_path)
    file = tmp_path / "trace.json"
    text = hotline("whatif", file, "scaling", "-p", "ranks=2", "-p", "gb_per_s=1")
    assert "1.20 ms" in text
    assert "GB/s" in text
    text = hotline("whatif", file, "bucket_sizes", "-p", "ranks=2", "-p", "mb=1,25")
    assert "default" in text
    assert "1 MiB" in text
    refused = Result("whatif", file, "backward_chain")
    assert "no backward pass with nodes of autograd" in " ".join(refused.err.split())
    assert "must be a number, not 'many'" in " ".join(
        Result("whatif", file, "bucket_sizes", "-p", "ranks=many").err.split()
    )
    assert "only the steps of a single scenario can be written" in " ".join(
        Result("whatif", file, "scaling", "-o", tmp_path / "after.json").err.split()
    )
