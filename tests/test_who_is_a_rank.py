"""Who is a rank: declared ranks, processes without one, recordings of one process, processes in one file."""

from __future__ import annotations

import json
import os
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer import ranks
from hotline_analysis.importer.identity import coordinates_of, is_one_program
from hotline_analysis.kineto.split import EventSplitter
from tests.trace_builder import TraceBuilder, dumps

CASES = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases"
BASE_NS = 1_767_189_312_000_000_000


def case(name: str) -> Path:
    if not (CASES / name).exists():
        pytest.skip("HOTLINE_TRACES has no cases beside it")
    return CASES / name


def events(
    *,
    pid: int | str = 4100,
    gpu: int | str = 0,
    device: int = 0,
    start: int = 0,
    steps: int = 2,
    first_step: int = 0,
    kernels: int = 3,
    kernel_us: int = 40,
    op: str = "aten::mm",
) -> list[dict[str, Any]]:
    """The events of a process: steps of 200 us; every 50 us, an op launches a kernel; correlations count from 100."""
    made: list[dict[str, Any]] = []
    correlation = 100
    for step in range(steps):
        at = start + 200 * step
        cpu = {"pid": pid, "tid": 1}
        made.append(
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{first_step + step}", **cpu, "ts": at}
            | {"dur": 200}
        )
        for number in range(kernels):
            begin = at + 50 * number
            made += [
                {"ph": "X", "cat": "cpu_op", "name": op, **cpu, "ts": begin, "dur": 20},
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", **cpu, "ts": begin + 1, "dur": 2}
                | {"args": {"correlation": correlation}},
                {"ph": "X", "cat": "kernel", "name": f"{op}_kernel", "pid": gpu, "tid": 7, "ts": begin + 5}
                | {"dur": kernel_us, "args": {"device": device, "stream": 7, "correlation": correlation}},
            ]
            correlation += 1
    return made


def front_end(count: int = 10, start: int = 0, pid: int = 3000) -> list[dict[str, Any]]:
    """Python functions alone, as in the front end of a server."""
    return [
        {"ph": "X", "cat": "python_function", "name": "engine/async_llm.py(300): generate", "pid": pid, "tid": pid}
        | {"ts": start + 40 * number, "dur": 30, "args": {"Python id": number}}
        for number in range(count)
    ]


def file(path: Path, found: list[dict[str, Any]], *, rank: int | None = None, world: int = 2, **top: Any) -> Path:
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world}}
    whole = {**info, "baseTimeNanoseconds": BASE_NS, **top, "traceEvents": found}
    path.write_text(json.dumps(whole))
    return path


def busy_us(found: list[dict[str, Any]]) -> int:
    """The oracle: the time of kernels, which never overlap here."""
    return sum(event["dur"] for event in found if event.get("cat") == "kernel")


def of_ranks(trace: ha.Trace) -> list[dict[str, Any]]:
    rows = trace.sql("select rank, file, rank_source, event_count, tp, pp, dp, ep from rank_info order by rank")
    linked = dict(
        trace.sql("select rank, count(*) filter (where runtime_id is not null) from launch group by all").rows()
    )
    busy = dict(trace.sql("select rank, sum(end_ns - start_ns)::bigint from gpu_busy group by all").rows())
    return [
        {**row, "linked": linked.get(row["rank"], 0), "busy_ns": busy.get(row["rank"], 0)} for row in rows.to_dicts()
    ]


# --- names and labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("dp0_pp0_tp1_ep1_rank1.1779464450847056388.pt.trace.json.gz", {"tp": 1, "pp": 0, "dp": 0, "ep": 1}),
        ("dp1_pp2_tp3_dcp0_ep7_rank11.pt.trace.json", {"tp": 3, "pp": 2, "dp": 1, "ep": 7}),
        ("1779464450-TP-3.trace.json.gz", {"tp": 3}),
        ("1779464450-TP-3-DP-1-PP-0-EP-3.trace.json.gz", {"tp": 3, "pp": 0, "dp": 1, "ep": 3}),
        ("TP00", {"tp": 0}),
        ("TP07-DP01", {"tp": 7, "dp": 1}),
        ("llama_tp8.json", {}),  # a size
        ("ep10.json", {}),  # an epoch
        ("step_3.json", {}),
        ("http2.json", {}),
        ("rank3.json", {}),
    ],
)
def test_places_in_names(name: str, places: dict[str, int]) -> None:
    assert coordinates_of(name) == places


