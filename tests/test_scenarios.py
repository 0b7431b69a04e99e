"""The scenarios on steps of a few kernels; what a step takes then is worked out by hand, in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.prediction.scenarios import KNOWN
from tests.scenario_steps import GEMM, POINTWISE, Work, kernel, steps
from tests.trace_builder import TraceBuilder

US = 1000
HALF_GEMM = "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def test_amp_scales_products_and_the_rest_of_the_model(tmp_path: Path) -> None:
    """90 us of products, 40 of others in forward, 20 in the optimizer: 30 + 20 + 20, and a cast per product."""
    trace = steps(tmp_path, kernel(GEMM, 90), kernel(POINTWISE, 40), kernel(POINTWISE, 20, "optimizer"))
    found = ha.whatif(trace, "amp", matmul=3, other=2)
    assert found.baseline_ns == 150 * US
    # a cast takes as long as half-way between the elementwise kernels of 40 and 20 us
    assert found.predicted_ns == pytest.approx((30 + 20 + 20 + 30) * US, abs=10)
    assert found.low_ns == pytest.approx(0.96 * 70 * US, rel=0.001)  # none is needed
    again = steps(tmp_path, kernel(HALF_GEMM, 90, op="aten::mm"))
    with pytest.raises(ha.HotlineError, match="amp does not apply: half precision already"):
        ha.whatif(again, "amp")
    with pytest.raises(ha.HotlineError, match="has no tensor cores"):
        ha.whatif(steps(tmp_path, kernel(GEMM, 90), major=6), "amp")


def test_tf32_is_of_gpus_that_have_it(tmp_path: Path) -> None:
    trace = steps(tmp_path, kernel(GEMM, 90), kernel(POINTWISE, 40), major=8)
    found = ha.whatif(trace, "tf32")
    assert found.predicted_ns == (30 + 40) * US
    assert (found.low_ns, found.high_ns) == (round(0.96 * 55 * US), round(1.04 * 100 * US))
    with pytest.raises(ha.HotlineError, match="the GPU has no TF32"):
        ha.whatif(steps(tmp_path, kernel(GEMM, 90)), "tf32")


def test_no_kernel_gets_faster_than_its_flop_and_bytes_allow(tmp_path: Path) -> None:
    """An A100: 19.5 TFLOP/s of FP32, 156 of TF32, 312 of half precision, and 1,555 GB/s."""
    a100 = {"major": 8, "gpu": "NVIDIA A100-SXM4-40GB"}
    # One row times a matrix of 64 MiB, which takes 43.2 us to read: TF32 changes no byte, half precision half of them.
    side = 4096
    row = kernel(GEMM, 90, op="aten::mm", dims=[[1, side], [side, side]])
    read_us = 4 * (side * side + 2 * side) / 1.555e12 * 1e6
    trace = steps(tmp_path, row, **a100)  # type: ignore[arg-type]
    tf32 = ha.whatif(trace, "tf32")
    assert tf32.predicted_ns == tf32.baseline_ns == 90 * US
    assert tf32.low_ns == pytest.approx(0.96 * read_us * US, abs=2)
    assert tf32.high_ns == round(1.04 * 90 * US)
    assert any("100.0 % of their time" in said for said in tf32.assumptions)
    assert ha.whatif(trace, "tf32", matmul=3).predicted_ns == pytest.approx(
        40 * US
    )  # as asked: the CPU's 40 us are left
    # A square product of 7.05 ms at the peak of FP32, and 0.88 at that of TF32: as without shapes, 1.5 to 6 times.
    square = kernel(GEMM, 9000, op="aten::mm", dims=[[side, side], [side, side]])
    tf32 = ha.whatif(steps(tmp_path, square, **a100), "tf32")  # type: ignore[arg-type]
    assert tf32.predicted_ns == 3000 * US
    assert (tf32.low_ns, tf32.high_ns) == (round(0.96 * 1500 * US), round(1.04 * 6000 * US))
    # Near the peak of FP32, half precision cannot take less than 0.44 ms; a fifth is expected at most.
    amp = ha.whatif(steps(tmp_path, kernel(GEMM, 7100, op="aten::mm", dims=square[3]["dims"]), **a100), "amp")  # type: ignore[arg-type]
    assert amp.low_ns == pytest.approx(0.96 * 7100 / 5 * US, rel=0.001)


def test_channels_last_and_batch_normalisation(tmp_path: Path) -> None:
    works = (
        kernel("void cudnn::ops::nchwToNhwcKernel<float, float, float>(int)", 10),
        kernel("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)", 40, op="aten::cudnn_batch_norm"),
        kernel(POINTWISE, 20, op="aten::relu_"),
        kernel("void cudnn::bn_bw_1C11_kernel_new<float>(int)", 60, "backward", op="aten::cudnn_batch_norm_backward"),
    )
    trace = steps(tmp_path, *works)
    assert ha.whatif(trace, "channels_last").predicted_ns == 120 * US
    found = ha.whatif(trace, "restructured_bn")
    # Daydream's rule: half of 40 + 60, nothing of 20; the gain of 70 us times 7 / 12.7 is expected
    assert found.low_ns == pytest.approx(0.96 * 60 * US, rel=1e-4)
    assert found.predicted_ns == pytest.approx((130 - 70 * 7 / 12.7) * US, rel=1e-4)
    assert found.high_ns == pytest.approx(1.04 * 130 * US, rel=1e-4)


def test_a_network_that_is_faster(tmp_path: Path) -> None:
    """Every collective takes 50 us: all of it is transfer, and half as long if the network is twice as fast."""
    trace = steps(tmp_path, kernel(POINTWISE, 30, "backward"), kernel(NCCL, 50, "backward"))
    assert ha.whatif(trace, "bandwidth").predicted_ns == (30 + 25) * US
    assert ha.whatif(trace, "bandwidth", factor=5).predicted_ns == (30 + 10) * US
    assert ha.whatif(trace, "bandwidth", factor=0.5).predicted_ns == (30 + 100) * US
    # beside the computation, on a stream of its own
    assert ha.whatif(trace, "overlap").predicted_ns == 50 * US


def test_waiting_for_other_ranks_is_no_transfer(tmp_path: Path) -> None:
    """Collectives of 50 us, but for one of 70 in step 3: 20 us of waiting, on average 4 in each of five steps."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(5):
        length = 70 if number == 3 else 50
        trace.step(number, at, at + length + 12).annotation("## backward ##", at, at + 8)
        trace.op("c10d::allreduce_", at, at + 8).launches(NCCL, at + 5, at + 5 + length, at=at + 1, until=at + 3)
        trace.runtime("cudaDeviceSynchronize", at + 9, at + length + 6, correlation=trace.new_correlation())
        at += length + 12
    loaded = trace.annotation("the end", at, at + 1).load(tmp_path)
    found = ha.whatif(loaded, "bandwidth", factor=2)
    assert found.baseline_ns == pytest.approx(66 * US, abs=2)
    assert found.predicted_ns == pytest.approx((66 - 25) * US, abs=2)
    assert found.gain_high_ns > 25 * US  # waiting may shrink alike


