"""When a thread of the loop waits for another thread of its process: `thread_wait`, by hand."""

from pathlib import Path

import pytest

from hotline_analysis import Trace
from tests.derive.tables import rows
from tests.trace_builder import TraceBuilder

MS = 1000


def waits(trace: Trace) -> list[tuple[object, ...]]:
    """Thread, start and end in us, kind, and the name of what is waited for."""
    return rows(
        trace,
        "select tid, start_ns / 1000, end_ns / 1000, kind, event.name from thread_wait"
        " inner join track using (rank, track_id)"
        " inner join (select rank, event_id, name from event) as event using (rank, event_id) order by tid, start_ns",
    )


def collective(start: int, end: int, *, next_op: int, name: str = "gloo:all_reduce") -> TraceBuilder:
    """The loop calls a collective, which another thread does, and goes on with an op."""
    trace = TraceBuilder().step(0, 0, next_op + 100).op("aten::mm", 0, 5)
    trace.op("c10d::allreduce_", 8, 10).op("aten::add", next_op, next_op + 10)
    return trace.on(5).annotation(name, start, end)


@pytest.mark.parametrize("name", ["gloo:all_reduce", "mpi:barrier", "ucc:all_gather"])
def test_the_loop_waits_until_a_collective_is_over(tmp_path: Path, name: str) -> None:
    trace = collective(12, 50, next_op=52, name=name).load(tmp_path)
    assert waits(trace) == [("1", 12, 50, "other_ranks", name)]
    kinds = "select start_ns / 1000, end_ns / 1000, kind from host_activity where kind = 'other_ranks'"
    assert rows(trace, kinds) == [(12, 50, "other_ranks")]


def test_a_collective_that_started_before_is_waited_for_from_the_last_event_on(tmp_path: Path) -> None:
    assert waits(collective(6, 50, next_op=52).load(tmp_path)) == [("1", 10, 50, "other_ranks", "gloo:all_reduce")]


@pytest.mark.parametrize(
    ("end", "next_op", "is_waited_for"),
    [
        (20, 28, True),  # 8 us for which the loop does nothing before the end, and 8 after it
        (20, 29, False),  # python runs for longer after the end than the collective took
        (60 * MS, 84 * MS, True),  # a thread wakes up within 24 ms, also on a busy machine
        (60 * MS, 84 * MS + 1, False),
        (60, 55, False),  # the loop goes on while the collective runs: it does not wait for it
    ],
)
def test_the_loop_goes_on_soon_after_what_it_waited_for(
    tmp_path: Path, end: int, next_op: int, is_waited_for: bool
) -> None:
    assert bool(waits(collective(12, end, next_op=next_op).load(tmp_path))) == is_waited_for


def test_in_backward_it_may_wake_up_late(tmp_path: Path) -> None:
    """DistributedDataParallel waits between the last node and the copy of its buckets, where no python runs."""
    trace = TraceBuilder().step(0, 0, 110 * MS).annotation("## forward ##", 0, 100)
    trace.op("aten::mm", 10, 20, seq=1).backward("MmBackward0", 200, 300, seq=1)
    trace.op("torch.distributed.ddp.reducer::copy_bucket_to_grad", 90 * MS, 91 * MS)
    trace.annotation("## optimizer ##", 92 * MS, 95 * MS)
    found = waits(trace.on(5).annotation("gloo:all_reduce", 400, 50 * MS).load(tmp_path))
    assert found == [("1", 400, 90 * MS, "other_ranks", "gloo:all_reduce")]


def test_of_two_in_flight_each_is_waited_for_from_the_end_of_the_one_before(tmp_path: Path) -> None:
    trace = collective(12, 40, next_op=52).on(6).annotation("gloo:all_reduce", 14, 50)
    expected = [("1", 12, 40), ("1", 40, 50)]
    assert [row[:3] for row in waits(trace.load(tmp_path))] == expected


def test_one_after_the_other_leaves_the_time_between_them(tmp_path: Path) -> None:
    trace = collective(12, 20, next_op=52).annotation("gloo:all_reduce", 30, 50)
    assert [row[:3] for row in waits(trace.load(tmp_path))] == [("1", 12, 20), ("1", 30, 50)]