def test_programs_are_told_apart_by_their_ops() -> None:
    one = ["cpu_op", *(f"aten::op{number}" for number in range(20))]
    assert is_one_program(one, one[:15])
    assert not is_one_program(one, ["cpu_op", *(f"aten::other{number}" for number in range(20))])
    assert not is_one_program(one, one[:8])
    assert is_one_program(one, [])


# --- processes without a rank -------------------------------------------------------------------------------------


def test_a_front_end_is_no_rank_in_a_case_from_a_user() -> None:
    with ha.load(case("29_declared")) as trace:
        assert trace.ranks == [0, 1]
        assert trace.manifest["warnings"] == []
        report = ha.report(trace)
        assert report.facts["ranks"] == "ranks 0 to 1 of 2"
        assert "async_llm" in report.facts["besides"]
        assert "no GPU work" not in report.headline
        assert "async_llm" not in report.title


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["a_front.json", "z_rank0.json", "z_rank1.json"], [0, 1]),
        (["rank5.json", "rank2.json", "server.json"], [2, 5]),
        (["host_1.json", "loader.json"], [0]),  # nobody declares a rank
    ],
)
def test_processes_that_do_not_work_are_no_ranks(tmp_path: Path, names: list[str], ranks: list[int]) -> None:
    workers = [name for name in names if "rank" in name or "host" in name]
    for name in names:
        file(tmp_path / name, events() if name in workers else front_end())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = ha.load(tmp_path)
    with trace:
        assert trace.ranks == ranks
        (other,) = trace.manifest["processes"]
        assert other == {"name": next(name for name in names if name not in workers), "event_count": 10}
        assert {row["linked"] for row in of_ranks(trace)} == {6}


def test_a_process_alone_is_a_rank(tmp_path: Path) -> None:
    with ha.load(file(tmp_path / "server.json", front_end())) as trace:
        assert trace.ranks == [0]
        assert trace.manifest["processes"] == []


def test_a_declared_rank_keeps_its_number(tmp_path: Path) -> None:
    """A worker without a rank comes first in the folder, and gets a number that no rank of the job has."""
    file(tmp_path / "a.json", events(pid=1))
    file(tmp_path / "b.json", events(pid=2), rank=0, world=2)
    file(tmp_path / "c.json", events(pid=3), rank=1, world=2)
    with pytest.warns(ha.HotlineWarning, match=r"a\.json declares no rank and is imported as rank 2"):
        trace = ha.load(tmp_path)
    with trace:
        assert [(row["rank"], row["file"]) for row in of_ranks(trace)] == [(0, "b.json"), (1, "c.json"), (2, "a.json")]


def test_places_are_shown_where_ranks_are_listed(tmp_path: Path) -> None:
    for rank in range(4):
        file(tmp_path / f"dp0_pp{rank // 2}_tp{rank % 2}_ep{rank % 2}_rank{rank}.1.pt.trace.json", events(pid=rank + 1))
    with ha.load(tmp_path) as trace:
        assert ha.ranks(trace).select("rank", "tp", "pp", "dp", "ep").rows() == [
            (0, 0, 0, 0, 0),
            (1, 1, 0, 0, 1),
            (2, 0, 1, 0, 0),
            (3, 1, 1, 0, 1),
        ]
        (section,) = [section for section in ha.report(trace).sections if section.name == "ranks"]
        assert [field.title for field in section.fields][:5] == ["rank", "tp", "pp", "dp", "ep"]


def test_files_are_numbered_by_their_places(tmp_path: Path) -> None:
    """SGLang's files name no rank."""
    for tp in range(3):
        file(tmp_path / f"17-TP-{tp}.trace.json", events(pid=50 - tp))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = ha.load(tmp_path)
    with trace:
        found = [(row["rank"], row["tp"], row["rank_source"]) for row in of_ranks(trace)]
        assert found == [(rank, rank, "coordinates") for rank in range(3)]


# --- several recordings of one process ----------------------------------------------------------------------------