def test_waiting_for_a_rank_of_the_run_is_no_transfer(tmp_path: Path) -> None:
    """Rank 1 comes 40 us later to collectives that take rank 0 100 us: 60 us are transfer, half of that is saved."""
    group: dict[str, Any] = {
        "Collective name": "allreduce",
        "dtype": "Float",
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
    }
    group |= {"Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    for rank, begun in ((0, 100), (1, 140)):
        trace = TraceBuilder(rank=rank, world_size=2)
        for number in range(4):
            at = 220 * number
            trace.step(number, at, at + 220).annotation("## backward ##", at, at + 98)
            trace.op("c10d::allreduce_", at + 90, at + 97)
            trace.launches(NCCL, at + begun, at + 200, at=at + 92, until=at + 94, **group)
            trace.runtime("cudaDeviceSynchronize", at + 99, at + 205, correlation=trace.new_correlation())
        trace.write(tmp_path / f"rank{rank}.json")
    with ha.load(tmp_path) as loaded:
        found = ha.whatif(loaded, "bandwidth", rank=0, factor=2)
    assert found.baseline_ns == 220 * US
    assert found.predicted_ns == (220 - 30) * US


def test_an_optimizer_of_many_kernels(tmp_path: Path) -> None:
    """20 kernels of 5 us for the optimizer, which become 0.3 of their 100 us; forward has 50."""
    works: Sequence[Work] = (kernel(GEMM, 50), *(kernel(POINTWISE, 5, "optimizer") for _ in range(20)))
    trace = steps(tmp_path, *works, host_us=100)
    found = ha.whatif(trace, "fused_optimizer", factor=0.3)
    assert found.baseline_ns == 150 * US
    assert found.predicted_ns == pytest.approx((50 + 30) * US, abs=100)
    fused = "void at::native::multi_tensor_apply_kernel<at::native::FusedAdam>(int)"
    with pytest.raises(ha.HotlineError, match="already"):
        ha.whatif(steps(tmp_path, kernel(GEMM, 50), kernel(fused, 9, "optimizer")), "fused_optimizer")


def test_an_optimizer_of_one_kernel_keeps_its_launch(tmp_path: Path) -> None:
    """One of four kernels in four steps is launched as before: a quarter of the ops, at the high end as well."""
    trace = steps(tmp_path, kernel(GEMM, 50), kernel("vectorized_elementwise_kernel", 9, "optimizer"))
    found = ha.whatif(trace, "fused_optimizer")
    assert found.low_ns <= found.predicted_ns <= found.baseline_ns


def test_a_fused_optimizer_moves_the_bytes_of_its_gradients(tmp_path: Path) -> None:
    """A gradient of 4 MB, an optimizer of 20 kernels that take 1 ms, and memory that goes at 3.86 % of its speed."""
    size = 1_000_000
    works = (
        kernel(POINTWISE, 200, op="aten::add", dims=[[size], [size]]),
        kernel(POINTWISE, 1, "backward", op="torch::autograd::AccumulateGrad", dims=[[size]]),
        *(kernel(POINTWISE, 50, "optimizer") for _ in range(20)),
    )
    trace = steps(tmp_path, *works, host_us=100, major=8, gpu="NVIDIA A100-SXM4-40GB")
    found = ha.whatif(trace, "fused_optimizer")
    assert found.baseline_ns == 1201 * US
    added_us = 12 * size / 1.555e12 * 1e6  # reads two tensors and writes one, in 200 us
    moved_us = 5 * 4 * size / 1.555e12 * 1e6  # SGD: reads three, writes two
    assert found.predicted_ns == pytest.approx((201 + moved_us * 200 / added_us) * US, rel=0.002)
    assert found.low_ns == pytest.approx(0.96 * (201 + moved_us * 3 / 5) * US, rel=0.01)
    assert any("5 times the 4,000,000 bytes" in said for said in found.assumptions)


def test_a_graph_launches_kernels_for_less(tmp_path: Path) -> None:
    """Ten kernels of 3 us, whose launches keep the CPU for 100 us of a step; a graph of them takes 10 + 10 * 1 us."""
    works = tuple(kernel(GEMM, 3) for _ in range(25))
    trace = steps(tmp_path, *works, host_us=100)
    assert ha.whatif(trace, "cuda_graph", launch_us=10, kernel_us=1).baseline_ns == 100 * US
    found = ha.whatif(trace, "cuda_graph", launch_us=10, kernel_us=1)
    assert found.predicted_ns == 75 * US  # the kernels, back to back
    assert ha.whatif(trace, "cuda_graph", launch_us=10, kernel_us=3).predicted_ns == 85 * US


def test_copies_from_pinned_memory_are_not_waited_for(tmp_path: Path) -> None:
    """The CPU waits 60 us for the copy of a batch, and then works 50 us; the GPU needs 60 and 30 us."""
    trace = TraceBuilder(rank=0)
    at = 0
    for number in range(5):
        trace.step(number, at, at + 120)
        number_of_copy = trace.new_correlation()
        trace.op("aten::copy_", at, at + 70)
        trace.runtime("cudaMemcpyAsync", at + 2, at + 66, correlation=number_of_copy)
        trace.copy(at + 5, at + 65, kind="HtoD", nbytes=480_000, correlation=number_of_copy)
        trace.events[-1]["name"] = "Memcpy HtoD (Pageable -> Device)"
        trace.op("aten::mm", at + 70, at + 120).launches(GEMM, at + 75, at + 105, at=at + 71, until=at + 73)
        at += 120
    loaded = trace.annotation("the end", at, at + 1).load(tmp_path)
    found = ha.whatif(loaded, "pinned", factor=0.5)
    assert found.baseline_ns == 120 * US
    # the copy takes 30 us beside the CPU, whose own time is 120 - 61 (waiting since the copy began at 5, until 66)
    assert found.predicted_ns == pytest.approx(60 * US, abs=2 * US)
    assert "pin_memory=True" in " ".join(found.assumptions)
    # 480,000 bytes take 40 us at 12 GB/s, and the GPU has 30 us of other work
    assert ha.whatif(loaded, "pinned").predicted_ns == pytest.approx(70 * US, abs=2 * US)


def test_copies_are_as_fast_as_the_link_of_a_gpu_that_is_known(tmp_path: Path) -> None:
    """An H100's PCIe 5 moves 64 GB/s: 12 / 15.75 of it is expected, all of it at best."""
    trace = TraceBuilder(rank=0, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9}])
    at = 0
    for number in range(5):
        trace.step(number, at, at + 120)
        number_of_copy = trace.new_correlation()
        trace.op("aten::copy_", at, at + 110).runtime("cudaMemcpyAsync", at + 2, at + 106, correlation=number_of_copy)
        trace.copy(at + 5, at + 105, kind="HtoD", nbytes=640_000, correlation=number_of_copy)
        trace.events[-1]["name"] = "Memcpy HtoD (Pageable -> Device)"
        at += 120
    loaded = trace.annotation("the end", at, at + 1).load(tmp_path)
    found = ha.whatif(loaded, "pinned")
    # 640,000 bytes take 10 us at 64 GB/s, and 13.1 us at 48.8; the CPU has 120 - 101 us of its own, beside it
    assert found.predicted_ns == pytest.approx(19 * US, abs=2 * US)
    slower = ha.whatif(loaded, "pinned", factor=13.125 / 100)
    assert found.predicted_ns == slower.predicted_ns
    [advice] = [row for row in ha.advice(loaded).iter_rows(named=True) if row["rule"] == "pageable_copies"]
    assert advice["time_ns"] == 100 * US
    assert advice["gain_ns"] == pytest.approx((120 - 19) * US, abs=2 * US)