def test_a_region_that_ends_shows_that_the_thread_runs(tmp_path: Path) -> None:
    trace = collective(12, 50, next_op=52).on(1).annotation("log", 11, 30)
    assert [row[:3] for row in waits(trace.load(tmp_path))] == [("1", 30, 50)]


def test_loading_data_beside_a_collective_is_loading_data(tmp_path: Path) -> None:
    trace = collective(12, 50, next_op=52).on(1)
    trace.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 11, 51)
    assert waits(trace.load(tmp_path)) == []


@pytest.mark.parametrize(
    ("frame", "is_waiting"),
    [
        ("<built-in method wait of torch._C._distributed_c10d.Work object at 0x7f1>", True),
        ("<built-in method run_backward of torch._C._EngineBase object at 0x7f1>", True),
        ("threading.py(1100): join", True),
        ("torch/distributed/distributed_c10d.py(2800): all_reduce", True),
        ("train.py(12): augment", False),
        ("<built-in function sum>", False),
        ("<built-in method waiting_list of Queue object at 0x7f1>", False),
    ],
)
def test_frames_tell_whether_the_thread_waits(tmp_path: Path, frame: str, is_waiting: bool) -> None:
    trace = collective(12, 50, next_op=52).on(1).frame("train.py(1): main", 0, 60).frame(frame, 11, 51)
    assert bool(waits(trace.load(tmp_path))) == is_waiting


def test_an_op_that_waits_by_itself(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 0, 5)
    trace.op("_c10d_functional::wait_tensor", 10, 51).op("aten::add", 52, 60)
    trace.on(5).annotation("gloo:all_reduce", 8, 50)
    assert [row[:3] for row in waits(trace.load(tmp_path))] == [("1", 10, 50)]


def test_an_op_that_computes_does_not_wait(tmp_path: Path) -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 51).op("aten::add", 52, 60)
    assert waits(trace.on(5).annotation("gloo:all_reduce", 8, 50).load(tmp_path)) == []


def beside(*ops: tuple[int, int], next_op: int) -> TraceBuilder:
    trace = TraceBuilder().step(0, 0, next_op + 10).op("aten::mm", 0, 10).op("aten::add", next_op, next_op + 10)
    trace.on(7)
    for start, end in ops:
        trace.op("aten::pin_memory", start, end)
    return trace


def test_the_loop_waits_for_the_ops_of_another_thread(tmp_path: Path) -> None:
    found = waits(beside((20, 60), (70, 100), next_op=104).load(tmp_path))
    assert found == [
        ("1", 20, 60, "other_thread", "aten::pin_memory"),
        ("1", 70, 100, "other_thread", "aten::pin_memory"),
    ]


@pytest.mark.parametrize(
    ("ops", "next_op"),
    [
        ([(20, 69)], 70),  # less than 50 us: threads that work side by side pause together by chance
        ([(20, 40), (280, 300)], 304),  # the other thread does nothing most of the time, either
        ([(20, 100)], 190),  # the loop does something else for longer
        ([(20, 100)], 90),  # it goes on before the other thread is done
    ],
)
def test_threads_that_work_side_by_side_do_not_wait(tmp_path: Path, ops: list[tuple[int, int]], next_op: int) -> None:
    assert waits(beside(*ops, next_op=next_op).load(tmp_path)) == []


def test_where_both_explain_it_the_collective_does(tmp_path: Path) -> None:
    trace = beside((20, 100), next_op=104).on(5).annotation("gloo:all_reduce", 20, 103)
    assert [row[1:4] for row in waits(trace.load(tmp_path))] == [(20, 103, "other_ranks")]


def test_autograd_on_a_thread_of_its_own_is_part_of_the_loop(tmp_path: Path) -> None:
    """The path goes over autograd's thread, whose ops say what takes the time."""
    trace = TraceBuilder().step(0, 0, 500).annotation("## forward ##", 0, 50).op("aten::mm", 10, 20, seq=1)
    trace.on(3).backward("MmBackward0", 100, 400, seq=1).on(1).annotation("## optimizer ##", 410, 490)
    assert waits(trace.load(tmp_path)) == []
