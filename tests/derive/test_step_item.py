"""What steps are inferred from: the main thread, what it does one after the other, and calls of the model."""

from pathlib import Path

from hotline_analysis import catalog
from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder


def test_the_main_thread_is_the_one_that_backward_comes_back_to(tmp_path: Path) -> None:
    """`main_track`: another thread has more events, and a mark of a step would say more than both."""
    trace = TraceBuilder().on(1).op("aten::addmm", 0, 10, seq=1).on(2).backward("AddmmBackward0", 20, 25, seq=1)
    trace.on(3).op("first", 0, 1).op("second", 2, 3).op("third", 4, 5)
    sql = "select tid from main_track inner join track using (track_id)"
    (tmp_path / "marked").mkdir()
    assert derived(trace, tmp_path, sql) == [("1",)]
    assert derived(trace.step(0, 0, 9), tmp_path / "marked", sql) == [("3",)]


def test_the_loop_is_a_row_of_outermost_ops_and_nodes(tmp_path: Path) -> None:
    """`step_item`: a python function is looked through, and an op in another one or in a node is a part of it."""
    trace = TraceBuilder().on(1).op("aten::linear", 10, 15, seq=1).op("aten::addmm", 11, 14)
    trace.op("MyFunction", 20, 30).op("aten::mul", 22, 25).op("aten::stack", 32, 35)
    trace.op("aten::copy_", 40, 50).launches("Memcpy HtoD (Pageable -> Device)", 55, 60, category="gpu_memcpy")
    trace.op("MmBackward0", 62, 70, seq=1, forward_thread=1).op("aten::mm", 63, 68).op("aten::add_", 72, 75).op(
        "aten::item", 80, 85
    )
    trace.runtime("cudaDeviceSynchronize", 90, 95)
    found = derived(
        trace,
        tmp_path,
        "select name, is_op, is_node, [is_update, is_read, is_fetch, is_input], forward_ns"
        f" from ({catalog.get('step_item').sql})",
    )
    nothing = [False] * 4
    assert found == [
        ("aten::linear", True, False, nothing, None),
        ("aten::mul", True, False, nothing, None),
        ("aten::stack", True, False, [False, False, True, False], None),
        ("aten::copy_", True, False, [False, False, False, True], None),
        ("MmBackward0", True, True, nothing, 10_000),
        ("aten::add_", True, False, [True, False, False, False], None),
        ("aten::item", True, False, [False, True, False, False], None),
        ("cudaDeviceSynchronize", False, False, nothing, None),
    ]


def test_the_model_is_the_outermost_module_with_most_time(tmp_path: Path) -> None:
    """`step_unit`: a module in it is no unit, and one with less than half of the time would be none, either."""
    trace = TraceBuilder().module("Net", 0, 0, 50).module("ReLU", 0, 10, 20).module("Metric", 0, 60, 70)
    trace.module("Net", 0, 100, 150)
    sql = catalog.get("step_unit").sql
    assert derived(trace, tmp_path, sql) == [(0, 50_000), (100_000, 150_000)]
    trace.module("Metric", 1, 200, 290).module("Metric", 2, 300, 390)
    (tmp_path / "less").mkdir()
    assert derived(trace, tmp_path / "less", sql) == []
