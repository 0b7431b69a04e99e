"""The answers about several ranks: `collectives`, `stragglers` and `straggler_causes`, by hand and on a job of gloo."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.answer.ranks_of_a_job import job, ranks
from tests.trace_builder import TraceBuilder

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "straggler.py"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Rank 2 computes 50 us longer in each step, comes 50 us late from the second on, and its clock is 10 ms ahead."""
    return ranks(
        tmp_path_factory.mktemp("three"),
        job(0, [100, 100, 110]),
        job(1, [100, 100, 100]),
        job(2, [100, 150, 150], clock=10_000, gemm=100),
    )


def test_each_duration_is_waiting_and_transfer(trace: Trace) -> None:
    found = ha.collectives(trace).select("step", "rank", "dur_ns", "wait_ns", "transfer_ns", "late_ns", "is_last")
    assert found.rows() == [
        (0, 0, 100_000, 0, 100_000, 0, False),
        (0, 1, 100_000, 0, 100_000, 0, False),
        (0, 2, 100_000, 0, 100_000, 0, False),
        (1, 0, 100_000, 50_000, 50_000, 0, False),
        (1, 1, 100_000, 50_000, 50_000, 0, False),
        (1, 2, 50_000, 0, 50_000, 50_000, True),
        (2, 0, 90_000, 40_000, 50_000, 0, False),
        (2, 1, 100_000, 50_000, 50_000, 0, False),
        (2, 2, 50_000, 0, 50_000, 40_000, True),  # later than the middle rank
    ]


def test_the_critical_path_tells_waiting_from_transfer(trace: Trace) -> None:
    """The last collective is launched at 92 and takes 110 to 200 on rank 0; rank 2 joins at 150, and waits for none."""

    def bounds(rank: int, clock: int = 0) -> dict[str, int]:
        first = (2_000 + clock) * 1000
        found = ha.critical_path_breakdown(trace, rank=rank, start_ns=first, end_ns=first + 105_000)
        return dict(found.select("bound_by", "path_ns").rows())

    assert bounds(0) == {"cpu": 92_000, "launch": 18_000, "late_rank": 40_000, "communication": 50_000}
    of_last = bounds(2, 10_000)
    assert (of_last["communication"], "late_rank" in of_last) == (50_000, False)


def test_times_are_on_the_clock_of_the_lowest_rank(trace: Trace) -> None:
    ends = ha.collectives(trace).select("step", end=pl.col("start_ns") + pl.col("dur_ns")).unique().sort("step")
    assert ends["end"].to_list() == [200_000, 1_200_000, 2_200_000]


def test_bandwidth(trace: Trace) -> None:
    row = ha.collectives(trace, rank=0, step=1).row(0, named=True)
    assert row["bytes"] == 4_000
    assert row["algorithm_gb_per_s"] == pytest.approx(4_000 / 50_000)
    assert row["bus_gb_per_s"] == pytest.approx(4_000 / 50_000 * 2 * 2 / 3)


def test_the_late_rank_is_named(trace: Trace) -> None:
    assert ha.stragglers(trace).rows() == [
        # rank, collectives, last, made others wait, late, waited, for the start, transfer, began, clock ahead, error
        (2, 3, 2, 190_000, 90_000, 0, 0, 200_000, 0, 10_000_000, 0),
        (0, 3, 0, 0, 0, 90_000, 0, 200_000, 0, 0, 0),
        (1, 3, 0, 0, 0, 100_000, 0, 200_000, 0, 0, 0),
    ]


def test_the_cause_is_named_and_adds_up_to_the_delay(trace: Trace) -> None:
    causes = ha.straggler_causes(trace)
    first = causes.row(0, named=True)
    assert (first["rank"], first["activity"], first["module_path"]) == (2, "computation", "Net_0.Linear_0")
    assert (first["own_ns"], first["first_ns"], first["excess_ns"]) == (200_000, 100_000, 100_000)
    # Against the first rank it is 50 us late twice.
    assert causes["excess_ns"].sum() == 100_000


