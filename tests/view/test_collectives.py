"""What collectives are for, and what each rank waits for in them."""

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder


def called(folder: Path, name: str, words: str, *, phase: str) -> set[str]:
    """The uses of collectives of a kind, whose process group has a description, called in forward or backward."""
    args: dict[str, Any] = {"Collective name": name, "Group size": 2, "Process Group Description": words}
    trace = TraceBuilder(rank=0, world_size=2).step(0, 0, 200).op("aten::linear", 10, 20, seq=1)
    if phase == "forward":
        trace.op("c10d::call", 22, 26).launches("ncclDevKernel", 30, 40, **args)
    trace.op("aten::mse_loss", 30, 40, seq=2).backward("MseLossBackward0", 50, 60, seq=2)
    trace.backward("LinearBackward0", 60, 70, seq=1)
    if phase == "backward":
        trace.op("c10d::call", 61, 64).launches("ncclDevKernel", 80, 90, **args)
    return {use for (use,) in trace.load(folder).sql("select distinct use from collective_use").rows()}


@pytest.mark.parametrize(
    ("name", "words", "phase", "use"),
    [
        ("allreduce", "default_pg", "backward", "gradients"),
        ("allreduce", "default_pg", "forward", "activations"),
        ("allreduce", "TENSOR_MODEL_PARALLEL_GROUP", "backward", "activations"),
        ("alltoall", "default_pg", "forward", "exchange"),
        ("allgather", "mesh_ep", "forward", "exchange"),
        ("recv", "mesh_pp", "forward", "stages"),
        ("broadcast", "default_pg", "backward", "other"),
    ],
)
def test_what_a_collective_is_for(tmp_path: Path, name: str, words: str, phase: str, use: str) -> None:
    """`collective_use`."""
    assert called(tmp_path, name, words, phase=phase) == {use}


def test_a_wait_for_the_start_of_a_recording_is_nobodys_delay(tmp_path: Path) -> None:
    """`collective_wait`: rank 1 begins 400 us later and comes as much later to the first all-reduce, then 50 later."""
    args: dict[str, Any] = {"Collective name": "allreduce", "Group size": 2, "Process Group Name": "0"}
    for rank, (began, first, second) in enumerate([(0, 100, 1100), (400, 500, 1150)]):
        built = TraceBuilder(rank=rank, world_size=2).step(0, began, 1000).step(1, 1000, 2000)
        built.op("aten::mm", began + 1, began + 2).op("c10d::allreduce_", began + 10, began + 20)
        built.launches("ncclDevKernel_AllReduce", first, 600, stream=9, **args)
        built.op("c10d::allreduce_", 1010, 1020).launches("ncclDevKernel_AllReduce", second, 1300, stream=9, **args)
        built.write(tmp_path / f"{rank}.json")
    found = ha.load(tmp_path).sql(
        "select rank, late_rank, arrival_wait_ns / 1000, start_wait_ns / 1000 from collective_wait"
        " order by match_id, rank"
    )
    assert found.rows() == [(0, 1, 0, 400), (1, 1, 0, 0), (0, 1, 50, 0), (1, 1, 0, 0)]