def test_two_recordings_of_a_process_are_one_rank_in_a_case_from_a_user() -> None:
    """12 and 24 ms of kernels in 30.8 ms each."""
    with ha.load(case("12_repeat")) as trace:
        assert trace.ranks == [0]
        (row,) = ha.ranks(trace).rows(named=True)
        assert (row["step_count"], row["gpu_busy_ns"], row["gpu_idle_ns"]) == (6, 36_000_000, 25_600_000)
        assert trace.sql("select step from step order by start_ns")["step"].to_list() == [2, 3, 4, 7, 8, 9]
        assert "2 recordings of one process" in ha.report(trace).facts["files"]


@pytest.mark.parametrize(
    ("starts", "names"),
    [
        ([90_000, 0, 30_000], ["c.json", "a.json", "b.json"]),
        ([0, 50_000], ["host_41.1700000000.pt.trace.json", "host_41.1700000007.pt.trace.json"]),
        ([0, 1000, 2000, 3000], ["step1.json", "step2.json", "step3.json", "step4.json"]),
    ],
)
@pytest.mark.sampled
def test_recordings_of_a_process_follow_each_other(tmp_path: Path, starts: list[int], names: list[str]) -> None:
    made = {}
    for number, (start, name) in enumerate(sorted(zip(starts, names, strict=True))):
        made[name] = events(start=start, steps=number + 1, first_step=10 * number, kernel_us=10 + number)
        file(tmp_path / name, made[name])
    with ha.load(tmp_path) as trace:
        (row,) = of_ranks(trace)
        assert row["event_count"] == sum(map(len, made.values()))
        assert row["busy_ns"] == 1000 * sum(map(busy_us, made.values()))
        assert row["linked"] == sum(event["cat"] == "kernel" for found in made.values() for event in found)
        (part,) = trace.manifest["parts"]
        in_order = [name for _, name in sorted(zip(starts, names, strict=True))]
        assert [each["file"] for each in part["recordings"]] == in_order
        # each recording begins where the one before ends: nothing is known of the time between them
        steps = trace.sql("select start_ns, end_ns from step order by start_ns").rows()
        assert all(one[1] == other[0] for one, other in pairwise(steps))
        assert [each["first_event_id"] for each in part["recordings"]] == [
            sum(len(made[name]) for name in in_order[:number]) for number in range(len(in_order))
        ]


def test_ranks_that_were_recorded_twice_keep_their_clocks(tmp_path: Path) -> None:
    """Rank 1 begins its second recording 30 us later than rank 0: so it does in the run."""
    for rank, late in ((0, 0), (1, 30)):
        file(tmp_path / f"rank{rank}_a.json", events(pid=rank + 1), rank=rank)
        file(tmp_path / f"rank{rank}_b.json", events(pid=rank + 1, start=9000 + late, first_step=5), rank=rank)
    with ha.load(tmp_path) as trace:
        assert trace.ranks == [0, 1]
        starts = dict(trace.sql("select rank, start_ns from step where step = 5").rows())
        assert starts[1] - starts[0] == 30_000


def test_a_run_that_is_annotated_again_keeps_what_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    file(folder / "TP-1_rank1_a.json", events(pid=5))
    file(folder / "TP-1_rank1_b.json", events(pid=5, start=7000, first_step=9))
    file(folder / "server.json", front_end())
    run = ha.import_traces(folder, tmp_path / "run.hotline")
    again = ha.import_traces(run, tmp_path / "again.hotline")
    one, other = (json.loads((each / "manifest.json").read_text()) for each in (run, again))
    assert one == other
    assert len(one["parts"][0]["recordings"]) == 2
    assert one["parts"][0]["tp"] == 1
    assert one["processes"] == [{"name": "server.json", "event_count": 10}]


# --- strangers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"op": "aten::mm"}, {"op": "aten::conv2d"}, "different programs"),
        ({"pid": 7}, {"pid": 8, "start": 1_000_000}, "processes that ran one after the other"),
    ],
)
def test_recordings_of_no_common_job_are_refused(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], why: str
) -> None:
    file(tmp_path / "a.json", events(**one))
    file(tmp_path / "b.json", events(**other))
    with pytest.raises(HotlineError, match=rf"a\.json and b\.json are recordings of {why}") as raised:
        ha.load(tmp_path)
    assert "--rank-from-order" in str(raised.value.hint)
    with ha.load(tmp_path, rank_from_order=True) as trace:
        assert [(row["rank"], row["file"], row["rank_source"]) for row in of_ranks(trace)] == [
            (0, "a.json", "order"),
            (1, "b.json", "order"),
        ]


