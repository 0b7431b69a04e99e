"""Charts that ask a trace also draw the frame of their answer, and draw the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace, charts
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.prediction.studies.scaling import COLUMNS
from tests.charts.reading import data, title

ANSWERS: dict[str, Callable[[Trace], pl.DataFrame]] = {
    "whatif": lambda trace: ha.whatif(trace),
    "other_gpus": lambda trace: ha.on_gpu(trace),
    "copies": lambda trace: ha.share_gpu(trace, copies=(2, 4, 8, 16)),
    "memory_over_step": lambda trace: trace.query("memory_by_category"),
    "recomputation": lambda trace: ha.recomputation(trace),
}


@pytest.fixture(scope="module")
def demo() -> Iterator[Trace]:
    with ha.load(ha.demo_trace()) as trace:
        yield trace


@pytest.mark.parametrize("name", ["whatif", "other_gpus", "copies"])
def test_a_frame_is_drawn_as_its_trace(demo: Trace, name: str) -> None:
    chart: Any = getattr(charts, name)
    frame = ANSWERS[name](demo)
    assert not frame.is_empty()
    assert chart(frame).to_dict() == chart(demo).to_dict()


def test_another_selection_of_a_frame_is_drawn() -> None:
    """Of two GPUs one has a prediction: 20 ms, 2.5 times as fast as the 50 ms recorded."""
    row = {
        "gpu": "A", "memory_gib": 80, "predicted_ns": 20_000_000, "low_ns": 18_000_000, "high_ns": 25_000_000,
        "speedup": 2.5, "limit_after": "computing", "reason": None,
    }  # fmt: skip
    unknown = {"gpu": "B", "reason": "no figures"}
    chart = charts.other_gpus(pl.DataFrame([row, unknown]))
    assert title(chart) == "A step on other GPUs, instead of 50.0 ms"
    assert [(each["gpu"], each["predicted"]) for each in data(chart) if "gpu" in each] == [("A", 20.0)]


def test_the_scaling_of_a_frame() -> None:
    """8 ranks on networks of two bandwidths."""
    columns = {
        "ranks": [2, 8, 2, 8], "gb_per_s": [10.0, 10.0, 100.0, 100.0], "predicted_ns": [10, 12, 10, 10],
        "efficiency_pct": [90.0, 75.0, 99.0, 98.0], "low_efficiency_pct": [80.0, 70.0, 95.0, 94.0],
        "high_efficiency_pct": [95.0, 80.0, 100.0, 100.0], "hidden_gb_per_s": [20.0, 40.0, 20.0, 40.0],
    }  # fmt: skip
    chart = charts.scaling(pl.DataFrame(columns))
    assert title(chart) == "8 ranks need 40.0 GB/s to wait for nothing"
    assert {each["network"] for each in data(chart)} == {"10 GB/s", "100 GB/s"}
    assert set(columns) <= set(COLUMNS)


def test_memory_of_a_frame_has_no_phases() -> None:
    """800 bytes 20 us into a step: 300 of activations and 500 of parameters."""
    rows = [
        {"rank": 0, "start_ns": 0, "at_ns": at, "category": category, "bytes": size}
        for at, category, size in (
            *((0, "parameter", 500), (0, "activation", 0)),
            *((20_000, "parameter", 500), (20_000, "activation", 300)),
        )
    ]
    chart = charts.memory_over_step(pl.DataFrame(rows))
    assert title(chart) == "Most is allocated 20.0 µs into the step: 800 B, of which parameter is most"
    assert "phase" not in str(chart.to_dict()["encoding"])


def test_the_curve_of_a_frame() -> None:
    """One module, computed again in 50 us, lowers the peak from 4 to 3 KiB."""
    rows = {"module_path": ["", "net.0"], "peak_bytes": [4096, 3072], "added_ns": [0, 50_000]}
    chart = charts.recomputation(pl.DataFrame(rows))
    assert title(chart) == "A peak of 3 KiB costs 50.0 µs per step"
    assert [row["peak"] for row in data(chart)] == [4.0, 3.0]


@pytest.mark.parametrize("name", [*ANSWERS, "scaling"])
def test_a_frame_takes_no_parameters_of_the_answer(name: str) -> None:
    with pytest.raises(QueryParameterError, match="a frame is drawn as it is, without rank"):
        getattr(charts, name)(pl.DataFrame({"a": [1]}), rank=0)


def test_the_waits_of_one_scenario_need_the_trace() -> None:
    with pytest.raises(QueryParameterError, match="does not have the waits of one"):
        charts.whatif(pl.DataFrame({"a": [1]}), scenario="cuda_graph")


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="takes a Trace"):
        charts.copies([1])  # type: ignore[arg-type]
