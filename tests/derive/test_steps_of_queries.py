"""Single steps of long queries, on traces small enough to work their rows out by hand. Times are in microseconds."""

from pathlib import Path

from tests.derive.tables import Row, step_rows
from tests.derive.updates import updating
from tests.trace_builder import TraceBuilder

LOAD = "enumerate(DataLoader)#_SingleProcess.__next__"
OPTIMIZER = "Optimizer.step#SGD.step"
ZERO_GRAD = "Optimizer.zero_grad#SGD.zero_grad"


def phase_gap(trace: TraceBuilder, folder: Path, sql: str) -> list[Row]:
    return step_rows(trace.load(folder), "phase_gap", sql)


def test_main_piece_has_the_gaps_and_the_rest_of_the_step(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).annotation(LOAD, 10, 20).annotation(OPTIMIZER, 60, 70)
    sql = "select start_ns / 1000, end_ns / 1000, label, previous, next, is_step from main_piece order by start_ns"
    assert phase_gap(trace, tmp_path, sql) == [
        (0, 10, None, None, "load_data", True),
        (10, 20, "load_data", None, None, True),
        (20, 60, None, "load_data", "optimizer", True),
        (60, 70, "optimizer", None, None, True),
        (70, 100, None, "optimizer", None, True),
    ]


def test_phase_sign_leaves_out_what_an_op_does_inside(tmp_path: Path) -> None:
    """A layer; a value that the program reads, but none that an op reads; an op that autograd comes back to."""
    trace = TraceBuilder().step(0, 0, 100).annotation(LOAD, 0, 10).op("aten::linear", 20, 28, seq=1)
    trace.op("aten::item", 30, 35).op("aten::allclose", 40, 50).op("aten::item", 42, 48)
    trace.backward("AddmmBackward0", 60, 70, seq=1)
    sql = "select distinct kind, start_ns / 1000, end_ns / 1000, piece_ns / 1000 from phase_sign order by all"
    assert phase_gap(trace, tmp_path, sql) == [
        ("differentiable", 20, 28, 10),
        ("layer", 20, 28, 10),
        ("read", 30, 35, 10),
    ]


def test_phase_piece_keeps_the_ends_of_a_run_of_backward(tmp_path: Path) -> None:
    """Of three nodes and the empty gaps between them, the first and the last node stand for the run."""
    trace = TraceBuilder().step(0, 0, 100)
    for number in range(3):
        trace.op("aten::mul", 10 * number, 10 * number + 8, seq=number)
    for number in range(3):
        trace.backward("MulBackward0", 40 + 10 * number, 48 + 10 * number, seq=2 - number)
    sql = "select start_ns / 1000, end_ns / 1000, is_inner from phase_piece where start_ns >= 40000 order by start_ns"
    assert phase_gap(trace, tmp_path, sql) == [
        (40, 48, False),
        (48, 50, True),
        (50, 58, True),
        (58, 60, True),
        (60, 68, False),
        (68, 100, False),
    ]


def test_phase_timeline_counts_stretches_and_turns(tmp_path: Path) -> None:
    """`zero_grad` ends no stretch, and backward no turn."""
    trace = TraceBuilder().step(0, 0, 100).annotation(LOAD, 0, 10).annotation(ZERO_GRAD, 20, 30)
    trace.annotation("backward", 40, 50).annotation(OPTIMIZER, 60, 70)
    columns = "start_ns / 1000, label, before_phase, previous_phase, after_phase, stretch::int, turn::int"
    sql = f"select {columns} from phase_timeline order by start_ns"
    assert phase_gap(trace, tmp_path, sql) == [
        (0, "load_data", None, None, "backward", 0, 0),
        (10, None, "load_data", "load_data", "backward", 1, 1),
        (20, "zero_grad", "load_data", None, "backward", 1, 1),
        (30, None, "load_data", "zero_grad", "backward", 1, 1),
        (40, "backward", "load_data", None, "optimizer", 1, 1),
        (50, None, "backward", "backward", "optimizer", 2, 1),
        (60, "optimizer", "backward", None, None, 2, 1),
        (70, None, "optimizer", "optimizer", None, 3, 2),
    ]


