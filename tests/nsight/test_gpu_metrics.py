"""GPU metrics of an export: measured use of the device, next to the computed utilisation."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import hotline_analysis as ha
from tests.nsight_export import SCHEMAS, both_know, write_export
from tests.trace_builder import PID, TraceBuilder

METRICS = (
    "SMs Active [Throughput %]",
    "Tensor Active [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
    "NVLink RX Requests User Data [Throughput %]",
    "NVLink RX Responses User Data [Throughput %]",
    "NVLink TX Requests User Data [Throughput %]",
    "GPC Clock Frequency [MHz]",
)
BUSY = (80, 30, 20, 10, 5, 6, 7, 1980)
IDLE = (0, 0, 2, 0, 1, 0, 3, 210)
TYPE = 0x1_0000_0000_0000  # its lowest byte is the GPU


def export(
    folder: Path, devices: Sequence[tuple[int, int, int]] = (), gpus: Sequence[int] = (0,), schema: str = "2026.2"
) -> Path:
    """Two steps of 1,000 us with a kernel of 600 us, and samples every 100 us. `devices`: gpuId, cudaId, pid."""
    trace = TraceBuilder()
    for step in range(2):
        at = 1000 * step
        trace.step(step, at, at + 1000).op("aten::mm", at + 10, at + 30).launches("gemm", at + 200, at + 800)
    samples = [
        (1000 * at, TYPE + gpu, number, value)
        for gpu in gpus
        for at in range(50, 2000, 100)
        for number, value in enumerate(BUSY if 200 <= at % 1000 < 800 else IDLE)
    ]
    more: dict[str, Sequence[Sequence[object]]] = {
        "TARGET_INFO_GPU_METRICS": [
            (TYPE + gpu, 1, f"GPU metrics {gpu}", number, name) for gpu in gpus for number, name in enumerate(METRICS)
        ],
        "GPU_METRICS": [(0, *sample) if schema == "2026.2" else sample for sample in samples],
        "TARGET_INFO_CUDA_DEVICE": [(gpu, cuda, pid, None, None) for gpu, cuda, pid in devices],
    }
    return write_export(folder / "report.sqlite", both_know(trace.events, {}, schema), {}, schema, more, pid=PID)


def plain(path: Path, pattern: str, where: str = "1") -> float:
    """The mean over time of the sum of the metrics with a name."""
    with closing(sqlite3.connect(path)) as connection:
        ((value,),) = connection.execute(
            "select avg(value) from (select sum(value) as value from GPU_METRICS inner join TARGET_INFO_GPU_METRICS"
            f" using (typeId, metricId) where metricName like ? and {where} group by timestamp, typeId)",
            [pattern],
        )
    return float(value)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_measured_use_is_next_to_the_computed(schema: str, tmp_path: Path) -> None:
    """Observed from the first step to the end of the last."""
    path = export(tmp_path, schema=schema)
    row = ha.utilisation(ha.load(path)).row(0, named=True)
    assert row["gpu_busy_pct"] == pytest.approx(60)
    assert row["measured_sm_pct"] == pytest.approx(plain(path, "SMs Active%")) == pytest.approx(48)
    assert row["measured_tensor_pct"] == pytest.approx(plain(path, "Tensor%"))
    assert row["measured_memory_pct"] == pytest.approx(plain(path, "DRAM%"))
    assert row["measured_link_pct"] == pytest.approx(plain(path, "NVLink RX%"))
    assert row["measured_count"] == 20


def test_a_step_and_a_phase_have_the_samples_of_their_time(tmp_path: Path) -> None:
    path = export(tmp_path)
    rows = ha.utilisation(ha.load(path), by="step").filter(step=1).to_dicts()
    assert [row["measured_count"] for row in rows] == [10]
    assert rows[0]["measured_sm_pct"] == pytest.approx(plain(path, "SMs Active%", "timestamp >= 1000000"))


def test_a_process_has_the_metrics_of_its_own_gpu(tmp_path: Path) -> None:
    """GPU 3 of the machine is device 0 of the process."""
    trace = ha.load(export(tmp_path, devices=[(3, 0, PID), (2, 0, PID + 1)], gpus=(2, 3)))
    assert trace.sql("select distinct device from gpu_metric").rows() == [(0,)]
    assert trace.sql("select count(*) from counter").item() == 20 * len(METRICS)


def test_values_that_are_no_share_do_not_count(tmp_path: Path) -> None:
    path = export(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update GPU_METRICS set value = -5 where metricId = 0 and timestamp < 1000000")
        connection.execute("update GPU_METRICS set value = 1e300 where metricId = 1")
        connection.commit()
    row = ha.utilisation(ha.load(path)).row(0, named=True)
    assert (row["measured_sm_pct"], row["measured_tensor_pct"]) == (pytest.approx(48), None)


def test_without_metrics_nothing_is_measured(tmp_path: Path) -> None:
    row = ha.utilisation(ha.load(export(tmp_path, gpus=()))).row(0, named=True)
    assert (row["measured_sm_pct"], row["measured_count"]) == (None, 0)