def part(
    name: str,
    *,
    ops: str = "abcdefghij",
    span: tuple[int, int] = (0, 100),
    pid: str = "7",
    rank: int = 0,
    source: str = "default",
    base: int | None = BASE_NS,
    worker: str | None = None,
) -> dict[str, Any]:
    """What the import of a file knows of it."""
    identity = {"is_working": True, "pids": [pid], "worker": worker, "program": ["cpu_op", *ops], "base_ns": base}
    identity |= {"start_ns": span[0], "end_ns": span[1]}
    return {"file": name, "rank": rank, "rank_source": source, "identity": identity}


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ([{"ops": "klmnopqrst"}], "different programs"),
        ([{"ops": "abcdklmnop"}], "different programs"),  # 5 of 17 names
        ([{"ops": "abcdefghxy"}], ""),  # 9 of 13 names
        ([{"span": (50, 150)}], ""),
        ([{"span": (100, 150)}], "processes that ran one after the other"),
        ([{"span": (-90, -10)}], "processes that ran one after the other"),
        ([{"span": (100, 150), "base": None}], ""),  # clocks that cannot be compared
        ([{}, {"span": (10, 20)}, {"ops": "xyz"}], "different programs"),
        ([{"ops": "xyz", "rank": 1}], ""),  # of another rank
        ([{"ops": "xyz", "source": "distributedInfo"}], "different programs"),
        ([{"rank": number, "source": "file_name"} for number in range(1, 9)], ""),
    ],
)
def test_who_is_a_stranger(others: list[dict[str, Any]], why: str) -> None:
    parts = [part("0.json"), *(part(f"{number}.json", **each) for number, each in enumerate(others, 1))]
    if not why:
        ranks._refuse_strangers(parts)
        return
    with pytest.raises(HotlineError, match=why) as raised:
        ranks._refuse_strangers(parts)
    assert all(f"{number}.json" in str(raised.value) for number in range(len(parts)))


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"span": (100, 200)}, True),
        ({"span": (99, 200)}, False),  # at the same time
        ({"span": (100, 200), "pid": "8"}, False),
        ({"span": (100, 200), "ops": "klmnopqrst"}, False),
        ({"span": (100, 200), "worker": "host_8"}, False),
        ({"span": (0, 100), "base": BASE_NS + 100}, True),  # a later clock
        ({"span": (100, 200), "base": None}, False),
        ({"span": (500 * 86_400 * 10**9, 501 * 86_400 * 10**9)}, False),  # a damaged time
    ],
)
def test_which_recordings_are_of_one_process(other: dict[str, Any], is_same: bool) -> None:
    joined = []

    def join(some: Any, pauses: Any) -> dict[str, Any]:
        joined.append(([each["file"] for each in some], list(pauses)))
        return dict(some[0])

    found = [{**part("b.json", **other), "folder": "b"}, {**part("a.json", worker=None), "folder": "a"}]
    made = ranks._one_after_the_other(found, join)
    assert len(made) == (1 if is_same else 2)
    assert [files for files, _ in joined] == ([["a.json", "b.json"]] if is_same else [])


def test_files_that_declare_no_rank_are_one_job_if_they_were_recorded_together(tmp_path: Path) -> None:
    file(tmp_path / "a.json", events(pid=7))
    file(tmp_path / "b.json", events(pid=8, start=100))
    with pytest.warns(ha.HotlineWarning, match=r"both claim rank 0; b\.json is imported as rank 1"):
        trace = ha.load(tmp_path)
    with trace:
        assert trace.ranks == [0, 1]


# --- several processes in one file --------------------------------------------------------------------------------


