"""`frequent_kernel_patterns` and `kernel_sequence`, with every number by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import QueryParameterError, Trace
from tests.trace_builder import TraceBuilder

US = 1000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Three layers of gemm, add, relu, each by an op; a copy between them; then the same kernels twice from graphs."""
    built = TraceBuilder(rank=0).step(0, 0, 1000)
    for number in range(3):
        at = 100 * number
        built.op("layer", at + 10, at + 40)
        built.launches("gemm", at + 20, at + 30, at=at + 12, until=at + 14)
        built.launches("add", at + 31, at + 36, at=at + 16, until=at + 18)
        built.launches("relu", at + 42, at + 45, at=at + 33, until=at + 36)
        built.op(f"other{number}", at + 60, at + 65).launches(
            f"only{number}", at + 63, at + 64, at=at + 60, until=at + 61
        )
    for at in (400, 500):
        built.op("replay", at, at + 20).runtime("cudaGraphLaunch", at + 5, at + 15, correlation=900 + at)
        for part, name in enumerate(("gemm", "add", "relu")):
            built.kernel(name, at + 20 + 5 * part, at + 24 + 5 * part, correlation=900 + at)
        built.op("between", at + 60, at + 70).launches(f"unique{at}", at + 65, at + 68, at=at + 61, until=at + 62)
    return built.load(tmp_path_factory.mktemp("patterns"))


def test_a_pattern_inside_an_op(trace: Trace) -> None:
    rows = ha.frequent_kernel_patterns(trace, op="layer").rows(named=True)
    first = trace.sql("select min(event_id) as id from event where name = 'gemm'")["id"].item()
    assert rows == [
        {
            "pattern": "gemm → add → relu",
            "length": 3,
            "count": 3,
            "gpu_ns": 3 * 18 * US,
            "gap_ns": 3 * 7 * US,
            "cpu_ns": 3 * 24 * US,
            "launch_ns": 3 * 7 * US,
            # add was launched long before; relu's call began at 33, before add was done at 36, and so took all 6
            "saved_gap_ns": 3 * 7 * US,
            "saved_launch_ns": 3 * 5 * US,
            "first_rank": 0,
            "first_event_id": first,
        }
    ]


def test_what_a_graph_launches_saves_no_calls(trace: Trace) -> None:
    rows = ha.frequent_kernel_patterns(trace, op="replay").rows(named=True)
    assert [(row["pattern"], row["count"], row["saved_launch_ns"]) for row in rows] == [("gemm → add → relu", 2, 0)]
    assert rows[0]["launch_ns"] == 20 * US


def test_everywhere_it_repeats_five_times(trace: Trace) -> None:
    found = ha.frequent_kernel_patterns(trace)
    assert dict(found.select("pattern", "count").rows()) == {"gemm → add → relu": 5}
    assert ha.frequent_kernel_patterns(trace, min_count=6).is_empty()
    assert ha.frequent_kernel_patterns(trace, phase="optimizer").is_empty()
    with pytest.raises(QueryParameterError, match="no module 'no_such' Hint: The trace has no modules"):
        ha.frequent_kernel_patterns(trace, module="no_such")


def test_the_sequence_says_what_launching_costs(trace: Trace) -> None:
    rows = trace.query("kernel_sequence", op="layer").head(3)
    assert rows["place"].to_list() == [0, 1, 2]
    assert rows["gap_ns"].to_list() == [0, 1 * US, 6 * US]
    assert rows["launch_gap_ns"].to_list() == [0, 1 * US, 6 * US]
    assert rows["launch_ns"].to_list() == [2 * US, 2 * US, 3 * US]
    # The layers stand apart on the stream, where other work lies between.
    assert trace.query("kernel_sequence", op="layer")["place"].to_list() == [0, 1, 2, 4, 5, 6, 8, 9, 10]


def test_waiting_is_not_launching(tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).step(0, 0, 2000).op("aten::mm", 0, 10)
    built.launches("a", 10, 20, at=1, until=2).launches("b", 200, 210, at=2, until=3)
    built.op("aten::item", 20, 1000).launches("copy", 990, 995, at=21, until=999)
    built.kernel("unlinked", 1000, 1010)
    rows = built.load(tmp_path).query("kernel_sequence")
    assert rows["gap_ns"].to_list() == [0, 180 * US, 780 * US, 5 * US]
    assert rows["launch_gap_ns"].to_list() == [0, 0, 0, 0]
    assert rows["launch_ns"].to_list() == [1 * US, 1 * US, 10 * US, 0]
    assert rows["call_ns"].to_list() == [1 * US, 2 * US, 21 * US, None]


def test_limits_that_make_no_sense(trace: Trace) -> None:
    for limits, complaint in (
        ({"min_length": 1}, "min_length must be 2 or more, not 1"),
        ({"min_count": 1}, "min_count must be 2 or more, not 1"),
        ({"min_length": 5, "max_length": 4}, "max_length, 4, is less than min_length, 5"),
        ({"max_length": 2}, "max_length, 2, is less than min_length, 3"),
    ):
        with pytest.raises(QueryParameterError, match=f"^{complaint}$"):
            ha.frequent_kernel_patterns(trace, **limits)  # type: ignore[arg-type]
