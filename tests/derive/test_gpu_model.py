"""The models of GPUs, by the name that a trace or the user gives, and what they can do at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from hotline_analysis import Trace
from hotline_analysis.errors import HotlineError
from tests.derive.tables import derived
from tests.trace_builder import TraceBuilder

GIB = 2**30
H100 = "NVIDIA H100 80GB HBM3"


def with_gpu(rank: int = 0, **device: Any) -> TraceBuilder:
    """A kernel on a device that the file lists as this."""
    return TraceBuilder(rank=rank, deviceProperties=[{"id": 0, **device}]).op("aten::mm", 0, 10).launches("k", 5, 10)


def models(trace: Trace, columns: str = "model, evidence, sm_count, scale") -> list[tuple[Any, ...]]:
    return trace.sql(f"select {columns} from gpu_model order by rank, device_id").rows()


def peaks(trace: Trace) -> dict[tuple[str, str], float]:
    """Peaks of device 0 in TFLOP/s."""
    rows = trace.sql("select unit, precision, flop_per_s / 1e12 from device_peak where device_id = 0").rows()
    return {(unit, precision): tflop for unit, precision, tflop in rows}


@pytest.mark.parametrize(
    ("device", "expected", "bandwidth", "some_peaks"),
    [
        (
            {"name": H100, "numSms": 132},
            ("H100 SXM5 80GB", "trace", 132, 1),
            3352,
            {("vector", "fp32"): 66.9, ("matrix", "tf32"): 494.7, ("matrix", "bf16"): 989.4, ("matrix", "fp8"): 1978.9},
        ),
        ({"name": "NVIDIA GeForce RTX 3090"}, ("GeForce RTX 3090", "trace", 82, 1), 936, {("matrix", "fp16"): 71}),
        ({"name": "NVIDIA GeForce RTX 3090 Ti"}, (None, None, None, None), None, {}),
        ({"name": ""}, (None, None, None, None), None, {}),
        (
            {"name": "Tesla V100-SXM2-32GB", "numSms": 80},
            ("Tesla V100 SXM2 32GB", "trace", 80, 1),
            900,
            {("vector", "fp32"): 15.7, ("matrix", "fp16"): 125},
        ),
        # the board of a DGX Station
        (
            {"name": "Tesla V100-DGXS-32GB", "numSms": 80},
            ("Tesla V100 SXM2 32GB", "trace", 80, 1),
            900,
            {("vector", "fp32"): 15.7, ("matrix", "fp16"): 500 / 4},
        ),
        # three of seven slices of an A100, with four of the eighths of its memory: 42 of 108 multiprocessors
        (
            {"name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "numSms": 42, "totalGlobalMem": int(19.5 * GIB)},
            ("A100 SXM4 40GB", "trace", 42, 42 / 108),
            1555 / 2,
            {("matrix", "bf16"): 312 * 42 / 108},
        ),
        # all memory, but fewer multiprocessors: a share of a GPU by MPS
        (
            {"name": H100, "numSms": 66, "totalGlobalMem": int(79.1 * GIB)},
            ("H100 SXM5 80GB", "trace", 66, 0.5),
            3352,
            {("matrix", "bf16"): 494.7},
        ),
        # one of eight partitions of an MI300X, which share its memory as the mode of the memory says
        (
            {"name": "AMD Instinct MI300X", "numSms": 38, "totalGlobalMem": 24 * GIB},
            ("Instinct MI300X", "trace", 38, 1 / 8),
            None,
            {("matrix", "bf16"): 1307.4 / 8},
        ),
        # a part of which the file does not say how much memory it has
        ({"name": H100, "numSms": 66}, ("H100 SXM5 80GB", "trace", 66, 0.5), None, {("matrix", "bf16"): 494.7}),
    ],
)
def test_models_and_peaks(
    tmp_path: Path,
    device: dict[str, Any],
    expected: tuple[object, ...],
    bandwidth: float | None,
    some_peaks: dict[tuple[str, str], float],
) -> None:
    """The figures are those of the vendors' data sheets: dense, half precision with sums in FP32."""
    trace = with_gpu(**device).load(tmp_path)
    assert models(trace) == [pytest.approx(expected)]
    found = peaks(trace)
    assert {key: found[key] for key in some_peaks} == pytest.approx(some_peaks)
    assert bool(found) == bool(some_peaks)
    (gb_per_s,) = models(trace, "memory_bytes_per_s / 1e9")[0]
    assert gb_per_s == (None if bandwidth is None else pytest.approx(bandwidth))