def test_a_merged_file_in_a_case_from_a_user() -> None:
    """GPU busy for 92 and 10 %; each of the 60 launches has its kernel."""
    with ha.load(case("09b_sglang_merged.json")) as trace:
        assert [row["linked"] for row in of_ranks(trace)] == [30, 30]
        assert ha.ranks(trace)["gpu_busy_pct"].round(0).to_list() == [93.0, 10.0]
        assert ha.ranks(trace)["tp"].to_list() == [0, 1]
        assert "have none" not in ha.report(trace).to_text()


def checked_merge(tmp_path: Path, merged: list[dict[str, Any]], of_process: list[list[dict[str, Any]]]) -> None:
    """Each rank of the merged file has the events, links and busy time of its process."""
    with ha.load(file(tmp_path / "merged.json", merged)) as trace:
        found = of_ranks(trace)
        assert [row["event_count"] for row in found] == [len(each) for each in of_process]
        assert [row["busy_ns"] for row in found] == [1000 * busy_us(each) for each in of_process]
        assert [row["linked"] for row in found] == [
            sum(event.get("cat") == "kernel" for event in each) for each in of_process
        ]


def test_labelled_processes_of_four_ranks(tmp_path: Path) -> None:
    each = [
        events(pid=f"[TP0{tp}-PP0{pp}] 77", gpu=f"[TP0{tp}-PP0{pp}] 0", kernel_us=10 + 5 * tp + pp, steps=1 + pp)
        for pp in range(2)
        for tp in range(2)
    ]
    mixed = sorted((event for found in reversed(each) for event in found), key=lambda event: int(event["ts"]))
    checked_merge(tmp_path, mixed, each)


def test_processes_that_follow_each_other_in_a_file_and_use_one_number_for_their_gpus(tmp_path: Path) -> None:
    """Two containers, each with a GPU 0."""
    each = [events(pid=11, kernel_us=10), events(pid=12, kernel_us=33, steps=3)]
    checked_merge(tmp_path, [*each[0], *each[1]], each)


def test_processes_that_are_mixed_in_a_file_with_a_gpu_each(tmp_path: Path) -> None:
    """The second process launches 10 us later, with the same correlation ids."""
    each = [
        events(pid=30, gpu=4, device=4, kernel_us=20),
        events(pid=31, gpu=6, device=6, start=10, kernel_us=25),
        events(pid=32, gpu=7, device=7, start=15, kernel_us=5),
    ]
    mixed = sorted((event for found in each for event in found), key=lambda event: int(event["ts"]))
    checked_merge(tmp_path, mixed, each)


def test_processes_that_are_mixed_and_share_a_gpu(tmp_path: Path) -> None:
    """Each kernel belongs to the last launch of its correlation id before it."""
    each = [events(pid=30, kernel_us=4), events(pid=31, start=10, kernel_us=6)]
    mixed = sorted((event for found in each for event in found), key=lambda event: int(event["ts"]))
    checked_merge(tmp_path, mixed, each)


def test_a_merged_file_beside_the_files_of_its_ranks_is_left_out(tmp_path: Path) -> None:
    """SGLang leaves both."""
    merged = []
    for tp in range(2):
        file(tmp_path / f"17-TP-{tp}.trace.json", events(pid=4100 + tp))
        merged += events(pid=f"[TP0{tp}] 4100", gpu=f"[TP0{tp}] 0")
    file(tmp_path / "merged-17.trace.json", merged)
    with pytest.warns(
        ha.HotlineWarning, match=r"merged-17\.trace\.json contains the ranks of other files and is left out"
    ):
        trace = ha.load(tmp_path)
    with trace:
        found = [(row["rank"], row["file"]) for row in of_ranks(trace)]
        assert found == [(0, "17-TP-0.trace.json"), (1, "17-TP-1.trace.json")]


def test_process_ids_that_are_damaged_are_no_processes(tmp_path: Path) -> None:
    """The thread is the same, and each correlation id and step is there once."""
    found = events(steps=6)
    for number, event in enumerate(found):
        if event["cat"] != "kernel" and number % 3:
            event["pid"] = ["x", 1][number % 2]
    with ha.load(file(tmp_path / "trace.json", found)) as trace:
        (row,) = of_ranks(trace)
        assert row["event_count"] == len(found)
        assert row["busy_ns"] == 1000 * busy_us(found)


