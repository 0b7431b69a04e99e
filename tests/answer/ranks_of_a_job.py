"""Traces of ranks that wait for each other in collectives."""

from pathlib import Path
from typing import Any

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder


def job(
    rank: int, starts: list[int], *, clock: int = 0, gemm: int = 50, size: int = 1000, group: str = "0"
) -> TraceBuilder:
    """Steps of 1000 us, each with an all-reduce of floats from the given time to 200; `clock` is the rank's error."""
    built = TraceBuilder(rank=rank, world_size=3)
    for number, start in enumerate(starts):
        at = 1000 * number + clock
        built.step(number, at, at + 1000).module("Net", 0, at, at + 90).module("Linear", 0, at + 10, at + 80)
        built.op("aten::mm", at + 20, at + 40).launches("gemm", at + 40, at + 40 + gemm)
        args: dict[str, Any] = {
            "Collective name": "allreduce",
            "dtype": "Float",
            "In msg nelems": size,
            "Out msg nelems": size,
            "Group size": 3,
            "Process Group Name": group,
            "Process Group Ranks": "[0, 1, 2]",
        }
        built.op("c10d::allreduce_", at + 92, at + 98)
        built.launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + start, at + 200, stream=9, **args)
    return built


def ranks(folder: Path, *built: TraceBuilder) -> Trace:
    for number, one in enumerate(built):
        one.write(folder / f"{number}.json")
    return ha.load(folder)