def test_what_a_unit_cannot_do_has_no_row(tmp_path: Path) -> None:
    """A V100 has matrix units for FP16 alone: no TF32, no BF16 (NVIDIA WP-08608)."""
    found = peaks(with_gpu(name="Tesla V100-SXM2-16GB").load(tmp_path))
    assert {precision for unit, precision in found if unit == "matrix"} == {"fp16"}


def test_devices_that_the_file_does_not_list(tmp_path: Path) -> None:
    """Work on devices 0 and 3, and on one that it does not name; the file lists none."""
    trace = TraceBuilder(rank=0).kernel("a", 0, 1).kernel("b", 1, 2, device=3).kernel("c", 2, 3)
    del trace.events[-1]["args"]["device"]
    path = trace.write(tmp_path / "trace.json")
    columns = "device_id, name, model, evidence"
    with ha.load(path) as opened:
        assert models(opened, columns) == [(number, None, None, None) for number in (-1, 0, 3)]
        assert opened.table("device_peak").is_empty()
    with ha.load(path, gpu="a100 sxm4 80gb") as opened:
        assert models(opened, columns) == [(number, None, "A100 SXM4 80GB", "user") for number in (-1, 0, 3)]
        # what NVIDIA says of compute capability 8.0
        limits = "threads_per_sm, blocks_per_sm, registers_per_sm, shared_bytes_per_sm"
        assert set(models(opened, limits)) == {(2048, 32, 64 * 1024, 164 * 1024)}
        assert opened.table("gpu_given")["name_pattern"].to_list() == [None]


@pytest.mark.parametrize("name", ["H100 SXM5 80GB", "h100 sxm5 80gb", "NVIDIA H100 80GB HBM3", "nvidia h100 80gb hbm3"])
def test_a_gpu_is_named_by_its_model_or_as_a_trace_does(tmp_path: Path, name: str) -> None:
    with ha.load(with_gpu(name="").write(tmp_path / "trace.json"), gpu=name) as trace:
        assert models(trace, "model, evidence, pattern") == [("H100 SXM5 80GB", "user", None)]


def test_the_user_knows_better_than_the_file(tmp_path: Path) -> None:
    with ha.load(with_gpu(name=H100, numSms=57).write(tmp_path / "trace.json"), gpu="H100 PCIe 80GB") as trace:
        assert models(trace, "name, model, evidence, scale") == [(H100, "H100 PCIe 80GB", "user", 0.5)]


@pytest.mark.usefixtures("in_processes")
def test_the_users_gpus_come_first(tmp_path: Path) -> None:
    for rank, name in enumerate(("My GPU 2", H100)):
        with_gpu(rank, name=name).write(tmp_path / f"rank{rank}.json")
    given = tmp_path / "gpus.csv"
    given.write_text(
        "\ufeffname_pattern,model,bf16_matrix_tflop_per_s,memory_gb_per_s,sm_count\r\n"
        "My GPU \\d,Mine,100,1000,10\r\nH100,Also mine,200,,\r\n",
        encoding="utf-8",
    )
    with ha.load([tmp_path / "rank0.json", tmp_path / "rank1.json"], gpus=given) as trace:
        assert models(trace, "model, evidence, sm_count, source, memory_bytes_per_s") == [
            ("Mine", "trace", 10, "given at import", 1e12),
            ("Also mine", "trace", None, "given at import", None),
        ]
        assert trace.sql("select rank, unit, precision, flop_per_s from device_peak order by rank").rows() == [
            (0, "matrix", "bf16", 1e14),
            (1, "matrix", "bf16", 2e14),
        ]
    rows = [{"name_pattern": "x", "model": "Mine", "bf16_matrix_tflop_per_s": 100}]
    with ha.load(tmp_path / "rank1.json", gpus=rows, gpu="mine") as trace:
        assert models(trace, "model, evidence, source") == [("Mine", "user", "given at import")]
        assert trace.table("gpu_given")["name_pattern"].to_list() == [None, "x"]