def test_a_front_end_in_a_merged_file_is_no_rank(tmp_path: Path) -> None:
    each = [events(pid=11), events(pid=12)]
    with ha.load(file(tmp_path / "merged.json", [*front_end(7, pid=3), *each[0], *each[1]])) as trace:
        assert trace.ranks == [0, 1]
        assert trace.manifest["processes"] == [{"name": "3", "event_count": 7}]


# --- two writers --------------------------------------------------------------------------------------------------


def text_of(found: list[dict[str, Any]], *, rank: int, name: str = "trace.json") -> str:
    lines = ",\n".join(map(dumps, found))
    head = f'"schemaVersion": 1, "distributedInfo": {{"rank": {rank}, "world_size": 2}}'
    return f'{{{head}, "traceEvents": [\n{lines}\n], "traceName": "{name}", "baseTimeNanoseconds": {BASE_NS}}}\n'


def split(text: str) -> EventSplitter:
    splitter = EventSplitter([text], duckdb.connect())
    list(splitter)
    return splitter


def test_one_writer_over_another_in_a_case_from_a_user() -> None:
    """The first document has 153 events; of the longer one below, the last 28 are left."""
    with pytest.warns(
        ha.HotlineWarning, match="2 processes wrote this file at the same time, .* rank 1 lacks about 153"
    ):
        trace = ha.load(case("30_interleaved_writers.json"))
    with trace:
        rows = trace.sql("select rank, event_count, lost_event_count from rank_info order by rank").rows()
        assert rows == [(0, 153, 0), (1, 28, 153)]
        assert "2 processes wrote this file" in ha.report(trace).facts["damage"]


@pytest.mark.parametrize(("short", "long"), [(1, 3), (2, 3), (1, 2), (3, 9)])
def test_a_shorter_document_over_a_longer_one(short: int, long: int) -> None:
    over, under = text_of(events(steps=short), rank=0), text_of(events(steps=long, pid=4100), rank=1)
    splitter = split(over + under[len(over) :])
    assert splitter.damage.borders == [len(events(steps=short))]
    assert splitter.damage.whole == []
    assert splitter.metadata["traceName"] == "trace.json"


def test_one_document_after_another() -> None:
    splitter = split(text_of(events(), rank=0) + text_of(events(), rank=1))
    assert splitter.damage.borders == splitter.damage.whole == [len(events())]
    assert splitter.damage.notes == []
    assert splitter.first_metadata is not None
    assert splitter.first_metadata["distributedInfo"]["rank"] == 0
    assert splitter.metadata["distributedInfo"]["rank"] == 1


@pytest.mark.parametrize(
    ("what", "instead"),
    [('"ts": 200', ']}"ts": 200'), ('"dur": 20', "}]}"), ('"cat": "kernel"', '"cat": ]}'), ('"ts": 55', "]}\n")],
)
def test_damage_is_no_other_writer(what: str, instead: str) -> None:
    text = text_of(events(steps=3), rank=0)
    assert what in text
    assert split(text.replace(what, instead, 1)).damage.borders == []


def test_two_documents_in_a_file_are_two_ranks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text_of(events(kernel_us=10), rank=1) + text_of(events(steps=3), rank=0))
    with ha.load(path) as trace:
        found = [(row["rank"], row["busy_ns"]) for row in of_ranks(trace)]
        assert found == [(0, 1000 * busy_us(events(steps=3))), (1, 1000 * busy_us(events(kernel_us=10)))]
        assert trace.sql("select sum(lost_event_count) from rank_info").item() == 0


def test_damage_with_calls_of_two_processes_of_one_number_is_of_two_writers(tmp_path: Path) -> None:
    lines = text_of([*events(), *events(start=7)], rank=0)
    path = tmp_path / "trace.json"
    path.write_text(lines.replace('{"ph"', '{ph"', 1))
    with pytest.warns(ha.HotlineWarning, match="several processes wrote this file at the same time"):
        ha.load(path).close()


def test_a_trace_of_one_process_stays_one(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=3).step(1, 0, 100).op("aten::mm", 0, 9).launches("gemm", 12, 20).load(tmp_path)
    assert trace.ranks == [3]
    assert pl.DataFrame(trace.manifest["parts"])["event_count"].sum() == len(trace.table("event"))