def test_trained_span_starts_with_the_op_around(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::linear", 20, 30).op("aten::addmm", 22, 28, seq=1)
    trace.op("aten::mul", 32, 36, seq=2).backward("MulBackward0", 60, 64, seq=2)
    trace.backward("AddmmBackward0", 64, 70, seq=1)
    sql = "select stretch::int, first_ns / 1000, known_ns / 1000 from trained_span"
    assert phase_gap(trace, tmp_path, sql) == [(0, 20, 36)]


def test_optimizer_span_asks_for_as_many_updates_as_a_quarter_of_the_gradients(tmp_path: Path) -> None:
    """Of four gradients that is one, but a single update is no optimizer."""
    sql = "select start_ns / 1000, end_ns / 1000 from optimizer_span"
    assert phase_gap(updating(60), tmp_path, sql) == []
    assert phase_gap(updating(60, 70), tmp_path, sql) == [(60, 75)]


def test_optimizer_span_ends_before_the_longest_pause(tmp_path: Path) -> None:
    """From 75 to 130 there is nothing: more than half of the time from 60 to 135. The side with more updates counts."""
    sql = "select start_ns / 1000, end_ns / 1000 from optimizer_span"
    assert phase_gap(updating(60, 65, 70, 130), tmp_path, sql) == [(60, 75)]


def test_weight_copy_asks_for_as_many_copies_as_gradients(tmp_path: Path) -> None:
    """Three copies of one name and three gradients; a clone alone, and a copy inside an op, are others."""
    trace = TraceBuilder().step(0, 0, 200).op("aten::copy_", 0, 5).op("aten::copy_", 10, 15).op("aten::copy_", 20, 25)
    trace.op("aten::clone", 26, 28).op("aten::to", 30, 38).op("aten::copy_", 32, 36).annotation("forward", 50, 60)
    for number in range(3):
        trace.op("torch::autograd::AccumulateGrad", 70 + 5 * number, 75 + 5 * number)
    copies = "select start_ns / 1000, end_ns / 1000, before_phase, had_batch from weight_copy order by 1"
    assert phase_gap(trace, tmp_path, copies) == [(at, at + 5, None, False) for at in (0, 10, 20)]
    assert phase_gap(trace, tmp_path, "select turn::int, gradients from turn_gradient") == [(1, 3)]


def test_batch_span_parts_what_is_logged_from_what_is_fetched(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::item", 5, 10).op("aten::stack", 20, 30)
    trace.op("aten::arange", 35, 40).annotation("forward", 50, 60)
    columns = "logged_ns / 1000, reading_ns / 1000, fetching_ns / 1000, fetched_ns / 1000, made_ns / 1000"
    assert phase_gap(trace, tmp_path, f"select {columns} from batch_span") == [(10, 5, 20, 30, 35)]


def test_phase_name_starts_an_annotation_with_its_tensor(tmp_path: Path) -> None:
    """`record_function` makes a tensor right before; one that is older than 30 us is another's."""
    trace = TraceBuilder().step(0, 0, 200).op("aten::zeros", 10, 12).annotation("forward", 14, 30)
    trace.op("aten::zeros", 40, 42).annotation("backward", 80, 90)
    sql = "select strong_phase, start_ns / 1000, end_ns / 1000 from phase_name where bucket is null order by start_ns"
    assert step_rows(trace.load(tmp_path), "marker", sql) == [("forward", 10, 30), ("backward", 80, 90)]


def test_marked_step_cuts_a_step_where_the_next_one_starts(tmp_path: Path) -> None:
    trace = TraceBuilder().annotation("train_step", 0, 50).annotation("train_step", 60, 90)
    trace.annotation("inner step 3", 62, 70).annotation("optimizer step", 92, 95)
    sql = "select step, name, start_ns / 1000, end_ns / 1000, evidence from marked_step order by start_ns"
    assert step_rows(trace.load(tmp_path), "step", sql) == [
        (0, "train_step", 0, 50, "annotation"),
        (1, "train_step", 60, 90, "annotation"),
    ]


def test_launch_link_takes_correlation_before_external_id(tmp_path: Path) -> None:
    trace = TraceBuilder().op("aten::mm", 0, 20, **{"External id": 4})
    trace.runtime("cudaLaunchKernel", 5, 8, correlation=7)
    trace.kernel("linked", 10, 15, correlation=7, **{"External id": 4})
    trace.kernel("by_op", 20, 25, correlation=8, **{"External id": 4}).kernel("alone", 30, 35, correlation=9)
    sql = "select event_id, runtime_id, op_id, link from launch_link order by event_id"
    assert step_rows(trace.load(tmp_path), "launch_of_work", sql) == [
        (2, 1, None, "correlation"),
        (3, None, 0, "external_id"),
    ]


def test_launched_gap_is_due_50_us_after_the_call(tmp_path: Path) -> None:
    """The device has nothing to do from 10 to 200; the call that ends it starts at 100 and returns at 110."""
    trace = TraceBuilder().step(0, 0, 210).op("aten::mm", 0, 8).launches("first", 0, 10, at=0, until=1)
    trace.op("aten::mm", 90, 120).launches("second", 200, 210, at=100, until=110)
    loaded = trace.load(tmp_path)
    sql = (
        "select start_ns / 1000, end_ns / 1000, launched_ns / 1000, returned_ns / 1000, due_ns / 1000, is_unlinked"
        " from launched_gap"
    )
    assert step_rows(loaded, "idle_part", sql) == [(10, 200, 100, 110, 160, False)]
    # Until 90 the thread is inside the step's mark and no op.
    waits = "select kind, start_ns / 1000, end_ns / 1000 from host_wait where end_ns > start_ns order by start_ns"
    assert step_rows(loaded, "idle_part", waits) == [("python", 10, 90), ("op", 90, 100)]


def test_peak_block_holds_what_is_alive_at_the_peak(tmp_path: Path) -> None:
    """At 30 the second block makes the peak. The first was released at 20, and the third is older than the trace."""
    trace = TraceBuilder().op("aten::mm", 0, 100).memory(100, 10, total=150, address=1)
    trace.memory(-100, 20, total=50, address=1).memory(200, 30, total=250, address=2)
    trace.memory(-50, 40, total=200, address=3)
    loaded = trace.load(tmp_path)
    sql = "select bytes, evidence from peak_block order by bytes"
    assert step_rows(loaded, "memory_peak", sql) == [(50, "before_trace"), (200, "no_rule")]
    assert step_rows(loaded, "memory_peak", "select peak_bytes, peak_ns / 1000 from peak_moment", rank=0) == [(250, 30)]


def test_asked_memory_leaves_out_other_devices_and_what_changes_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(100, 10, total=100).memory(0, 20, total=100).memory(200, 30, total=200, device=0)
    loaded = trace.load(tmp_path)
    sql = "select device_type, device, start_ns / 1000, bytes, allocated_bytes from asked_memory order by start_ns"
    assert step_rows(loaded, "memory_peak", sql) == [("cpu", -1, 10, 100, 100), ("cuda", 0, 30, 200, 200)]
    assert step_rows(loaded, "memory_peak", sql, device=0) == [("cuda", 0, 30, 200, 200)]
    assert step_rows(loaded, "memory_peak", sql, rank=1) == []


def trained() -> TraceBuilder:
    """After loading until 10: a layer that backward comes back to at 60, a softmax, and a value that is read."""
    trace = TraceBuilder().step(0, 0, 100).annotation(LOAD, 0, 10).op("aten::linear", 20, 28, seq=1)
    trace.op("aten::softmax", 29, 31).op("aten::item", 35, 40)
    return trace.backward("AddmmBackward0", 60, 70, seq=1)


def test_gap_sign_has_the_stretch_between_loading_and_backward(tmp_path: Path) -> None:
    columns = "kind, start_ns / 1000, end_ns / 1000, stretch::int, turn::int, before_phase, had_batch"
    assert phase_gap(trained(), tmp_path, f"select distinct {columns} from gap_sign order by 2, 1") == [
        ("differentiable", 20, 28, 1, 1, "load_data", True),
        ("layer", 20, 28, 1, 1, "load_data", True),
        ("output", 29, 31, 1, 1, "load_data", True),
        ("read", 35, 40, 1, 1, "load_data", True),
    ]


def test_phase_stretch_has_the_borders_that_its_signs_tell(tmp_path: Path) -> None:
    times = ("optimizer", "updated", "first", "known", "layer", "modelled", "output", "read")
    columns = ", ".join(f"{name}_ns / 1000" for name in times)
    expected = [(1, None, None, 20, 28, 20, 31, 31, 40)]
    assert phase_gap(trained(), tmp_path, f"select stretch::int, {columns} from phase_stretch") == expected
    # Two updates after backward, from 60 to 75.
    updates = f"select {columns} from phase_stretch where optimizer_ns is not null"
    assert phase_gap(updating(60, 70), tmp_path, updates) == [(60, 75, None, None, None, None, None, None)]


def test_ended_annotation_has_those_of_the_user_that_end(tmp_path: Path) -> None:
    trace = TraceBuilder().annotation("ended", 10, 20).op("aten::mm", 12, 18)
    trace.event(ph="B", cat="user_annotation", name="open", pid=1, tid=1, ts=30)
    sql = "select name, start_ns / 1000, end_ns / 1000 from ended_annotation"
    assert step_rows(trace.load(tmp_path), "step", sql) == [("ended", 10, 20)]