def test_every_gpu_of_the_table_can_be_named() -> None:
    """Also those without a pattern, and by no other's pattern."""
    from hotline_analysis.catalog import rules
    from hotline_analysis.importer.gpus import read_gpus

    for row in rules()["gpus"].to_pylist():
        assert read_gpus(None, row["model"])["model"].to_pylist() == [row["model"]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gpu": "H100"}, "no GPU 'H100' .* Did you mean H100 SXM5 80GB, H100 PCIe 80GB, H100 NVL 94GB or GH200"),
        ({"gpu": "RTX 3091"}, "no GPU 'RTX 3091' .* Did you mean .*GeForce RTX 3090"),
        ({"gpu": ""}, "no GPU '' "),
        ({"gpus": "missing.csv"}, "cannot read missing.csv"),
        ({"gpus": [{"name_pattern": "(", "model": "x"}]}, r"GPU 1: '\(' is not a regular expression"),
        ({"gpus": [{"name_pattern": "x"}]}, "GPU 1 has no model"),
        ({"gpus": [{"name_pattern": "", "model": "x"}]}, "GPU 1 has no name_pattern"),
        ({"gpus": [{"name_pattern": "x", "model": "x", "sm_counts": 1}]}, "column sm_counts, .* Is it sm_count?"),
        ({"gpus": [{"name_pattern": "x", "model": "x", "power_w": "much"}]}, "GPU 1: power_w must be .* not 'much'"),
        ({"gpus": [{"name_pattern": "x", "model": "x", "power_w": -1}]}, "power_w must be a number over 0, not -1"),
        ({"gpus": [{"name_pattern": "x", "model": "x", "power_w": float("nan")}]}, "power_w must be .* not nan"),
        ({"gpus": [{"name_pattern": "x", "model": "x", "sm_count": 1.5}]}, "sm_count must be a whole number, not 1.5"),
    ],
)
def test_mistakes_of_the_user(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    path = with_gpu(name="x").write(tmp_path / "trace.json")
    with pytest.raises(HotlineError, match=message):
        ha.load(path, **given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column name_pattern or model"),
        ("pattern,model\na,b\n", "no column name_pattern, so"),
        ("name_pattern,model\na\n", "line 2 has no model"),
        ("name_pattern,model\na,b,3\n", "line 2 has a column without a name"),
        ("name_pattern,model,sm_count\na,b,1\nc,d,many\n", "line 3: sm_count must be a number over 0, not 'many'"),
        ('name_pattern,model\n"a,b\n', "is not a CSV file"),
    ],
)
def test_files_that_are_no_table_of_gpus(tmp_path: Path, text: str, message: str) -> None:
    path = with_gpu(name="x").write(tmp_path / "trace.json")
    (tmp_path / "gpus.csv").write_text(text)
    with pytest.raises(HotlineError, match=message):
        ha.load(path, gpus=tmp_path / "gpus.csv")


def test_a_run_keeps_its_gpus(tmp_path: Path) -> None:
    run = ha.import_traces(with_gpu(name="x").write(tmp_path / "trace.json"), tmp_path / "run", gpu="MI300X")
    with ha.load(run) as trace:
        assert models(trace, "model") == [("Instinct MI300X",)]
    with pytest.raises(HotlineError, match="already imported"):
        ha.load(run, gpu="MI300X")