def test_of_a_large_job_few_ranks_are_compared(tmp_path: Path) -> None:
    """Rank 11 is always last, and each other rank first at times: ranks 0 to 3 most often."""
    first = [*range(4), *range(11), *range(4)]
    starts = [[190 if rank == 11 else 100 if rank == early else 110 + rank for early in first] for rank in range(12)]
    found = ranks(tmp_path, *(job(rank, each) for rank, each in enumerate(starts)))
    pairs = found.sql("select rank, early_rank, early_start_ns from late_pair order by match_id").rows()
    assert pairs == [
        (11, early if early < 4 else 0, 1000 * (1000 * step + (100 if early < 4 else 110)))
        for step, early in enumerate(first)
    ]
    causes = ha.straggler_causes(found, rank=11)
    delay = sum(90 if early < 4 else 80 for early in first[1:])  # nothing ends before the first one
    assert causes["excess_ns"].sum() == 1000 * delay
    assert causes.equals(ha.straggler_causes(found).filter(rank=11))
    assert set(ha.straggler_causes(found)["rank"]) == {11}


def test_ranks_are_compared_in_each_process_group(tmp_path: Path) -> None:
    """In one group others come first than in the other, and each collective has one to compare with."""
    found = []
    for rank in range(9):
        built = TraceBuilder(rank=rank, world_size=9)
        for number in range(12):
            group = "a" if number < 6 else "b"
            early = number % 6 if group == "a" else 7
            begin = 1000 * number + (190 if rank == 8 else 100 if rank == early else 150)
            built.step(number, 1000 * number, 1000 * number + 1000)
            args: dict[str, Any] = {"Collective name": "allreduce", "dtype": "Float", "Group size": 9}
            args |= {"In msg nelems": 10, "Out msg nelems": 10, "Process Group Name": group}
            built.op("c10d::allreduce_", 1000 * number + 10, 1000 * number + 20)
            built.launches("ncclDevKernel_AllReduce", begin, 1000 * number + 200, stream=9, **args)
        found.append(built)
    trace = ranks(tmp_path, *found)
    query = "select early_rank from late_pair where rank = 8 order by match_id"
    early_of_a = [0, 1, 2, 3, 0, 0]  # of ties, the lowest ranks; where none of these came first, the lowest of them
    assert trace.sql(query)["early_rank"].to_list() == [*early_of_a, *([7] * 6)]


def test_a_missing_rank_is_tolerated(tmp_path: Path) -> None:
    found = ranks(tmp_path, job(1, [100, 100]), job(2, [100, 150]))
    assert ha.collectives(found).select("group_size", "rank_count").unique().rows() == [(3, 2)]
    assert ha.stragglers(found)["rank"][0] == 2


def test_calls_are_matched_by_group_and_order_only_where_their_number_is_the_same(tmp_path: Path) -> None:
    second = job(1, [100, 100])
    extra: dict[str, Any] = {
        "Collective name": "allreduce",
        "dtype": "Float",
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
    }
    extra |= {"Group size": 3, "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]"}
    second.op("c10d::allreduce_", 1300, 1310).launches("ncclDevKernel_AllReduce", 1320, 1330, stream=9, **extra)
    found = ranks(tmp_path, job(0, [100, 100]), second)
    calls = ha.collectives(found)
    assert calls.drop_nulls("match_id").select("step", "rank").rows() == [(0, 0), (0, 1)]
    assert calls.filter(rank_count=1).select("step", "rank", "match_id").rows() == [
        (1, 0, None),
        (1, 1, None),
        (1, 1, None),
    ]


def test_a_rank_that_lacks_calls_does_not_part_the_others(tmp_path: Path) -> None:
    """Of three ranks, one is damaged in the second step: there the other two are matched, as two of three agree."""
    damaged = job(2, [100, 100, 150])
    damaged.events = [
        event for event in damaged.events if not (event["name"].startswith("nccl") and 1000 <= event["ts"] < 2000)
    ]
    found = ha.collectives(ranks(tmp_path, job(0, [100, 100, 100]), job(1, [100, 100, 100]), damaged))
    matched = found.drop_nulls("match_id").group_by("step", maintain_order=True).agg("rank")
    assert matched.rows() == [(0, [0, 1, 2]), (1, [0, 1]), (2, [0, 1, 2])]


