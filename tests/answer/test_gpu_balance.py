"""Several GPUs in one process: how busy each is, what bounds each, and whether they share the work."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

CASES = Path(os.environ.get("HOTLINE_TRACES", "no traces")).parent / "cases"


@dataclass
class Work:
    """A kernel or copy in microseconds."""

    device: int
    start: int
    end: int
    kind: str = "kernel"
    name: str = "gemm"


@dataclass
class Oracle:
    """The answer by a loop over all microseconds."""

    works: list[Work]
    end: int
    busy: dict[int, int] = field(default_factory=dict)
    computing: dict[int, int] = field(default_factory=dict)
    copying: dict[int, int] = field(default_factory=dict)
    communication: dict[int, int] = field(default_factory=dict)
    alone: dict[int, int] = field(default_factory=dict)
    any_busy: int = 0

    def __post_init__(self) -> None:
        devices = sorted({work.device for work in self.works})
        for part in (self.busy, self.computing, self.copying, self.communication, self.alone):
            part.update(dict.fromkeys(devices, 0))
        for at in range(self.end):
            now = [work for work in self.works if work.start <= at < work.end]
            busy = {work.device for work in now}
            self.any_busy += bool(busy)
            for device in busy:
                own = [work for work in now if work.device == device]
                self.busy[device] += 1
                if any(work.kind == "kernel" and not work.name.startswith("nccl") for work in own):
                    self.computing[device] += 1
                elif any(work.name.startswith("nccl") for work in own):
                    self.communication[device] += 1
                else:
                    self.copying[device] += 1
                self.alone[device] += len(busy) == 1

    @property
    def answer(self) -> str:
        """The answer of `gpu_balance` at 5 %."""
        work = [self.computing[device] + self.copying[device] for device in self.busy]
        uneven = max(work) - sum(work) / len(work)
        turns = self.any_busy - max(self.busy.values())
        if 100 * max(uneven, turns) < 5 * self.end:
            return "shared"
        return "in-turns" if turns > uneven else "unbalanced"


def recorded(folder: Path, works: list[Work], end: int, *, name: str = "trace.json", world_size: int = 1) -> Trace:
    """A trace with one step, in which one op launches each work at its start."""
    trace = TraceBuilder(rank=0, world_size=world_size)
    trace.step(1, 0, end)
    for stream, work in enumerate(works):
        trace.op("aten::mm", work.start, work.start + 1)
        trace.launches(work.name, work.start, work.end, category=work.kind, device=work.device, stream=stream)
    return trace.load(folder, name)


def checked(trace: Trace, oracle: Oracle) -> ha.Finding:
    """The finding, after comparing each row with the oracle."""
    rows = {row["device"]: row for row in ha.devices(trace).iter_rows(named=True)}
    assert sorted(rows) == sorted(oracle.busy)
    for device, row in rows.items():
        assert row["gpu_busy_ns"] == 1000 * oracle.busy[device]
        assert row["gpu_busy_ns"] + row["gpu_idle_ns"] == 1000 * oracle.end
        assert row["gpu_busy_pct"] == pytest.approx(100 * oracle.busy[device] / oracle.end)
        assert row["computing_ns"] == 1000 * oracle.computing[device]
        assert row["communication_ns"] == 1000 * oracle.communication[device]
        assert row["copying_ns"] == 1000 * oracle.copying[device]
        assert row["alone_ns"] == 1000 * oracle.alone[device]
    found = ha.gpu_balance(trace)
    assert found.answer == oracle.answer
    if found.answer not in ("one-gpu", "no-gpu"):
        assert found.numbers["any_busy_pct"] == pytest.approx(100 * oracle.any_busy / oracle.end)
    return found


def test_one_gpu_does_most_of_the_work_in_a_case_from_a_user() -> None:
    """28.2 and 3.0 ms of kernels in 29.9 ms: busy for 94.3 and 10.0 %."""
    if not (CASES / "10_two_gpus.json").exists():
        pytest.skip("HOTLINE_TRACES has no cases beside it")
    with ha.load(CASES / "10_two_gpus.json") as trace:
        rows = ha.devices(trace)
        assert rows["gpu_busy_ns"].to_list() == [28_200_000, 3_000_000]
        assert rows["gpu_idle_ns"].to_list() == [1_700_000, 26_900_000]
        assert rows["bound_by"].to_list() == ["computing", "python"]
        report = ha.report(trace)
        assert "GPU 0 is busy for 94.3 % of the time, GPU 1 for 10.0 %" in report.headline
        assert report.findings[1].answer == "unbalanced"
        assert "The GPU is busy for" not in report.to_text()


def test_two_gpus_side_by_side(tmp_path: Path) -> None:
    """Both work for 800 of 1,000 us at the same time."""
    works = [Work(device, at, at + 80) for at in range(0, 1000, 100) for device in (0, 1)]
    found = checked(recorded(tmp_path, works, 1000), Oracle(works, 1000))
    assert found.answer == "shared"
    assert found.advice == ""
    assert found.statement == "GPU 0 is busy for 80.0 % of the time, GPU 1 for 80.0 %."


def test_four_gpus_one_after_the_other(tmp_path: Path) -> None:
    """Each of four stages works for a quarter of the time: naive model parallelism."""
    works = [Work(number % 4, at, at + 50) for number, at in enumerate(range(0, 2000, 50))]
    found = checked(recorded(tmp_path, works, 2000), Oracle(works, 2000))
    assert found.answer == "in-turns"
    assert "for 100.0 % of the time in which any GPU works, only one does" in found.statement
    assert "micro-batches" in found.advice
    report = ha.report(recorded(tmp_path, works, 2000))
    assert "The GPUs do not work side by side" in report.headline


def test_the_first_gpu_of_eight_gathers(tmp_path: Path) -> None:
    """GPU 0 works for 900 of 1,000 us, the others for 400 beside it."""
    works = [Work(0, 0, 900), *[Work(device, 10, 410) for device in range(1, 8)]]
    found = checked(recorded(tmp_path, works, 1000), Oracle(works, 1000))
    assert found.answer == "unbalanced"
    assert found.statement.startswith("GPU 0 is busy for 90.0 % of the time, GPUs 1 to 7 for 40.0 %.")
    # (900 + 7 * 400) / 8 = 462.5
    assert "each busy for 46.3 %" in found.statement or "each busy for 46.2 %" in found.statement
    assert "DistributedDataParallel" in found.advice


def test_communication_is_no_work_to_share(tmp_path: Path) -> None:
    """GPU 1 computes for 300 us and waits in a collective for 500: it does not do its share."""
    works = [Work(0, 0, 800), Work(1, 0, 300), Work(1, 300, 800, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")]
    found = checked(recorded(tmp_path, works, 1000), Oracle(works, 1000))
    assert found.answer == "unbalanced"
    (row,) = ha.devices(recorded(tmp_path, works, 1000)).filter(device=1).rows(named=True)
    assert (row["bound_by"], row["bound_ns"]) == ("communication", 500_000)


def test_copies_are_work(tmp_path: Path) -> None:
    works = [Work(0, 0, 700), Work(2, 0, 700, kind="gpu_memcpy", name="Memcpy PtoP (Device -> Device)")]
    found = checked(recorded(tmp_path, works, 1000), Oracle(works, 1000))
    assert found.answer == "shared"
    assert ha.devices(recorded(tmp_path, works, 1000))["bound_by"].to_list() == ["computing", "copying"]


def test_a_process_of_a_job_that_works_on_the_gpu_of_another(tmp_path: Path) -> None:
    works = [Work(3, 0, 900), Work(0, 100, 120)]
    found = checked(recorded(tmp_path, works, 1000, world_size=4), Oracle(works, 1000))
    assert found.answer == "unbalanced"
    assert "torch.cuda.set_device(local_rank)" in found.advice


def test_a_single_gpu_has_nobody_to_share_with(tmp_path: Path) -> None:
    found = ha.gpu_balance(recorded(tmp_path, [Work(5, 0, 900)], 1000))
    assert found.answer == "one-gpu"
    report = ha.report(recorded(tmp_path, [Work(5, 0, 900)], 1000))
    assert "The GPU is busy for 90.0 % of the time" in report.to_text()
    assert "devices" not in [section.name for section in report.sections]
    nothing = TraceBuilder(rank=0).step(1, 0, 100).op("aten::mm", 0, 90).load(tmp_path, "cpu.json")
    assert ha.gpu_balance(nothing).answer == "no-gpu"


@pytest.mark.parametrize("seed", range(8))
def test_any_number_of_gpus_agrees_with_a_loop_over_time(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    end = draw.choice([400, 900, 1500])
    devices = draw.sample(range(16), draw.randint(2, 6))
    names = ("gemm", "void elementwise<float>", "ncclDevKernel_AllGather", "Memcpy DtoD (Device -> Device)")
    works = []
    at = 0
    while at < end - 60:
        name = draw.choice(names)
        until = at + draw.randint(1, 50)
        works.append(Work(draw.choice(devices), at, until, "gpu_memcpy" if "Memcpy" in name else "kernel", name))
        at += draw.randint(2, 40)
    checked(recorded(tmp_path, works, end), Oracle(works, end))


def test_a_threshold_below_zero_is_refused(tmp_path: Path) -> None:
    trace = recorded(tmp_path, [Work(0, 0, 9), Work(1, 0, 9)], 10)
    with pytest.raises(ha.QueryParameterError, match="uneven_pct"):
        ha.gpu_balance(trace, uneven_pct=-1.0)
