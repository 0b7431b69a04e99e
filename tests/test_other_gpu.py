"""A step on another GPU: the parts of kernels' times worked out by hand from what vendors say, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.gpu_models import named_gpu, shipped_gpus
from hotline_analysis.prediction.engine.loop import loop_of
from hotline_analysis.prediction.engine.other_gpu import Move, move_to
from tests.command import hotline
from tests.gpu_steps import A100, HALF_GEMM, POINTWISE, shaped, steps
from tests.trace_builder import TraceBuilder

US = 1000
# Of `rules/gpus.csv`: GB/s, MHz, multiprocessors, and bf16 on tensor cores.
A100_SAYS = (1555, 1410, 108, 312)
H200_SAYS = (4800, 1830, 132, 989.4)


def moved(trace: ha.Trace, gpu: str) -> tuple[float, float, float]:
    """The parts of its time that the kernel takes there: at the ends of the range, and between."""
    found = move_to(loop_of(trace), named_gpu(gpu), [])
    assert isinstance(found, Move), found
    rows = found.parts.select("part_0", "part_1", "part_2").unique().rows()
    assert len(rows) == 1
    return rows[0]


def test_a_kernel_that_memory_bounds_goes_with_the_bandwidth(tmp_path: Path) -> None:
    """Nothing is known of its arithmetic, so it may also go with clock and multiprocessors."""
    trace = steps(tmp_path, POINTWISE, 100, **shaped(100_000))
    memory, compute = 1555 / 4800, 1410 / 1830 * 108 / 132
    assert moved(trace, "H200") == pytest.approx((memory, memory, compute))
    found = ha.whatif(trace, "gpu", to="H200")
    # the GPU was busy all the time; now it needs 32.4 us of the 40
    assert (found.baseline_ns, found.predicted_ns) == (100 * US, 40 * US)
    assert "A100 SXM4 40GB to H200 SXM 141GB" in " ".join(found.assumptions)


def test_with_its_work_known_a_kernel_is_between_the_two(tmp_path: Path) -> None:
    """1,048,576 sums of two: 1 FLOP for 12 bytes, against a ridge of 66,900 / 4,800 FLOP per byte."""
    trace = steps(tmp_path, POINTWISE, 100, dims=[[1024, 1024], [1024, 1024], []], **shaped(100_000))
    bound = 1 - (1 / 12) / (2 * 66_900 / 4_800)
    expected = (1555 / 4800) ** bound * (1410 / 1830 * 108 / 132) ** (1 - bound)
    assert moved(trace, "H200")[1] == pytest.approx(expected)


def test_blocks_that_run_all_at_once_do_not_gain_by_more_room(tmp_path: Path) -> None:
    trace = steps(tmp_path, POINTWISE, 100, **shaped(50))
    assert moved(trace, "H200") == pytest.approx((1410 / 1830, 1.0, 1.0))


def test_more_rounds_take_longer(tmp_path: Path) -> None:
    """100 blocks are one round of 108 multiprocessors, and two of the 80 of a V100, of which each holds eight."""
    trace = steps(tmp_path, POINTWISE, 100, **shaped(100))
    assert moved(trace, "Tesla V100 SXM2 16GB") == pytest.approx((1.0, 1.0, 1410 / 1530 * 2))


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        # 2 · 4,096³ FLOP for 3 · 4,096² · 2 bytes: bound by the tensor cores of both
        ([[4096, 4096], [4096, 4096]], 312 / 989.4),
        # 2 · 4,096² FLOP for 2 · (4,096² + 2 · 4,096) bytes: bound by the memory of both
        ([[4096, 4096], [4096, 1]], 1555 / 4800),
    ],
)
def test_a_product_goes_by_the_rooflines(tmp_path: Path, dims: list[list[int]], expected: float) -> None:
    trace = steps(tmp_path, HALF_GEMM, 100, op="aten::mm", dims=dims, dtype="c10::BFloat16")
    assert moved(trace, "H200") == pytest.approx((0.7 * expected, expected, 1.5 * expected))


def test_a_product_of_unknown_shape_is_between_peak_and_bandwidth(tmp_path: Path) -> None:
    peak, memory = 312 / 989.4, 1555 / 4800
    trace = steps(tmp_path, HALF_GEMM, 100, op="aten::mm")
    expected = (0.7 * min(peak, memory), (peak * memory) ** 0.5, 1.5 * max(peak, memory))
    assert moved(trace, "H200") == pytest.approx(expected)


def test_tf32_is_fp32_where_there_is_none(tmp_path: Path) -> None:
    """4,096³ products in TF32: 156 TFLOP/s on the A100, and 15.7 of FP32 on the V100."""
    name = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16"
    trace = steps(tmp_path, name, 100, op="aten::mm", dims=[[4096, 4096], [4096, 4096]])
    assert moved(trace, "Tesla V100 SXM2 16GB")[1] == pytest.approx(156 / 15.7)


def test_copies_and_collectives_go_by_their_links(tmp_path: Path) -> None:
    """PCIe 4 to 5 is 31.5 to 63 GB/s, NVLink 3 to 4 600 to 900; whether they were what held up is not known."""
    copy = steps(tmp_path / "a", "Memcpy HtoD (Pinned -> Device)", 100, category="gpu_memcpy")
    assert moved(copy, "H200") == pytest.approx((0.5, 1, 1))
    inside = steps(tmp_path / "b", "Memcpy DtoD (Device -> Device)", 100, category="gpu_memcpy")
    assert moved(inside, "H200") == pytest.approx((1555 / 4800,) * 3)
    reduced = steps(tmp_path / "c", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 100)
    assert moved(reduced, "H200") == pytest.approx((2 / 3, 1, 1))


def test_another_cpu(tmp_path: Path) -> None:
    """The GPU needs 5 us of the 40 that the CPU takes for a step."""
    trace = steps(tmp_path, POINTWISE, 5, **shaped(100_000))
    assert ha.whatif(trace, "gpu", to="H200").predicted_ns == 40 * US
    assert ha.whatif(trace, "gpu", to="H200", cpu=2).predicted_ns == pytest.approx(20 * US, abs=10)


@pytest.mark.long
def test_kernels_that_another_trace_has_take_as_long_as_there(tmp_path: Path) -> None:
    """A kernel takes 100 us here and 10, 20, 30, 40 and 50 us on the H200; one with another grid goes by the rules."""
    trace = steps(tmp_path / "here", POINTWISE, 100, **shaped(100_000))
    there = TraceBuilder(rank=0, deviceProperties=[{**A100, "name": "NVIDIA H200", "numSms": 132}])
    for number in range(5):
        at = 100 * number
        there.step(number, at, at + 100).op("aten::add", at, at + 10)
        there.launches(POINTWISE, at + 5, at + 15 + 10 * number, at=at + 1, until=at + 2, **shaped(100_000))
        there.launches(POINTWISE, at + 70, at + 71, at=at + 3, until=at + 4, **shaped(200_000))
    like = there.load(tmp_path, "like.json")
    found = move_to(loop_of(trace), named_gpu("H200"), [], like)
    assert isinstance(found, Move)
    # a tenth is not longer than 14 us, and a tenth not shorter than 46: between the first two, and the last two
    assert found.parts.select("part_0", "part_1", "part_2").unique().rows() == [pytest.approx((0.14, 0.30, 0.46))]
    predicted = ha.whatif(trace, "gpu", like=like)
    assert predicted.predicted_ns == 40 * US
    assert "Kernels of 100.0 % of the GPU time have the same name" in " ".join(predicted.assumptions)
    other = steps(tmp_path / "other", POINTWISE, 100, **shaped(50_000))
    by_rules = move_to(loop_of(other), named_gpu("H200"), [])
    with_like = move_to(loop_of(other), named_gpu("H200"), [], like)
    assert isinstance(by_rules, Move)
    assert isinstance(with_like, Move)
    assert with_like.parts.equals(by_rules.parts)
    assert "Kernels of 0.0 %" in with_like.assumptions[0]
    rows = {row["gpu"]: row for row in ha.on_gpu(trace, like=like).to_dicts()}
    assert rows["H200 SXM 141GB"]["high_ns"] == predicted.high_ns
    assert rows["H100 SXM5 80GB"] == {row["gpu"]: row for row in ha.on_gpu(trace).to_dicts()}["H100 SXM5 80GB"]
    with pytest.raises(ha.HotlineError, match="recorded on H200 SXM 141GB, not on T4"):
        ha.whatif(trace, "gpu", to="T4", like=like)
    with pytest.raises(ha.QueryParameterError, match="like of gpu must be an open trace"):
        ha.whatif(trace, "gpu", like="somewhere")
    text = hotline("whatif", tmp_path / "here" / "trace.json", "gpu", "-p", f"like={tmp_path / 'like.json'}")
    assert "have the same name, grid and block" in text


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    half = steps(tmp_path / "a", HALF_GEMM, 100, op="aten::mm")
    with pytest.raises(ha.HotlineError, match=r"has no peak in bf16, in which 100\.0 % of the GPU time is"):
        ha.whatif(half, "gpu", to="Tesla V100 SXM2 16GB")
    with pytest.raises(ha.HotlineError, match="nother vendor's libraries"):
        ha.whatif(half, "gpu", to="MI300X")
    with pytest.raises(ha.HotlineError, match="there is no GPU 'H2000'"):
        ha.whatif(half, "gpu", to="H2000")
    with pytest.raises(ha.HotlineError, match="name a GPU"):
        ha.whatif(half, "gpu")
    with pytest.raises(ha.QueryParameterError, match="cpu of gpu must be"):
        ha.whatif(half, "gpu", to="H200", cpu=0)
    unknown = steps(tmp_path / "b", POINTWISE, 100, device={"id": 0, "name": "a GPU"})
    with pytest.raises(ha.HotlineError, match="import the trace with --gpu NAME"):
        ha.whatif(unknown, "gpu", to="H200")
    part = steps(
        tmp_path / "c", POINTWISE, 100, device={**A100, "numSms": 14, "name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb"}
    )
    with pytest.raises(ha.HotlineError, match="shows a part of a GPU"):
        ha.whatif(part, "gpu", to="H200")
    large = steps(tmp_path / "d", POINTWISE, 100, allocated=30 << 30)
    with pytest.raises(ha.HotlineError, match=r"needs 30(\.0)? GiB of memory, but T4 has 16(\.0)? GiB"):
        ha.whatif(large, "gpu", to="T4")


def test_all_gpus(tmp_path: Path) -> None:
    trace = steps(tmp_path, POINTWISE, 100, allocated=30 << 30, **shaped(100_000))
    found = ha.on_gpu(trace, prices={"H200": 4.0, "a100-sxm4-80gb": 2.0})
    assert sorted(found["gpu"]) == sorted({str(gpu["model"]) for gpu in shipped_gpus()})
    rows = {row["gpu"]: row for row in found.to_dicts()}
    assert rows["A100 SXM4 40GB"]["predicted_ns"] == 100 * US
    assert rows["H200 SXM 141GB"]["fits"] is True
    assert (rows["T4"]["fits"], rows["T4"]["predicted_ns"]) == (False, None)
    assert "30 GiB of memory" in rows["T4"]["reason"]
    assert "Another vendor" in rows["Instinct MI300X"]["reason"]
    # 40 us a step: 90 million steps an hour, of which one costs 4
    assert rows["H200 SXM 141GB"]["steps_per_price"] == pytest.approx(3600e6 / 40 / 4)
    assert rows["H100 SXM5 80GB"]["steps_per_price"] is None
    done = found.filter(pl.col("reason").is_null())
    assert done["predicted_ns"].is_sorted()
    assert (done["low_ns"] <= done["predicted_ns"]).all()
    assert (done["predicted_ns"] <= done["high_ns"]).all()
    with pytest.raises(ha.HotlineError, match="there is no GPU 'H9'"):
        ha.on_gpu(trace, prices={"H9": 1.0})


def test_no_gpu_work_is_said(tmp_path: Path) -> None:
    file = TraceBuilder(rank=0).step(0, 0, 40).op("aten::add", 0, 10).step(1, 40, 80).op("aten::add", 40, 50)
    with pytest.raises(ha.HotlineError, match="no GPU work"):
        ha.on_gpu(file.load(tmp_path))


def test_figures_of_the_user_count(tmp_path: Path) -> None:
    known = {key: value for key, value in named_gpu("A100 SXM4 40GB").items() if key != "position"}
    mine = {**known, "model": "Twice", "name_pattern": "^Twice$", "memory_gb_per_s": 3110}
    file = TraceBuilder(rank=0, deviceProperties=[A100])
    for number in range(3):
        file.step(number, 40 * number, 40 * number + 40).op("aten::add", 40 * number, 40 * number + 10)
        file.launches(POINTWISE, 40 * number + 5, 40 * number + 35, at=40 * number + 1, **shaped(100_000))
    trace = ha.load(file.write(tmp_path / "trace.json"), gpus=[mine])
    found = ha.on_gpu(trace)
    assert found.filter(gpu="Twice")["reason"].to_list() == [None]


@pytest.mark.parametrize("kernel", [(POINTWISE, shaped(100_000)), (POINTWISE, shaped(50)), (HALF_GEMM, {})])
def test_a_gpu_that_is_better_in_everything_is_never_slower(tmp_path: Path, kernel: tuple[str, dict[str, Any]]) -> None:
    name, args = kernel
    loop = loop_of(steps(tmp_path, name, 100, op="aten::mm", **args))
    known = dict(named_gpu("A100 SXM4 40GB"))
    faster = [key for key in known if key.endswith("_per_s") or key in ("boost_mhz", "sm_count")]
    before = (1.0, 1.0)
    for factor in (1, 1.5, 2, 4):
        better = {**known, **{key: factor * float(str(known[key])) for key in faster if known[key] is not None}}
        found = move_to(loop, {**better, "sm_count": int(factor * 108)}, [])
        assert isinstance(found, Move)
        # the high end of a product is that another kernel is chosen, which may be slower
        now = found.parts.select(pl.col("part_0").max(), pl.col("part_1").max()).row(0)
        assert now[0] <= before[0] + 1e-9
        assert now[1] <= before[1] + 1e-9
        before = now


def test_the_same_gpu_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    own = steps(tmp_path, POINTWISE, 100, dims=[[1024, 1024], [1024, 1024], []], **shaped(100_000))
    assert moved(own, "A100 SXM4 40GB") == pytest.approx((1, 1, 1))
    library = steps(tmp_path / "b", HALF_GEMM, 100, op="aten::mm")
    assert moved(library, "A100 SXM4 40GB") == pytest.approx((1, 1, 1))