def test_clocks_are_compared_along_groups(tmp_path: Path) -> None:
    """Groups of rows and columns of two by two ranks: rank 3 shares none with rank 0, and is compared through one."""
    clocks = {0: 0, 1: 100_000, 2: -50_000, 3: 30_000}  # us
    built = []
    for rank, clock in clocks.items():
        row, column = [rank // 2 * 2, rank // 2 * 2 + 1], [rank % 2, rank % 2 + 2]
        trace = TraceBuilder(rank=rank, world_size=4)
        for number in range(3):
            at = 1000 * number + clock + 200_000
            trace.step(number, at, at + 1000)
            # Rank 3 comes late to its row, by 30 us.
            starts = (300 + 30 * (rank == 3), 600)
            for group, start, end in ((row, starts[0], 400), (column, starts[1], 700)):
                args: dict[str, Any] = {
                    "Collective name": "allreduce",
                    "dtype": "Float",
                    "In msg nelems": 1000,
                    "Out msg nelems": 1000,
                    "Group size": 2,
                    "Process Group Name": str(group),
                    "Process Group Ranks": str(group),
                }
                trace.op("c10d::allreduce_", at + start - 50, at + start - 40)
                trace.launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + start, at + end, stream=9, **args)
        built.append(trace)
    found = ranks(tmp_path, *built)
    offsets = found.sql("select distinct rank, offset_ns, error_ns from collective_match order by rank").rows()
    assert offsets == [(rank, 1000 * clock, 0) for rank, clock in clocks.items()]
    assert ha.stragglers(found)["rank"][0] == 3
    waits = found.sql("select wait_ns from collective_match where rank = 2 and last_start_ns > first_start_ns")
    assert waits["wait_ns"].to_list() == [30_000] * 3


@pytest.mark.parametrize("other", [{"group": "7"}, {"size": 999}])
def test_other_groups_and_sizes_do_not_match(tmp_path: Path, other: dict[str, object]) -> None:
    found = ranks(tmp_path, job(0, [100, 100]), job(1, [100, 100], **other))  # type: ignore[arg-type]
    assert ha.collectives(found)["match_id"].to_list() == [None] * 4


def test_what_does_not_overlap_is_no_match(tmp_path: Path) -> None:
    """Matched by order, but one had ended long before the other began: calls are missing."""
    late = job(1, [100, 100, 100])
    for event in late.events:
        if event["name"].startswith("nccl") and event["ts"] > 2000:
            event["ts"] += 9_000
    found = ha.collectives(ranks(tmp_path, job(0, [100, 100, 100]), late))
    assert found.drop_nulls("match_id")["step"].unique(maintain_order=True).to_list() == [0, 1]
    assert found.filter(rank_count=1)["step"].to_list() == [2, 2]


def test_more_elements_than_bytes_can_be_counted(tmp_path: Path) -> None:
    """A damaged number: the size is not known, and all else is."""
    found = ranks(tmp_path, job(0, [100, 100], size=2**63 - 1), job(1, [100, 150], size=2**63 - 1))
    calls = ha.collectives(found)
    assert calls["bytes"].to_list() == [None] * 4
    assert ha.stragglers(found)["rank"][0] == 1


def test_one_rank_has_no_stragglers(tmp_path: Path) -> None:
    alone = job(0, [100]).load(tmp_path)
    assert ha.stragglers(alone).is_empty()
    assert ha.straggler_causes(alone).is_empty()
    assert "Who waits" not in ha.report(alone).to_text()


def test_of_one_rank_alone_the_bandwidth_is_at_least_that_of_the_whole_duration(tmp_path: Path) -> None:
    row = ha.collectives(job(0, [100]).load(tmp_path)).row(0, named=True)
    assert (row["match_id"], row["rank_count"], row["wait_ns"], row["transfer_ns"]) == (None, 1, None, None)
    assert (row["dur_ns"], row["bytes"]) == (100_000, 4_000)
    assert row["algorithm_gb_per_s"] == pytest.approx(4_000 / 100_000)
    assert row["bus_gb_per_s"] == pytest.approx(4_000 / 100_000 * 2 * 2 / 3)


def test_calls_of_one_rank_are_on_the_common_clock_too(tmp_path: Path) -> None:
    second = job(1, [100, 100], clock=10_000)
    second.op("c10d::broadcast_", 11_300, 11_310).launches("ncclDevKernel_Broadcast", 11_320, 11_330, stream=9)
    calls = ha.collectives(ranks(tmp_path, job(0, [100, 100]), second)).filter(name="broadcast")
    assert calls.select("rank", "start_ns", "match_id").rows() == [(1, 1_320_000, None)]


def test_the_report_names_rank_and_module(tmp_path: Path) -> None:
    found = ranks(tmp_path, job(0, [100, 100]), job(1, [190, 190], gemm=140))
    text = ha.report(found).to_text(width=400)
    assert "Who waits for whom in collectives" in text
    assert "Rank 1 is last to reach 2 of 2 collectives" in text
    assert "Net_0.Linear_0" in text


