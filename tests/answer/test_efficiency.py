"""How much of a GPU is used: FLOP and bytes against peaks, by hand on a built trace, and as sums on random ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.answer.shaped import shaped
from tests.trace_builder import TraceBuilder

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "totalGlobalMem": 85_000_000_000}
# The vendor's peaks, as `rules/gpus.csv` has them.
BF16, FP32, TF32, BANDWIDTH = 989.4e12, 66.9e12, 494.7e12, 3352e9
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


BF16_PRODUCT = shaped("c10::BFloat16", [1024, 2048], [2048, 4096])
PRODUCT_FLOP = 2 * 1024 * 2048 * 4096
PRODUCT_BYTES = 2 * (1024 * 2048 + 2048 * 4096 + 1024 * 4096)
FP32_PRODUCT = shaped("float", [512, 512], [512, 512])
SUM = shaped("float", [1000, 1000], [1000, 1000], [])


def used() -> TraceBuilder:
    """A step of 1000 µs: products in BF16 and FP32, an addition, a copy, communication, an op of unknown work."""
    trace = TraceBuilder(deviceProperties=[H100]).step(0, 0, 1000)
    trace.module("Net", 0, 5, 900)
    trace.op("aten::mm", 10, 20, **BF16_PRODUCT).launches("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 100, 200)
    trace.op("aten::mm", 30, 40, **FP32_PRODUCT).launches("ampere_sgemm_128x64_nn", 200, 300)
    trace.launches("void splitKreduce_kernel<float>(float*)", 300, 310)
    trace.op("aten::add", 50, 60, **SUM).launches("void vectorized_elementwise_kernel<4, Add>()", 310, 330)
    trace.op("aten::copy_", 62, 68).launches("Memcpy HtoD (Pageable -> Device)", 330, 350, category="gpu_memcpy")
    trace.op("custom::op", 70, 80).launches("custom_kernel()", 400, 450)
    # 100 us, the first 50 of which run beside the kernel before
    trace.op("c10d::allreduce_", 82, 88).launches(NCCL, 400, 500, stream=9)
    return trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return used().load(tmp_path_factory.mktemp("used"))


def parts(frame: pl.DataFrame) -> dict[str, int]:
    return dict(frame.select("part", "ns").rows())


def test_where_the_peak_goes(trace: Trace) -> None:
    useful_bf16 = int(1e9 * PRODUCT_FLOP / BF16)
    useful_fp32 = int(1e9 * 2 * 512**3 / FP32)
    ideal_sum = int(1e9 * 3 * 4e6 / BANDWIDTH)
    assert parts(ha.peak_loss(trace)) == {
        "useful": useful_bf16 + useful_fp32,
        # two kernels of 100 us, and the one of 10 us that adds up what the second one has computed in parts
        "matrix_inefficiency": 210_000 - useful_bf16 - useful_fp32,
        "other_compute_ideal": ideal_sum,
        "other_compute_inefficiency": 20_000 - ideal_sum,
        "copies": 20_000,
        "exposed_communication": 50_000,
        "unmodelled": 50_000,
        "idle": 1_000_000 - 210_000 - 20_000 - 20_000 - 50_000 - 50_000,
    }
    assert ha.peak_loss(trace)["pct"].sum() == pytest.approx(100)
    assert parts(ha.peak_loss(trace, by="step", step=0)) == parts(ha.peak_loss(trace))


def test_utilisation(trace: Trace) -> None:
    row = ha.utilisation(trace).row(0, named=True)
    ideal_ns = 1e9 * (PRODUCT_FLOP / BF16 + 2 * 512**3 / FP32)
    assert row["model"] == "H100 SXM5 80GB"
    assert row["wall_ns"] == 1_000_000
    assert row["gpu_busy_pct"] == pytest.approx(35)
    assert row["matrix_time_pct"] == pytest.approx(100 * 100 / 350)
    assert row["model_flop"] == row["hardware_flop"] == PRODUCT_FLOP + 2 * 512**3
    assert row["mfu_pct"] == row["hfu_pct"] == pytest.approx(ideal_ns / 1e4)
    assert row["tflop_per_s"] == pytest.approx(row["hardware_flop"] / 1e-3 / 1e12)
    assert row["bf16_utilisation_pct"] == pytest.approx(100 * 1e9 * PRODUCT_FLOP / BF16 / 350_000)
    assert row["fp32_utilisation_pct"] == pytest.approx(100 * 1e9 * 2 * 512**3 / FP32 / 350_000)
    assert row["fp16_utilisation_pct"] is None
    assert row["min_gb_per_s"] == pytest.approx((PRODUCT_BYTES + 3 * 512 * 512 * 4 + 12e6) / 350_000)
    # 230 of 280 us in computation
    assert row["modelled_pct"] == pytest.approx(100 * 230 / 280)


def test_how_busy_the_main_thread_is(tmp_path: Path) -> None:
    """In ops for 30 and 15 of 100 µs; a wait for the GPU, the time between, and another thread's ops are not in it."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.op("aten::mm", 10, 40).launches("k", 20, 55, at=12, until=14)
    trace.runtime("cudaDeviceSynchronize", 40, 60).op("aten::add", 70, 85).launches("k", 90, 95, at=72, until=74)
    trace.on(7).op("aten::mul", 0, 100)
    with trace.load(tmp_path) as run:
        for by in ("run", "step"):
            assert ha.utilisation(run, by=by)["cpu_busy_pct"].drop_nulls().to_list() == [pytest.approx(45)]


