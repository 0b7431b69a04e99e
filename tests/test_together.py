"""Several threads that ask one trace, and reports whose questions are asked at once."""

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import hotline_analysis as ha
from hotline_analysis import HotlineError, Trace
from hotline_analysis.database import rows_of
from hotline_analysis.run import together as module
from hotline_analysis.run.kept import KeptAnswers
from hotline_analysis.run.together import Together
from tests.trace_builder import TraceBuilder

LONG = "select sum(a.range * b.range) as s from range(10_000_000) a, range(10_000_000) b"  # takes hours
SOON_S = 20.0  # on a busy machine


def built(rank: int) -> TraceBuilder:
    made = TraceBuilder(rank=rank)
    for step in range(4):
        start = 1000 * step
        made.step(step, start, start + 900).module("Net", 0, start + 1, start + 600)
        made.op("aten::mm", start + 2, start + 500)
        made.launches("gemm", start + 100, start + 700, at=start + 5, until=start + 8)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    traces = tmp_path_factory.mktemp("traces")
    for rank in range(6):
        built(rank).write(traces / f"rank{rank}.json")
    return ha.import_traces(traces, tmp_path_factory.mktemp("runs") / "run.hotline")


@pytest.fixture
def trace(folder: Path) -> Iterator[Trace]:
    with ha.load(folder) as opened:
        yield opened


@pytest.mark.slow
def test_threads_that_ask_a_trace_get_what_one_gets(folder: Path) -> None:
    """Of all ranks and of single ones, more than stay open, each thread in another order."""
    names = ["phases", "slowest_ops", "idle_breakdown", "device_use"]
    asked = [(name, rank) for name in names for rank in (None, *range(6))]
    with ha.load(folder) as one:
        expected = {(name, rank): one.query(name, rank=rank) for name, rank in asked}
    with ha.load(folder) as many:

        def ask(turn: int) -> dict[tuple[str, int | None], pl.DataFrame]:
            mine = asked[turn * 9 :] + asked[: turn * 9]
            return {(name, rank): many.query(name, rank=rank) for name, rank in mine}

        with ThreadPoolExecutor(3) as pool:
            for found in pool.map(ask, range(3)):
                for question, frame in expected.items():
                    assert_frame_equal(found[question], frame)


@pytest.mark.parametrize("count", [4, 1, 2])
@pytest.mark.sampled
def test_a_report_is_the_same_with_any_number_of_threads(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    texts = []
    for processors in (1, count):
        monkeypatch.setattr(module, "processors", lambda number=processors: number)
        with ha.load(folder) as trace:
            texts.append(ha.report(trace, rank=2).to_text())
    assert texts[0] == texts[1]
    assert "What limits" in texts[0] or "GPU" in texts[0]


@pytest.mark.parametrize("processors", [1, 2, 4])
def test_every_answer_arrives_where_it_was_asked(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr(module, "processors", lambda: processors)
    with Together(trace) as together:
        asked = [together.ask(trace.sql, "select $n as n", n=number) for number in range(9)]
        assert [each.result().item() for each in asked] == list(range(9))
        assert asked[3].result().item() == 3


@pytest.mark.parametrize("processors", [1, 2])
def test_the_error_of_a_question_is_raised_where_its_result_is_asked_for(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, processors: int
) -> None:
    monkeypatch.setattr(module, "processors", lambda: processors)
    with Together(trace) as together:
        wrong, right = together.ask(trace.query, "no_such_query"), together.ask(trace.query, "steps", rank=1)
        with pytest.raises(ha.QueryNotFoundError, match="no_such_query"):
            wrong.result()
        assert right.result().height == 4


def test_an_error_of_the_block_stops_what_runs(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C in a notebook does; what has not begun is not asked."""
    monkeypatch.setattr(module, "processors", lambda: 2)
    runs, never = threading.Event(), threading.Event()

    def ask(of: Trace) -> None:
        runs.set()
        of.sql(LONG)

    began = time.monotonic()
    for of in (trace, trace.of(3)):
        runs.clear()
        asked = []
        with suppress(KeyboardInterrupt), Together(trace) as together:
            asked = [together.ask(ask, of), together.ask(never.set)]
            assert runs.wait(SOON_S)
            raise KeyboardInterrupt
        with pytest.raises(HotlineError, match="stopped"):
            asked[0]._future.result(0)
    assert time.monotonic() - began < SOON_S
    assert not never.is_set()
    assert trace.sql("select 1 as one").item() == 1  # and the trace can be asked again


def test_a_limit_of_time_is_that_of_the_thread_that_set_it(trace: Trace) -> None:
    others = ThreadPoolExecutor(1)
    half_a_second = "select count(*) as n from range(30_000) a, range(20_000) b where a.range + b.range > 5"
    slow = others.submit(trace.sql, half_a_second)
    with pytest.raises(HotlineError, match="too long"), trace.at_most(0.2):
        trace.sql(LONG)
    assert slow.result().item() > 0
    others.shutdown()


def test_a_closed_trace_says_so_to_every_thread(folder: Path) -> None:
    trace = ha.load(folder)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(trace.sql, "select 1 as one").result().item() == 1
        trace.close()
        for ask in (trace.sql, lambda query: other.submit(trace.sql, query).result()):
            with pytest.raises(HotlineError, match="closed"):
                ask("select 1 as one")


# --- answers that are kept -------------------------------------------------------------------------------------------


def waiting(first: Callable[[], pl.DataFrame], second: Callable[[], pl.DataFrame]) -> list[Any]:
    """What two threads get that ask for one answer while the first of them looks for it."""
    kept, looks = KeptAnswers(), threading.Event()
    goes_on = threading.Event()

    def slow() -> pl.DataFrame:
        looks.set()
        assert goes_on.wait(SOON_S)
        return first()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(kept.get, ("q", 1), slow)
        assert looks.wait(SOON_S)
        two = pool.submit(kept.get, ("q", 1), second)
        time.sleep(0.05)
        goes_on.set()
        return [each.exception() or each.result() for each in (one, two)]


def never() -> pl.DataFrame:
    raise AssertionError("asked twice")


def test_what_another_thread_is_looking_for_is_not_asked_again() -> None:
    frame = pl.DataFrame({"x": [1]})
    assert all(found.equals(frame) for found in waiting(lambda: frame, never))


def test_an_answer_too_large_to_be_kept_serves_those_who_wait() -> None:
    frame = pl.DataFrame({"x": range(1 << 18)})
    assert all(found.equals(frame) for found in waiting(lambda: frame, never))


def test_where_another_thread_fails_each_asks_itself() -> None:
    def fail() -> pl.DataFrame:
        raise ValueError("stopped")

    failed, found = waiting(fail, lambda: pl.DataFrame({"x": [2]}))
    assert isinstance(failed, ValueError)
    assert found["x"].to_list() == [2]


# --- warnings --------------------------------------------------------------------------------------------------------


def test_rows_copied_by_several_threads_leave_the_filters_of_warnings_alone() -> None:
    with warnings.catch_warnings(), duckdb.connect() as database:
        warnings.simplefilter("error")
        before = list(warnings.filters)

        def copy(number: int) -> int:
            with database.cursor() as mine:
                mine.execute("select $n as n from range(2000)", {"n": number})
                return int(rows_of(mine)["n"][0].as_py())

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(copy, range(400))) == list(range(400))
        assert warnings.filters == before