def in_pairs(folder: Path, late_us: dict[int, list[int]]) -> Trace:
    """Eight ranks in pairs of neighbours; both of a pair start a collective at the given times, and end together."""
    for rank in range(8):
        built = TraceBuilder(rank=rank, world_size=8).step(0, 0, 1000)
        pair = [rank - rank % 2, rank - rank % 2 + 1]
        for number, late in enumerate(late_us.get(rank, [0, 0])):
            start = 100 + 400 * number
            args: dict[str, Any] = {
                "Process Group Name": str(pair),
                "Process Group Ranks": str(pair),
                "Group size": 2,
                "Collective name": "allreduce",
                "dtype": "Float",
                "In msg nelems": 1000,
                "Out msg nelems": 1000,
            }
            built.op("c10d::allreduce_", start - 60, start - 50)
            built.launches(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                start + late,
                start + 150,
                at=start - 58,
                until=start - 52,
                stream=9,
                **args,
            )
        built.write(folder / f"{rank}.json")
    return ha.load(folder)


def test_a_rank_is_named_for_those_that_it_meets(tmp_path: Path) -> None:
    """Rank 7 makes rank 6 wait for 80 of 1,000 us; the six others never meet it, and wait for nobody."""
    text = ha.report(in_pairs(tmp_path, {7: [40, 40]})).to_text(width=400)
    assert (
        "Rank 7 is last to reach 2 of 2 collectives; the rank that it meets there waits 80.0 µs for it, 80.0 µs a step."
        in text
    )


def test_of_two_ranks_that_are_late_in_turns_none_is_named(tmp_path: Path) -> None:
    """Rank 7 causes 100 of 180 us of waiting, and half would be its share by chance."""
    text = ha.report(in_pairs(tmp_path, {6: [0, 80], 7: [100, 0]})).to_text(width=400)
    assert "is last to reach" not in text


@pytest.mark.long
def test_the_report_is_silent_where_nobody_waits(tmp_path: Path) -> None:
    text = ha.report(ranks(tmp_path, job(0, [100, 100]), job(1, [100, 101]))).to_text(width=400)
    assert "is last to reach" not in text


@pytest.mark.long
def test_a_slow_rank_of_a_gloo_job_is_named_with_its_module(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, str(EXAMPLE), str(tmp_path), "--ranks", "2", "--slow-rank", "1", "--delay", "0.3"]
    subprocess.run(command, check=True, capture_output=True, timeout=500)
    found = ha.load(tmp_path)
    worst = ha.stragglers(found).row(0, named=True)
    assert worst["rank"] == 1
    assert worst["last_count"] == worst["collective_count"] > 0
    cause = ha.straggler_causes(found, rank=1).row(0, named=True)
    assert (cause["phase"], cause["module_path"].rpartition(".")[2]) == ("forward", "Head_0")
    # Each step after the first has the delay once; buckets that are in flight together count once.
    assert cause["excess_ns"] >= 2 * 300_000_000
    assert "Rank 1 is last to reach" in ha.report(found).to_text(width=400)


def test_a_collective_has_its_name_in_one_spelling_and_the_size_of_the_whole_message(tmp_path: Path) -> None:
    """`collective_call`: two ranks gather 100 floats each, which are 800 bytes; a name alone tells no size."""
    args: dict[str, Any] = {
        "Collective name": "_allgather_base",
        "dtype": "Float",
        "In msg nelems": 100,
        "Out msg nelems": 200,
        "Group size": 2,
        "Process Group Name": "7",
    }
    built = TraceBuilder(rank=0).step(2, 0, 100).op("c10d::_allgather_base_", 0, 20)
    built.launches("ncclDevKernel_AllGather_RING_LL", 10, 50, **args)
    built.kernel("ncclDevKernel_SendRecv", 60, 80).kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 85, 85)
    with built.load(tmp_path) as opened:
        columns = "name, on_gpu, group_name, group_size, dtype, bytes, step, start_ns // 1000, end_ns // 1000"
        assert opened.sql(f"select {columns} from collective_call order by start_ns").rows() == [
            ("allgather", True, "7", 2, "float", 800, 2, 10, 50),
            ("sendrecv", True, None, None, None, None, None, 60, 80),
        ]