def test_roofline(trace: Trace) -> None:
    by_op = {row["name"]: row for row in ha.roofline(trace).iter_rows(named=True)}
    assert set(by_op) == {"aten::mm", "aten::add", "aten::copy_", "custom::op"}
    product = by_op["aten::mm"]
    least = 1e9 * (PRODUCT_FLOP / BF16 + 2 * 512**3 / FP32)
    assert (product["work_count"], product["gpu_time_ns"], product["bound"]) == (2, 210_000, "matrix")
    assert product["roofline_ns"] == round(least)
    assert product["lost_ns"] == 210_000 - round(least)
    assert product["efficiency_pct"] == pytest.approx(100 * round(least) / 210_000)
    assert product["tflop_per_s"] == pytest.approx((PRODUCT_FLOP + 2 * 512**3) / 210_000 / 1e3)
    added = by_op["aten::add"]
    assert (added["family"], added["bound"], added["bytes"]) == ("pointwise", "memory", 12_000_000)
    assert (added["vector_flop"], added["flop_per_byte"]) == (1_000_000, pytest.approx(1 / 12))
    assert added["gb_per_s"] == pytest.approx(12e6 / 20_000)
    unknown = by_op["custom::op"]
    assert (unknown["matrix_flop"], unknown["roofline_ns"], unknown["lost_ns"]) == (None, None, None)
    assert (unknown["gpu_time_ns"], unknown["work_count"]) == (50_000, 0)


def test_kernel_roofline_is_the_longest_of_three_times(trace: Trace) -> None:
    columns = "short_name, op, unit, precision, matrix_ns, vector_ns, memory_ns, roofline_ns, bound, has_products"
    rows = {row["short_name"]: row for row in trace.sql(f"select {columns} from kernel_roofline").to_dicts()}
    big, small = (next(rows[name] for name in rows if kind in name) for kind in ("nvjet", "sgemm"))
    added = next(row for row in rows.values() if row["op"] == "aten::add")
    assert (big["op"], big["unit"], big["precision"], big["bound"]) == ("aten::mm", "matrix", "bf16", "matrix")
    assert big["matrix_ns"] == big["roofline_ns"] == pytest.approx(1e9 * PRODUCT_FLOP / BF16)
    assert big["memory_ns"] == pytest.approx(1e9 * PRODUCT_BYTES / BANDWIDTH)
    assert (small["unit"], small["precision"], small["bound"]) == ("vector", "fp32", "matrix")
    assert small["matrix_ns"] == pytest.approx(1e9 * 2 * 512**3 / FP32)
    assert (added["op"], added["has_products"], added["unit"], added["bound"]) == ("aten::add", False, None, "memory")
    assert added["memory_ns"] == added["roofline_ns"] == pytest.approx(1e9 * 12e6 / BANDWIDTH)
    assert added["vector_ns"] == pytest.approx(1e9 * 1e6 / FP32)


