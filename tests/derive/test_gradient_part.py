"""What ops between backward and the optimizer do with gradients: `gradient_op`, `clip_unit` and `gradient_part`."""

from pathlib import Path

from hotline_analysis import catalog
from tests.derive.tables import Row, step_rows
from tests.derive.updates import clipped, scaled
from tests.trace_builder import TraceBuilder


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


def parts(trace: TraceBuilder, folder: Path) -> list[Row]:
    folder.mkdir()
    with trace.load(folder) as opened:
        return step_rows(
            opened,
            "gradient_part",
            f"select label, start_ns / 1000, end_ns / 1000 from ({catalog.get('gradient_part').sql}) order by start_ns",
        )


def test_the_parts_are_the_clip_and_the_scaler(tmp_path: Path) -> None:
    """`gradient_part`: a scaler unscales from the inverse of the scale on, and its flag is read until the optimizer."""
    assert parts(clipped(), tmp_path / "clipped") == [("clipping", 70, 110)]
    assert parts(scaled(), tmp_path / "scaled") == [
        ("optimizer", 70, 80),
        ("optimizer", 90, 100),
        ("optimizer", 190, 200),
    ]
