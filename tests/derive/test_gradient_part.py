"""What ops between backward and the optimizer do with gradients: `gradient_op`, `clip_unit` and `gradient_part`."""

from pathlib import Path

from hotline_analysis import catalog
from tests.derive.tables import derived, step_rows
from tests.trace_builder import TraceBuilder

CHECK = "aten::_amp_foreach_non_finite_check_and_unscale_"


def trained() -> TraceBuilder:
    """A step whose backward ends at 60."""
    trace = TraceBuilder().step(0, 0, 300).op("aten::linear", 10, 20, seq=1).op("aten::mse_loss", 20, 30, seq=2)
    return trace.backward("MseLossBackward0", 40, 50, seq=2).backward("LinearBackward0", 50, 60, seq=1)


def clipped() -> TraceBuilder:
    """Norms of two gradients from 70, the norm of these, a coefficient, two products to 110, then an optimizer."""
    trace = trained().op("aten::linalg_vector_norm", 70, 72).op("aten::linalg_vector_norm", 74, 76)
    trace.op("aten::stack", 78, 80).op("aten::linalg_vector_norm", 82, 84).op("aten::reciprocal", 86, 88)
    trace.op("aten::clamp", 90, 92).op("aten::mul_", 100, 104).op("aten::mul_", 106, 110)
    return trace.annotation("Optimizer.step#SGD.step", 200, 290).op("aten::_foreach_add_", 210, 280)


def test_each_op_between_backward_and_the_optimizer_is_of_a_kind(tmp_path: Path) -> None:
    """`gradient_op`: the norm of norms that were put together is the total, and ops in the mark are its own."""
    with clipped().load(tmp_path) as trace:
        found = step_rows(trace, "gradient_part", "select kind, start_ns / 1000 from gradient_op order by number")
    assert found == [
        ("norm", 70),
        ("norm", 74),
        ("gather", 78),
        ("total", 82),
        ("coefficient", 86),
        ("coefficient", 90),
        ("scale", 100),
        ("scale", 106),
        ("step", 200),
    ]


def test_a_clip_has_as_many_products_as_norms(tmp_path: Path) -> None:
    """`clip_unit`: from the first of eight ops before the mark to the last one."""
    with clipped().load(tmp_path) as trace:
        found = step_rows(trace, "gradient_part", "select start_number, end_number from clip_unit")
    assert found == [(1, 8)]


def test_the_parts_are_the_clip_and_the_scaler(tmp_path: Path) -> None:
    """`gradient_part`: a scaler unscales from the inverse of the scale on, and its flag is read until the optimizer."""
    sql = f"select label, start_ns / 1000, end_ns / 1000 from ({catalog.get('gradient_part').sql}) order by start_ns"
    (tmp_path / "scaled").mkdir()
    assert derived(clipped(), tmp_path, sql, "gradient_op", "clip_unit") == [("clipping", 70, 110)]
    scaled = trained().op("aten::reciprocal", 70, 72).op(CHECK, 74, 80).op("aten::item", 90, 95)
    scaled.annotation("Optimizer.step#SGD.step", 100, 190).op("aten::_amp_update_scale_", 195, 200)
    assert derived(scaled, tmp_path / "scaled", sql, "gradient_op", "clip_unit") == [
        ("optimizer", 70, 80),
        ("optimizer", 90, 100),
        ("optimizer", 190, 200),
    ]
