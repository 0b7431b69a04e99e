from pathlib import Path

import hotline_analysis as ha
from tests.trace_builder import TraceBuilder

COLUMNS = [
    "region",
    "module_path",
    "module_count",
    "call_count",
    "pass_count",
    "regions_in_pass",
    "cpu_ns",
    "gpu_ns",
    "longest_id",
]


def test_regions(tmp_path: Path) -> None:
    """One that runs in two passes, twice in the second; another after a graph break, with one more inside."""
    trace = TraceBuilder().step(0, 0, 100).module("Net", 0, 10, 60)
    trace.op("TorchDynamo Cache Lookup", 12, 14).op("Torch-Compiled Region: 0/0", 15, 25)
    trace.op("launching", 16, 20).launches("triton_poi_fused_add_0", 30, 37)
    trace.step(1, 100, 200).module("Net", 0, 110, 160).op("Torch-Compiled Region: 0/0", 112, 120)
    trace.op("Torch-Compiled Region: 0/0", 121, 141)
    longest = trace.last_id
    trace.op("Torch-Compiled Region: 1/0", 142, 150).op("Torch-Compiled Region: 2/0", 143, 149)
    trace.op("Torch-Compiled Region: 3/0", 170, 175)
    with trace.load(tmp_path) as opened:
        rows = ha.compiled_regions(opened).select(COLUMNS).rows()
        text = ha.report(opened).coverage
    assert [row[:-1] for row in rows] == [
        ("0/0", "Net_0", 1, 3, 2, 2, 38_000, 7_000),
        ("1/0", "Net_0", 1, 1, 1, 2, 8_000, 0),
        ("3/0", None, 0, 1, 0, 0, 5_000, 0),
    ]
    assert rows[0][-1] == longest
    assert "Compiled code runs 5 times (regions 0/0, 1/0, 3/0), 51.0 µs on the CPU and 7.00 µs of the GPU" in text
    assert "Up to 2 regions run in one forward pass" in text


def test_without_compiled_code(tmp_path: Path) -> None:
    with TraceBuilder().step(0, 0, 100).op("aten::mm", 10, 20).load(tmp_path) as opened:
        assert ha.compiled_regions(opened).is_empty()
        assert "ompiled" not in ha.report(opened).coverage
