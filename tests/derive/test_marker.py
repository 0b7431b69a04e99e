"""What shows a phase: markers, their segments, stretches of autograd, and which of them counts."""

from pathlib import Path

from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder


def test_markers_are_counted_by_family(tmp_path: Path) -> None:
    """`marker`: each has a row for its start and one for its end. An annotation starts with the tensor made for it."""
    trace = TraceBuilder().op("aten::zeros", 0, 1).annotation("## forward ##", 2, 50).annotation("## loss ##", 10, 20)
    trace.op("aten::mse_loss", 12, 18).annotation("nccl:all_reduce", 30, 35)
    found = derived(
        trace,
        tmp_path,
        "select family, label, at_ns // 1000, opens, depth, next_ns // 1000 from marker order by family, at_ns, opens",
    )
    assert found == [
        ("bucket", "communication", 30, 1, 0, 35),
        ("bucket", "communication", 35, 0, 1, None),
        ("strong", "forward", 0, 1, 0, 10),
        ("strong", "loss", 10, 1, 1, 20),
        ("strong", "loss", 20, 0, 2, 50),
        ("strong", "forward", 50, 0, 1, None),
        ("weak", "loss", 12, 1, 0, 18),
        ("weak", "loss", 18, 0, 1, None),
    ]


def test_time_belongs_to_the_innermost_marker(tmp_path: Path) -> None:
    """`marker_segment`: nothing is left between two markers."""
    trace = TraceBuilder().annotation("## forward ##", 0, 50).annotation("## loss ##", 20, 30)
    trace.annotation("## backward ##", 60, 70)
    found = derived(
        trace,
        tmp_path,
        "select family, start_ns // 1000, end_ns // 1000, label, evidence from marker_segment order by start_ns",
    )
    assert found == [
        ("strong", 0, 20, "forward", "annotation"),
        ("strong", 20, 30, "loss", "annotation"),
        ("strong", 30, 50, "forward", "annotation"),
        ("strong", 60, 70, "backward", "annotation"),
    ]


def test_the_main_thread_waits_for_autograd_until_it_shows_another_phase(tmp_path: Path) -> None:
    """`backward_burst`: a hook behind the last node is a part of it."""
    trace = TraceBuilder().on(1).op("aten::addmm", 0, 10, seq=1).annotation("## optimizer ##", 50, 60)
    trace.op("aten::addmm", 70, 75, seq=2).on(2).backward("AddmmBackward0", 20, 25, seq=1)
    trace.backward("AddmmBackward0", 26, 30, seq=1).op("aten::mul", 35, 40).backward("AddmmBackward0", 80, 90, seq=2)
    found = derived(
        trace,
        tmp_path,
        "select track_id in (from main_track), start_ns // 1000, end_ns // 1000 from backward_burst order by 2, 1",
    )
    assert found == [(False, 20, 40), (True, 20, 40), (False, 80, 90), (True, 80, 90)]


def test_strong_markers_count_over_weak_ones_over_asides(tmp_path: Path) -> None:
    """`phase_evidence`: the loss in `## forward ##` is forward, the one after it is loss."""
    trace = TraceBuilder().step(0, 0, 100).annotation("## forward ##", 10, 40).op("aten::mse_loss", 20, 30)
    trace.op("aten::mse_loss", 50, 60).runtime("cudaDeviceSynchronize", 70, 80)
    found = derived(
        trace,
        tmp_path,
        "select start_ns // 1000, end_ns // 1000, found.label, found.evidence from phase_evidence order by start_ns",
    )
    assert found == [
        (0, 10, None, None),
        (10, 20, "forward", "annotation"),
        (20, 30, "forward", "annotation"),
        (30, 40, "forward", "annotation"),
        (40, 50, None, None),
        (50, 60, "loss", "op_name"),
        (60, 70, None, None),
        (70, 80, "other", "op_name"),
    ]


def test_a_call_of_a_closure_is_not_the_optimizers(tmp_path: Path) -> None:
    """`phase_evidence` again: in the call, autograd and a loss count, and nothing between them does."""
    trace = TraceBuilder().step(0, 0, 100).annotation("Optimizer.step#LBFGS.step", 10, 90)
    trace.op("aten::mse_loss", 20, 30, seq=1).on(2).backward("MseLossBackward0", 40, 50, seq=1)
    found = derived(
        trace,
        tmp_path,
        "select start_ns // 1000, end_ns // 1000, found.label from phase_evidence"
        " where track_id in (from main_track) order by start_ns",
    )
    assert found == [
        (0, 10, None),
        (10, 20, None),
        (20, 30, "loss"),
        (30, 40, None),
        (40, 50, "backward"),
        (50, 90, "optimizer"),
    ]


def test_labels_change_at_every_border(tmp_path: Path) -> None:
    """`label_segment`: the last one of a thread has no end."""
    trace = TraceBuilder().step(0, 0, 100).annotation("## forward ##", 5, 50).module("Linear", 0, 10, 30)
    trace.op("aten::addmm", 12, 20)
    found = derived(
        trace,
        tmp_path,
        "select start_ns // 1000, end_ns // 1000, step, phase, module_id, pass from label_segment order by start_ns",
    )
    assert found == [
        (0, 5, 0, "load_data", None, None),
        (5, 10, 0, "forward", None, None),
        (10, 30, 0, "forward", 0, "forward"),
        (30, 50, 0, "forward", None, None),
        (50, 100, 0, "other", None, None),
        (100, None, None, None, None, None),
    ]