def test_roofline_by_shape_and_module(trace: Trace) -> None:
    shapes = ha.roofline(trace, by="shape", family="gemm")
    assert dict(shapes.select("shape", "gpu_time_ns").rows()) == {
        "[512,512],[512,512]": 110_000,
        "[1024,2048],[2048,4096]": 100_000,
    }
    assert ha.roofline(trace, by="module")["name"].to_list() == ["Net_0"]
    for by in ("op", "shape", "module", "module_type", "kernel", "phase", "step"):
        frame = ha.roofline(trace, by=by, limit=None)
        assert frame["gpu_time_ns"].sum() == 300_000, by
        assert frame["gpu_time_pct"].sum() == pytest.approx(100)


def test_faster_than_memory_says_why(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[H100])
    trace.op("aten::add", 0, 10, **SUM).launches("add()", 20, 22)  # 12 MB in 2 us
    product = shaped("c10::BFloat16", [4096, 4096], [4096, 4096])  # takes 139 us at peak
    trace.op("aten::mm", 30, 40, **product).launches("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", 50, 60)
    rows = {row["name"]: row for row in ha.roofline(trace.load(tmp_path)).iter_rows(named=True)}
    assert rows["aten::add"]["efficiency_pct"] > 100
    assert rows["aten::add"]["over_reason"] == "cache"
    assert rows["aten::mm"]["efficiency_pct"] > 1000
    assert rows["aten::mm"]["over_reason"] == "unknown"
    assert (rows["aten::mm"]["lost_ns"]) < 0


