"""How kernels fill a GPU: worked out by hand from the limits of its multiprocessors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.derive.launch_shapes import A100, launched
from tests.trace_builder import TraceBuilder

V100 = A100 | {
    "name": "Tesla V100-SXM2-32GB",
    "computeMajor": 7,
    "sharedMemPerMultiprocessor": 96 * 1024,
    "numSms": 80,
}
MI300X: dict[str, object] = {
    "id": 0,
    "name": "AMD Instinct MI300X",
    "computeMajor": 9,
    "computeMinor": 4,
    "maxThreadsPerMultiprocessor": 2048,
    "warpSize": 64,
    "numSms": 304,
}
COLUMNS = (
    "blocks, threads, resident_blocks, waves, tail_pct, occupancy_pct, occupancy_limit, sm_efficiency_pct, evidence"
)


def kernel(args: dict[str, Any], *devices: dict[str, object]) -> TraceBuilder:
    return TraceBuilder(rank=0, deviceProperties=list(devices)).kernel("k", 0, 10, **args)


def shape(trace: Trace) -> tuple[object, ...]:
    return trace.sql(f"select {COLUMNS} from kernel_shape").row(0)


@pytest.mark.parametrize(
    ("device", "args", "expected"),
    [
        # 2,048 / 256 = 8 blocks by threads; 32 registers are 1,024 a warp: 16 warps in each of 4 parts, 64 in all, 8
        # blocks, too. 864 x 2.5 blocks are 2.5 waves: of three, half a wave is empty.
        (A100, launched([2160, 1, 1], [256, 1, 1], 32, 0), (2160, 256, 8, 2.5, 100 / 6, 100, "threads", 100)),
        # 100 registers are 3,200 a warp, rounded up to 3,328 (13 x 256): 4 warps of 16,384, 16 in all, 4 blocks of 4.
        (A100, launched([54, 8, 1], [64, 2, 1], 100, 0), (432, 128, 4, 1, 0, 25, "registers", 100)),
        # 100 registers in blocks of 3 warps: 5 blocks of 16 warps
        (A100, launched([540, 1, 1], [96, 1, 1], 100, 0), (540, 96, 5, 1, 0, 100 * 480 / 2048, "registers", 100)),
        # 48 KiB and the one that the system takes, 49 KiB: 3 of them in 164 KiB.
        (A100, launched([324, 1, 1], [128, 1, 1], 32, 48 * 1024), (324, 128, 3, 1, 0, 18.75, "shared_memory", 100)),
        # 160 KiB: one. The profiler calls the occupancy of such kernels 0.
        (
            A100,
            launched([108, 1, 1], [128, 1, 1], 32, 160 * 1024, **{"est. achieved occupancy %": 0}),
            (108, 128, 1, 1, 0, 6.25, "shared_memory", 100),
        ),
        # a block of 33 threads takes two warps: 32 of them would fit, and there are places for as many
        (A100, launched([3456, 1, 1], [33, 1, 1], 16, 0), (3456, 33, 32, 1, 0, 100 * 33 * 32 / 2048, "threads", 100)),
        # 64 blocks of a warp would fit by threads, and there are places for 32
        (A100, launched([6912, 1, 1], [32, 1, 1], 16, 0), (6912, 32, 32, 2, 0, 50, "blocks", 100)),
        # half of the multiprocessors have a block, of 8 that they could have
        (A100, launched([54, 1, 1], [256, 1, 1], 32, 0), (54, 256, 8, 1 / 16, 93.75, 6.25, "grid", 50)),
        # on a V100, blocks give nothing to the system, and shared memory comes by 256 bytes: 96 of 1,024
        (V100, launched([2560, 1, 1], [64, 1, 1], 32, 1000), (2560, 64, 32, 1, 0, 100, "threads", 100)),
        (V100, launched([160, 1, 1], [64, 1, 1], 32, 48 * 1024), (160, 64, 2, 1, 0, 6.25, "shared_memory", 100)),
        # no registers and no shared memory to share out
        (V100, launched([640, 1, 1], [256, 1, 1], 0, 0), (640, 256, 8, 1, 0, 100, "threads", 100)),
    ],
)
def test_by_hand(tmp_path: Path, device: dict[str, object], args: dict[str, Any], expected: tuple[object, ...]) -> None:
    assert shape(kernel(args, device).load(tmp_path)) == pytest.approx((*expected, "computed"))


def test_shared_memory_is_rounded_up(tmp_path: Path) -> None:
    """10,240 bytes and the reserved 1,024 are 11,264, and one byte more takes 128: 14 fit of both."""
    counts = []
    for number, shared in enumerate((10 * 1024, 10 * 1024 + 1, 11 * 1024)):
        folder = tmp_path / str(number)
        folder.mkdir()
        counts.append(shape(kernel(launched([1, 1, 1], [32, 1, 1], 16, shared), A100).load(folder))[2])
    assert counts == [164 * 1024 // 11264, 164 * 1024 // 11392, 164 * 1024 // 12288] == [14, 14, 13]


def test_amd_has_blocks_and_threads(tmp_path: Path) -> None:
    """Without registers, waves and occupancy are not known."""
    args = launched([152, 1, 1], [256, 1, 1], None, None, kind="Dispatch Kernel")
    trace = TraceBuilder(rank=0, deviceProperties=[MI300X]).op("x", 0, 10)
    trace.launches("k", 20, 30, call="hipLaunchKernel", **args)
    assert shape(trace.load(tmp_path)) == (152, 256, None, None, None, None, None, 50, None)


def test_a_grid_in_threads(tmp_path: Path) -> None:
    """`hipExtModuleLaunchKernel` takes the grid in threads: 38,912 are 152 blocks of 256."""
    args = launched([38912, 2, 1], [256, 1, 1], None, None, kind="Dispatch Kernel")
    trace = TraceBuilder(rank=0, deviceProperties=[MI300X]).op("x", 0, 10)
    trace.launches("k", 20, 30, call="hipExtModuleLaunchKernel", **args)
    opened = trace.load(tmp_path)
    assert shape(opened)[:2] == (304, 256)
    assert opened.sql("select grid, block from kernel_shape").row(0) == ("[152,2,1]", "[256,1,1]")


TOLD = {"blocks per SM": 0.5, "est. achieved occupancy %": 13}


@pytest.mark.parametrize(
    ("shared", "told", "expected"),
    [
        (0, TOLD, (13, 50, "trace")),
        (48 * 1024, TOLD | {"est. achieved occupancy %": 0}, (0, 50, "trace")),
        # its 0 is no figure
        (48 * 1024 + 1, TOLD | {"est. achieved occupancy %": 0}, (None, 50, None)),
        (0, TOLD | {"est. achieved occupancy %": 101}, (None, 50, None)),
        (0, TOLD | {"est. achieved occupancy %": -1}, (None, 50, None)),
        (0, {"blocks per SM": -2}, (None, None, None)),  # damaged
        (0, {}, (None, None, None)),
    ],
)
def test_of_an_unknown_gpu_there_is_what_the_trace_says(
    tmp_path: Path, shared: int, told: dict[str, object], expected: tuple[object, ...]
) -> None:
    trace = kernel(launched([54, 1, 1], [256, 1, 1], 32, shared, **told)).load(tmp_path)
    assert trace.sql("select occupancy_pct, sm_efficiency_pct, evidence from kernel_shape").row(0) == expected
    assert trace.sql("select waves, occupancy_limit from kernel_shape").row(0) == (None, None)


def test_of_a_gpu_that_the_user_names_the_limits_are_known(tmp_path: Path) -> None:
    path = kernel(launched([2160, 1, 1], [256, 1, 1], 32, 0)).write(tmp_path / "trace.json")
    with ha.load(path, gpu="A100 SXM4 40GB") as trace:
        assert shape(trace) == pytest.approx((2160, 256, 8, 2.5, 100 / 6, 100, "threads", 100, "computed"))


@pytest.mark.parametrize(
    "args",
    [
        {"grid": [0, 1, 1], "block": [32, 1, 1]},
        {"grid": [1, 1, 1], "block": [-1, 1, 1]},
        {"grid": "large", "block": [32, 1, 1]},
        {"grid": [1, 1, 1]},
        {},
    ],
)
def test_kernels_without_a_grid_have_no_row(tmp_path: Path, args: dict[str, Any]) -> None:
    assert kernel(args, A100).load(tmp_path).table("kernel_shape").is_empty()


@pytest.mark.parametrize(
    "args",
    [
        launched([2**62, 2**62, 2**62], [2**62, 2**62, 1], 32, 0),
        launched([1, 1, 1], [32, 1, 1], 2**62, 0),
        launched([1, 1, 1], [32, 1, 1], 32, 2**62),
        launched([1, 1, 1], [4096, 1, 1], 32, 0),
        launched([1, 1, 1], [32, 1, 1], -1, 0),
    ],
)
def test_what_fits_on_no_multiprocessor_has_no_occupancy(tmp_path: Path, args: dict[str, Any]) -> None:
    found = kernel(args, A100).load(tmp_path).sql("select resident_blocks, occupancy_pct from kernel_shape")
    assert found.rows() == [(None, None)]
