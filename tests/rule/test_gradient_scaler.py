import os
from pathlib import Path

import pytest

from hotline_analysis import Trace
from hotline_analysis.answers.rules import find_advice
from tests.rule.loop import found
from tests.runs import opened
from tests.trace_builder import TraceBuilder

RULE = "gradient_scaler"
CHECK = "aten::_amp_foreach_non_finite_check_and_unscale_"


def item(trace: TraceBuilder, start: int, done: int) -> None:
    """`.item()` from `start` until the GPU is done, which copies for the last 10 us."""
    number = trace.new_correlation()
    trace.op("aten::item", start, done + 4).op("aten::_local_scalar_dense", start, done + 4)
    trace.runtime("cudaMemcpyAsync", start + 1, done + 2, correlation=number)
    trace.gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", done - 10, done, correlation=number)


def scaled(folder: Path, *, check: bool = True, mark: str = "Optimizer.step#SGD.step", logged: bool = False) -> Trace:
    """Two steps of 600 us: backward runs on the GPU until 300, and the scaler reads its flag from 20 to 314.

    Then the CPU updates for 100 us, and works for 180 more without the GPU. If a norm is `logged` before, that waits.
    """
    trace = TraceBuilder(rank=0)
    for number in range(2):
        at = 600 * number
        trace.step(number, at, at + 600).op("aten::mm", at, at + 10).launches("gemm", at + 12, at + 290)
        if check:
            trace.op(CHECK, at + 10, at + 15).launches("unscale", at + 290, at + 295)
        if logged:
            item(trace, at + 16, at + 305)
        item(trace, at + (310 if logged else 20), at + (322 if logged else 310))
        if mark:
            trace.annotation(mark, at + 330, at + 400)
        else:
            trace.op("aten::_amp_update_scale_", at + 324, at + 328)
        trace.op("aten::_foreach_add_", at + 330, at + 400).launches("add", at + 340, at + 350, at=at + 335)
        trace.op("aten::relu", at + 580, at + 590).launches("relu", at + 590, at + 600)
    return trace.load(folder)


def test_the_scaler_no_longer_waits(tmp_path: Path) -> None:
    """The GPU is busy from 12 to 310, and the call begins at 21 and ends at 312."""
    count, time, gain = found(scaled(tmp_path), RULE) or (0, 0, 0)
    assert (count, time) == (1, 291)
    assert 270 <= gain <= 291


def test_it_is_no_value_that_could_be_logged_later(tmp_path: Path) -> None:
    assert found(scaled(tmp_path), "read_backs") is None


def test_a_skipped_step_has_no_mark(tmp_path: Path) -> None:
    assert found(scaled(tmp_path, mark=""), RULE) is not None


def test_what_is_logged_before_is_not_the_scaler(tmp_path: Path) -> None:
    """The norm waits until 305, and the scaler after it: only the last of both is the scaler's, which gains 12 us."""
    trace = scaled(tmp_path, logged=True)
    scaler, norm = (trace.query(rule, rank=0, step=0) for rule in (RULE, "read_backs"))
    assert (scaler.height, norm.height) == (1, 1)
    assert scaler["start_ns"].item() > norm["end_ns"].item()


def test_without_a_scaler_there_is_nothing_to_replace(tmp_path: Path) -> None:
    trace = scaled(tmp_path, check=False)
    assert found(trace, RULE) is None
    assert found(trace, "read_backs") is not None


@pytest.mark.skipif("HOTLINE_TRACES" not in os.environ, reason="HOTLINE_TRACES is not set")
def test_a_step_in_which_only_the_scaler_waits() -> None:
    """The call waits from 0.97 to 8.07 ms of each step of 9.9."""
    file = Path(os.environ["HOTLINE_TRACES"]).parent / "cases" / "35_gradscaler.json"
    if not file.exists():
        pytest.skip("the case is missing")
    said = {each.rule: each for each in find_advice(opened(file))}
    assert said[RULE].time_ns == pytest.approx(7_103_000, rel=0.01)
    assert "read_backs" not in said


def test_the_wait_is_the_last_value_read_after_the_check(tmp_path: Path) -> None:
    """`scaler_wait`: a norm that is logged before waits for another reason."""
    trace = scaled(tmp_path, logged=True)
    sql = "select start_ns / 1000 from scaler_wait inner join event using (rank, event_id) order by start_ns"
    assert trace.sql(sql).rows() == [(311,), (911,)]
