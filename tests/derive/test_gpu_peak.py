"""Peaks of GPUs by the name that a trace gives."""

from pathlib import Path

import pytest

from tests.trace_builder import TraceBuilder


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({"name": "NVIDIA H100 80GB HBM3", "numSms": 132}, ("H100 SXM5 80GB", 132, 66.9, 494.7, 989.4, 3352)),
        ({"name": "NVIDIA GeForce RTX 3090"}, ("GeForce RTX 3090", 82, 35.6, 35.6, 71, 936)),
        ({"name": "NVIDIA GeForce RTX 3090 Ti"}, (None, None, None, None, None, None)),
        # half of a GPU, as MIG and the modes of the MI300X make it
        ({"name": "NVIDIA H100 80GB HBM3", "numSms": 66}, ("H100 SXM5 80GB", 66, 33.45, 247.35, 494.7, 1676)),
        ({"name": "Tesla V100-SXM2-32GB", "numSms": 80}, ("Tesla V100 SXM2 32GB", 80, 15.7, None, 125, 900)),
    ],
)
def test_peaks(tmp_path: Path, device: dict[str, str | int], expected: tuple[str | float | None, ...]) -> None:
    """The figures are those of the vendors' data sheets: dense, half precision with sums in FP32."""
    trace = TraceBuilder(deviceProperties=[{"id": 0, **device}]).op("aten::mm", 0, 10).launches("k", 5, 10)
    columns = (
        "model, sm_count, fp32_vector_tflop_per_s, tf32_matrix_tflop_per_s, half_matrix_tflop_per_s, memory_gb_per_s"
    )
    assert trace.load(tmp_path).sql(f"select {columns} from gpu_peak").row(0) == pytest.approx(expected)