@pytest.mark.parametrize(
    "odd",
    [
        {"numSms": -3, "totalGlobalMem": 0},
        {"numSms": "many", "maxThreadsPerMultiprocessor": "x", "computeMajor": None},
        {"computeMajor": 2**62, "computeMinor": 2**62, "warpSize": 32},
        {"regsPerMultiprocessor": -1, "sharedMemPerMultiprocessor": [], "warpSize": {}},
        {"totalGlobalMem": 2**63 - 1},
        {"regsPerMultiprocessor": 2**63 - 1, "sharedMemPerMultiprocessor": 2**63 - 1},
        {"maxThreadsPerMultiprocessor": 2**63 - 1},
    ],
)
def test_odd_properties_are_no_error(tmp_path: Path, odd: dict[str, Any]) -> None:
    trace = with_gpu(name=H100, **odd).kernel("k", 20, 30, grid=[1, 1, 1], block=[32, 1, 1]).load(tmp_path)
    assert models(trace, "model, sm_count") == [("H100 SXM5 80GB", 132)]
    assert trace.table("kernel_shape").height == 1


def test_a_device_that_is_listed_twice_has_one_row(tmp_path: Path) -> None:
    trace = with_gpu(name=H100)
    trace.top["deviceProperties"] = [{"id": 0, "name": H100}, {"id": 0, "name": "x"}, {"name": "y"}, "z"]
    assert models(trace.load(tmp_path), "device_id, name") == [(-1, "y"), (0, H100)]


def test_the_report_says_what_to_add(tmp_path: Path) -> None:
    """Only where a GPU works whose model is not known."""

    def said(trace: Trace) -> list[str]:
        return [text for text in ha.report(trace).caveats if "--gpu" in text]

    (tmp_path / "a").mkdir()
    (named,) = said(with_gpu(name="Tesla X").step(0, 0, 10).load(tmp_path / "a"))
    assert "The peaks of Tesla X are not known" in named
    (nameless,) = said(TraceBuilder().step(0, 0, 10).op("aten::mm", 0, 10).launches("k", 5, 10).load(tmp_path))
    assert "does not name its GPU" in nameless
    assert said(with_gpu(name=H100).step(0, 0, 10).load(tmp_path)) == []
    no_work = TraceBuilder(deviceProperties=[{"id": 0, "name": "Tesla X"}]).step(0, 0, 10).op("aten::mm", 0, 10)
    assert said(no_work.load(tmp_path)) == []


def test_a_device_without_a_name_has_none(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0, deviceProperties=[{"id": 0, "name": None}, {"id": 1}]).kernel("gemm", 0, 1)
    assert trace.load(tmp_path).table("device")["name"].to_list() == [None, None]


def test_gpu_match_is_what_the_file_and_the_tables_say(tmp_path: Path) -> None:
    """A listed GPU, one that only its work tells of, and one whose slice is known by the name of the whole."""
    slice_of = {"id": 1, "name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "numSms": 42}
    trace = TraceBuilder(rank=0, deviceProperties=[{"id": 0, "name": H100, "numSms": 132}, slice_of])
    trace.kernel("k", 0, 10, device=3)
    columns = "device_id, model, evidence, sm_count, model_sm_count, memory_gib"
    assert derived(trace, tmp_path, f"select {columns} from gpu_match order by device_id") == [
        (0, "H100 SXM5 80GB", "trace", 132, 132, 80),
        (1, "A100 SXM4 40GB", "trace", 42, 108, 40),
        (3, None, None, None, None, None),
    ]
    bf16 = (
        "select device_id, peak.tflop_per_s from (select device_id, unnest(peaks) as peak from gpu_match)"
        " where peak.unit = 'matrix' and peak.precision = 'bf16' order by device_id"
    )
    assert derived(trace, tmp_path, bf16) == [(0, 989.4), (1, 312)]