@pytest.mark.parametrize(
    ("gpu", "cache", "bandwidth"),
    [(H100, 50 * 2**20, BANDWIDTH), ({"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}, 2**28, 5.3e12)],
)
def test_a_cache_explains_no_more_than_it_holds(
    gpu: dict[str, Any], cache: int, bandwidth: float, tmp_path: Path
) -> None:
    """Of 300 million floats, read and written, all but what the cache holds before and after have to move."""
    moved = 3 * 4 * 10**8
    assert moved > 2 * cache
    slow = 1e6 * (moved - 2 * cache) / bandwidth
    assert slow < 1e6 * moved / bandwidth
    reasons = []
    for took in (slow * 1.01, slow * 0.99):
        trace = TraceBuilder(deviceProperties=[gpu])
        trace.op("aten::add", 0, 10, **shaped("float", [10**8], [10**8], [])).launches("add()", 20, 20 + round(took))
        row = ha.roofline(trace.load(tmp_path, f"{took}.json")).row(0, named=True)
        assert row["efficiency_pct"] > 100
        reasons.append(row["over_reason"])
    assert reasons == ["cache", "unknown"]


def test_without_the_size_of_its_cache_nothing_is_explained(tmp_path: Path) -> None:
    gpu = {"name_pattern": "Mine", "model": "Mine", "memory_gb_per_s": 1000, "fp32_vector_tflop_per_s": 10}
    path = TraceBuilder(deviceProperties=[{"id": 0, "name": "Mine"}]).op("aten::add", 0, 10, **SUM)
    file = path.launches("add()", 20, 22).write(tmp_path / "trace.json")
    with ha.load(file, gpus=[gpu]) as trace:
        assert ha.roofline(trace)["over_reason"].to_list() == ["unknown"]
    with ha.load(file, gpus=[gpu | {"l2_mib": 6}]) as trace:
        assert ha.roofline(trace)["over_reason"].to_list() == ["cache"]


def test_products_of_unknown_work_are_no_mfu_of_0(tmp_path: Path) -> None:
    """Of a convolution whose stride was not recorded, nothing is known; the addition takes 20 of 100 us."""
    made = TraceBuilder(rank=0, deviceProperties=[H100]).step(0, 0, 200)
    made.op("aten::convolution", 0, 10, **shaped("float", [2, 3, 8, 8], [4, 3, 3, 3]))
    made.launches("sm80_xmma_fprop_implicit_gemm_tf32f32", 20, 100)
    made.op("aten::add", 10, 20, **SUM).launches("add()", 100, 120)
    finding = ha.gpu_efficiency(made.load(tmp_path))
    assert finding.answer == "unknown"
    assert "known for 20.0 % of the computation, and that has no matrix products" in finding.statement
    assert "MFU" not in finding.statement


def test_tensor_cores(trace: Trace) -> None:
    row = ha.tensor_cores(trace).row(0, named=True)
    best = 1e9 * max(2 * 512**3 / TF32, 3 * 512 * 512 * 4 / BANDWIDTH)
    assert (row["name"], row["gpu_time_ns"], row["matrix_ns"], row["vector_ns"]) == (
        "aten::mm",
        200_000,
        100_000,
        100_000,
    )
    assert (row["eligible_ns"], row["reason"]) == (100_000, "fp32_without_tf32")
    assert row["saving_ns"] == round(100_000 - best)
    found = ha.tensor_core_use(trace)
    assert found.answer == "eligible"
    assert found.numbers["eligible_pct"] == pytest.approx(100 * 100 / 350)
    assert "TF32" in found.advice


@pytest.mark.parametrize(
    ("dtype", "dims", "name", "kernel", "reason"),
    [
        ("float", ([64, 64], [64, 64]), "aten::mm", "ampere_sgemm_32x32_nn", "fp32_without_tf32"),
        ("double", ([64, 64], [64, 64]), "aten::mm", "void gemmSN_NN_kernel<double>()", "fp64"),
        ("c10::BFloat16", ([64, 64], [64, 1]), "aten::mm", "void gemvx::kernel<bf16>()", "vector"),
        ("c10::Half", ([64, 63], [63, 64]), "aten::mm", "cutlass_80_simt_hgemm_fp16", "unaligned"),
        ("c10::Half", ([64, 64], [64, 64]), "aten::mm", "cutlass_80_simt_hgemm_fp16", "kernel_choice"),
    ],
)
def test_why_products_run_on_vector_units(
    tmp_path: Path, dtype: str, dims: tuple[list[int], ...], name: str, kernel: str, reason: str
) -> None:
    trace = TraceBuilder(deviceProperties=[H100]).op(name, 0, 10, **shaped(dtype, *dims)).launches(kernel, 20, 30)
    row = ha.tensor_cores(trace.load(tmp_path)).row(0, named=True)
    assert row["vector_ns"] == 10_000
    assert row["reason"] == reason
    assert (row["eligible_ns"] > 0) == (reason != "fp64")


def test_recomputed_work_is_not_useful(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[H100]).step(0, 0, 1000)
    trace.frame("nn.Module: Net_0", 5, 100, **{"Python module id": 0})
    trace.op("aten::mm", 10, 20, seq=1, **BF16_PRODUCT).launches("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 100, 200)
    trace.on(2)
    trace.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 300, 500, seq=2, forward_thread=1)
    trace.op("CheckpointFunctionBackward", 300, 500, seq=2, forward_thread=1)
    trace.module("Net", 0, 310, 400)
    trace.op("aten::mm", 320, 330, seq=3, **BF16_PRODUCT).launches("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 400, 500)
    loaded = trace.load(tmp_path)
    passes = loaded.sql("select pass from gpu_event order by start_ns")
    if passes["pass"].to_list() != ["forward", "recompute"]:
        pytest.skip(f"the annotation says {passes['pass'].to_list()}")
    ideal = int(1e9 * PRODUCT_FLOP / BF16)
    found = parts(ha.peak_loss(loaded))
    assert (found["useful"], found["recompute"]) == (ideal, ideal)
    row = ha.utilisation(loaded).row(0, named=True)
    assert row["hardware_flop"] == 2 * row["model_flop"] == 2 * PRODUCT_FLOP
    assert row["hfu_pct"] == pytest.approx(2 * row["mfu_pct"])


def test_causal_attention_counts_in_full_for_mfu(tmp_path: Path) -> None:
    args: dict[str, Any] = {
        "Input Dims": [[2, 8, 128, 64]] * 3 + [[]] * 4,
        "Input type": ["c10::BFloat16"] * 3 + ["Scalar"] * 4,
        "Concrete Inputs": ["", "", "", "0.", "True", "False", "0.125"],
    }
    trace = TraceBuilder(deviceProperties=[H100])
    trace.op("aten::_scaled_dot_product_flash_attention", 0, 10, **args).launches("flash_fwd_kernel<64>()", 20, 60)
    row = ha.utilisation(trace.load(tmp_path)).row(0, named=True)
    assert row["hardware_flop"] == 2 * 2 * 8 * (128 * 129 // 2) * (64 + 64)
    assert row["model_flop"] == 2 * 2 * 8 * 128 * 128 * (64 + 64)


def test_throughput(tmp_path: Path) -> None:
    trace = TraceBuilder(distributedInfo={"rank": 1, "world_size": 4})
    for number in (0, 1, 2):
        begin = 1000 * number
        trace.step(number, begin, begin + 500 + 100 * number)
        trace.annotation("## forward ##", begin + 10, begin + 200)
        indices: dict[str, Any] = {
            "Input Dims": [[100, 64], [8, 32], [], [], []],
            "Input type": ["float", "long int", "", "", ""],
        }
        trace.op("aten::embedding", begin + 20, begin + 30, **indices)
        trace.op("aten::mm", begin + 40, begin + 50, **FP32_PRODUCT)
        trace.annotation("## backward ##", begin + 200, begin + 300)
    loaded = trace.load(tmp_path)
    # Step 0 is a warm-up. The loop is 1,700 us, from the start of step 1 to the end of step 2, with two steps.
    row = ha.throughput(loaded).row(0, named=True)
    assert (row["samples"], row["tokens"], row["step_ns"], row["world_size"]) == (8, 256, 850_000, 4)
    assert row["sample_source"] == "input of aten::embedding [8, 32]"
    assert row["samples_per_s"] == pytest.approx(8 / 850e-6)
    assert row["tokens_per_s"] == pytest.approx(256 / 850e-6)
    assert row["job_samples_per_s"] == pytest.approx(4 * 8 / 850e-6)
    by_step = ha.throughput(loaded, by="step", samples=10)
    assert by_step["samples_per_s"].to_list() == pytest.approx([10 / 500e-6, 10 / 600e-6, 10 / 700e-6])
    assert by_step["sample_source"].to_list() == ["given"] * 3


def test_the_largest_loss_is_named(trace: Trace) -> None:
    found = ha.gpu_efficiency(trace)
    assert found.answer == "idle"
    assert found.statement.startswith(
        "The GPU (H100 SXM5 80GB) is busy 35.0 % of the time; useful arithmetic at its peak would take at least 2.1 %"
    )
    assert "For 17.9 % of the computation FLOP and bytes are not known" in found.statement


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("cpu", "The trace has no GPU work"),
        ("shapes", "record them with record_shapes=True"),
        ("ops", "record them with ProfilerActivity.CPU"),
        ("rules", "belongs to an op whose FLOP are known"),
        ("device", "The file does not name its GPU"),
        ("unknown", "What the GPU ARTEMIS can do is not known"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, change: str, said: str) -> None:
    name = {"device": None, "unknown": "ARTEMIS"}.get(change, H100["name"])
    trace = TraceBuilder(deviceProperties=[{**H100, "name": name}] if name else []).step(0, 0, 100)
    args: dict[str, Any] = {} if change == "shapes" else BF16_PRODUCT
    if change == "ops":
        trace.runtime("cudaLaunchKernel", 10, 12, correlation=1).kernel("a", 20, 30, correlation=1)
    else:
        trace.op("custom::op" if change == "rules" else "aten::mm", 10, 20, **args)
        if change != "cpu":
            trace.launches("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 30, 60)
    loaded = trace.load(tmp_path)
    assert said in ha.gpu_efficiency(loaded).statement
    assert ha.gpu_efficiency(loaded).answer == "unknown"
    for answer in ("peak_loss", "utilisation", "roofline", "tensor_cores", "throughput"):
        loaded.query(answer)
    assert not [section for section in ha.report(loaded).sections if section.name == "peak_loss"]


def test_report_and_charts(trace: Trace) -> None:
    sections = {section.name: section for section in ha.report(trace).sections}
    assert sections["peak_loss"].rows["pct"].sum() == pytest.approx(100)
    assert sections["roofline"].rows["name"][0] == "aten::mm"
    assert "The GPU (H100 SXM5 80GB) is busy 35.0 %" in sections["peak_loss"].note
    title = ha.charts.peak_loss(ha.peak_loss(trace)).to_dict()["title"]["text"]
    assert title == "2.1 % of the time is useful arithmetic at peak; the largest other part: idle, 65.0 %"
    drawn = ha.charts.roofline(ha.roofline(trace)).to_dict()
    assert drawn["title"]["text"].startswith("aten::mm loses most: 18")
    assert drawn["title"]["subtitle"] == [
        "not drawn: 23.3 % of the GPU time, of work without arithmetic or of unknown work"
    ]


WORK = st.lists(
    st.tuples(
        st.sampled_from(["mm", "add", "copy", "nccl", "unknown", "unlinked"]),
        st.integers(0, 2000),
        st.integers(0, 200),
        st.sampled_from([7, 8]),
        st.sampled_from([0, 1]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.long
@given(work=WORK)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_parts_add_up_to_the_observed_time(work: list[tuple[str, int, int, int, int]], tmp_path: Path) -> None:
    trace = (
        TraceBuilder(deviceProperties=[H100, {**H100, "id": 1, "name": "ARTEMIS"}]).step(0, 0, 1000).step(1, 1000, 1500)
    )
    for number, (kind, start, length, stream, device) in enumerate(work):
        at = 10 + 100 * number
        where: dict[str, Any] = {"stream": stream, "device": device}
        if kind == "unlinked":
            trace.kernel("x", start, start + length, **where)
            continue
        args: dict[str, Any] = {"mm": BF16_PRODUCT, "add": SUM}.get(kind, {})
        trace.op({"mm": "aten::mm", "add": "aten::add", "nccl": "c10d::allreduce_"}.get(kind, "x"), at, at + 50, **args)
        name = {"mm": "nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "nccl": NCCL}.get(kind, "some_kernel")
        category = "gpu_memcpy" if kind == "copy" else "kernel"
        trace.launches("Memcpy HtoD" if kind == "copy" else name, start, start + length, category=category, **where)
    loaded = trace.load(tmp_path)
    window = ha.temporal_breakdown(loaded)
    loss = ha.peak_loss(loaded)
    for rank, device, window_ns in window.select("rank", "device", "window_ns").iter_rows():
        of_device = loss.filter(pl.col("rank") == rank, pl.col("device") == device)
        assert of_device["ns"].sum() == window_ns
        assert (of_device["ns"] > 0).all()
    assert ha.peak_loss(loaded, by="step")["ns"].sum() == loss["ns"].sum()
    assert ha.peak_loss(loaded, by="phase")["ns"].sum() == loss["ns"].sum()
    exposed = pl.col("communication_ns") - pl.col("computation_communication_ns") - pl.col("all_three_ns")
    told = loss.filter(pl.col("part") == "exposed_communication")["ns"].sum()
    assert told == window.select(exposed.sum()).item()


def test_products_that_take_no_time(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[H100]).step(0, 0, 100)
    trace.op("aten::mm", 10, 20, **BF16_PRODUCT).launches("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", 30, 30)
    with trace.load(tmp_path) as run:
        found = ha.tensor_core_use(run)
    assert (found.answer, found.statement) == ("none", "The kernels of matrix products take no time.")
