from itertools import pairwise
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.derive.tables import rows, step_rows
from tests.trace_builder import TraceBuilder


def pieces(trace: Trace, *columns: str) -> list[tuple[object, ...]]:
    """Thread, start and end in us, and some columns of each piece, in order; pieces of a thread must touch."""
    found = rows(
        trace,
        "select tid, number, start_ns / 1000, end_ns / 1000, kind, step, phase from host_activity"
        " inner join track using (rank, track_id) order by tid, number",
    )
    for before, after in pairwise(found):
        assert before[0] != after[0] or (before[1] + 1 == after[1] and before[3] == after[2])
    assert all(row[3] is None for row, after in zip(found, [*found[1:], (None,)], strict=True) if row[0] != after[0])
    chosen = [("kind", "step", "phase").index(column) for column in columns or ("kind",)]
    return [(row[0], row[2], row[3], *(row[4 + at] for at in chosen)) for row in found]


def test_loading_over_waiting_over_ops_over_python(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 40).launches("k", 12, 14, at=12, until=13)
    trace.op("b", 20, 30).runtime("cudaStreamSynchronize", 35, 38).runtime("cudaLaunchKernel", 45, 50)
    trace.annotation("## load data ##", 60, 80).op("copy", 65, 70).runtime("cudaMemcpy", 66, 69)
    trace.on(2).op("not a thread of the loop", 0, 100)
    assert pieces(trace.load(tmp_path)) == [
        ("1", 0, 10, "python"),
        ("1", 10, 35, "op"),
        ("1", 35, 38, "sync"),
        ("1", 38, 40, "op"),
        ("1", 40, 45, "python"),
        ("1", 45, 50, "op"),
        ("1", 50, 60, "python"),
        ("1", 60, 80, "load_data"),
        ("1", 80, 100, "python"),
        ("1", 100, None, "nothing"),
    ]


def test_arithmetic_on_cpu_tensors_calls_nothing_of_the_gpu(tmp_path: Path) -> None:
    """`max` computes, `view` describes, `mm` has a call, `to` holds a copy on the CPU, and a node holds `mul`."""
    trace = TraceBuilder().step(0, 0, 100).annotation("## forward ##", 0, 100)
    trace.op("aten::max", 10, 20).op("aten::view", 20, 30)
    trace.op("aten::mm", 30, 40).launches("k", 32, 36, at=31).op("aten::to", 40, 50).op("aten::copy_", 42, 48)
    trace.op("autograd::engine::evaluate_function: MulBackward0", 50, 60, seq=1).op("aten::mul", 52, 58)
    trace.op("autograd::engine::evaluate_function: TBackward0", 60, 70, seq=2).op("aten::t", 62, 68)
    found = [(start, end, kind) for _, start, end, kind in pieces(trace.load(tmp_path))]
    assert found == [
        (0, 10, "python"),
        (10, 20, "cpu_tensor"),
        (20, 40, "op"),
        (40, 50, "cpu_tensor"),  # backward begins at 50
        (50, 60, "cpu_tensor"),
        (60, 70, "op"),
        (70, 100, "python"),
        (100, None, "nothing"),
    ]


def test_a_long_pause_in_a_call_of_autograd_is_a_hook(tmp_path: Path) -> None:
    """A hook of a tensor runs 150 us before the node, another 120 us after an op; 90 us are too short to tell."""
    node = "torch::autograd::AccumulateGrad"
    engine = f"autograd::engine::evaluate_function: {node}"
    trace = TraceBuilder().step(0, 0, 1000).op(engine, 100, 400).op("aten::norm", 110, 120).op(node, 270, 400)
    trace.op("aten::detach", 270, 280).op(engine, 500, 600).op(node, 590, 600).op("aten::detach", 590, 600)
    trace.op("autograd::engine::evaluate_function: MulBackward0", 700, 900, seq=1)  # nothing inside
    loaded = trace.load(tmp_path)
    hooks = step_rows(loaded, "host_activity", "select start_ns / 1000, end_ns / 1000 from hook order by all")
    assert hooks == [(120, 270), (280, 400)]
    found = [(start, end, kind) for _, start, end, kind in pieces(loaded)]
    assert found == [
        (0, 100, "python"),
        (100, 120, "cpu_tensor"),
        (120, 270, "python"),
        (270, 280, "cpu_tensor"),
        (280, 500, "python"),
        (500, 600, "op"),
        (600, 700, "python"),
        (700, 900, "op"),
        (900, 1000, "python"),
        (1000, None, "nothing"),
    ]


def test_work_that_only_an_external_id_links_is_no_arithmetic_on_the_cpu(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 20, **{"External id": 7})
    trace.kernel("gemm", 30, 40, **{"External id": 7})
    assert "cpu_tensor" not in {kind for *_, kind in pieces(trace.load(tmp_path))}


def test_threads_that_launch_have_their_own(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 20).runtime("cudaLaunchKernel", 11, 12)
    trace.on(2).op("b", 30, 45).launches("k", 50, 60).on(3).op("c", 50, 60)
    found = pieces(trace.load(tmp_path))
    assert [row for row in found if row[0] == "2"] == [
        ("2", 0, 30, "nothing"),
        ("2", 30, 45, "op"),
        ("2", 45, 100, "nothing"),  # the step ends
        ("2", 100, None, "nothing"),
    ]
    assert {row[0] for row in found} == {"1", "2"}


def test_calls_that_touch_overlap_or_nest_are_one(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("a", 10, 20).runtime("x", 11, 12).op("b", 20, 30).runtime("x", 21, 22)
    trace.runtime("cudaMalloc", 40, 60).runtime("cudaMemsetAsync", 45, 50).op("nothing", 80, 80)
    found = [(start, end, kind) for _, start, end, kind in pieces(trace.load(tmp_path))]
    assert found[1:4] == [(10, 30, "op"), (30, 40, "python"), (40, 60, "op")]


def test_pieces_have_the_step_and_phase_of_their_thread(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 10, 50).annotation("## forward ##", 20, 40).step(1, 50, 90)
    trace.annotation("after", 90, 95)
    assert pieces(trace.load(tmp_path), "step", "phase") == [
        ("1", 10, 20, 0, "load_data"),  # what comes before a forward pass
        ("1", 20, 40, 0, "forward"),
        ("1", 40, 50, 0, "other"),
        ("1", 50, 90, 1, "other"),
        ("1", 90, 95, None, None),
        ("1", 95, None, None, None),
    ]


def test_a_file_that_is_cut_off_may_lack_the_calls_of_an_op(tmp_path: Path) -> None:
    """The second `mm` has lost its call: it does not compute on the CPU, and nothing tells that `max` does."""
    trace = TraceBuilder().step(0, 0, 100).annotation("## forward ##", 0, 100)
    trace.op("aten::max", 10, 20).op("aten::mm", 30, 40).op("aten::mm", 50, 60).launches("k", 32, 36, at=31)
    file = tmp_path / "cut.json"
    file.write_text(trace.text().removesuffix("\n]}\n"))
    with pytest.warns(ha.HotlineWarning, match="ends inside the events"):
        cut = ha.load(file)
    kinds = [[kind for *_, kind in pieces(opened)] for opened in (cut, trace.load(tmp_path))]
    assert [found.count("cpu_tensor") for found in kinds] == [0, 2]