def test_the_profiler_takes_as_long_for_each_op_and_call(tmp_path: Path) -> None:
    """40 us of a thread hold two ops, each with a call: without the profiler they are 4 x 2 us shorter."""
    trace = steps(tmp_path, kernel(GEMM, 5), kernel(GEMM, 5))
    recorded = trace.sql("select count(*) from event where category in ('cpu_op', 'cuda_runtime')").item() / 5
    assert recorded == 4  # two ops, each with a call
    found = ha.whatif(trace, "no_profiler", event_us=2)
    assert found.baseline_ns == 40 * US
    assert found.predicted_ns == pytest.approx((40 - 4 * 2) * US, abs=US / 2)
    usual = ha.whatif(trace, "no_profiler")
    assert usual.predicted_ns == pytest.approx((40 - 4 * 2.5) * US, abs=US / 2)
    assert "4 ops and calls" in " ".join(usual.assumptions)
    # what waits for the GPU gets no shorter
    (tmp_path / "busy").mkdir()
    busy = steps(tmp_path / "busy", kernel(GEMM, 90))
    assert ha.whatif(busy, "no_profiler").predicted_ns == 90 * US


def test_each_says_why_it_does_not_apply(tmp_path: Path) -> None:
    trace = steps(tmp_path, kernel("custom_kernel", 50))
    table = ha.whatif(trace)
    assert set(table["scenario"]) == set(KNOWN)
    for name, reason in table.filter(pl.col("reason").is_not_null()).select("scenario", "reason").rows():
        with pytest.raises(ha.HotlineError, match=f"{name} does not apply"):
            ha.whatif(trace, name)
        assert reason[0].isupper()
        assert reason.endswith(".")
    assert all(known.source.endswith((".", ")")) for known in KNOWN.values())
