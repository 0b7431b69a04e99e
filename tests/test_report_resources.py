"""The sections on memory and on a full queue: by hand, and silent where there is nothing to say."""

from __future__ import annotations

from pathlib import Path

import hotline_analysis as ha
from hotline_analysis import Report
from hotline_analysis.reports.content import Section
from tests.trace_builder import TraceBuilder


def section(report: Report, name: str) -> Section | None:
    return next((each for each in report.sections if each.name == name), None)


def test_memory_at_its_peak(tmp_path: Path) -> None:
    """2000 bytes are older than the trace, 1,000,000 are kept for backward in two blocks, and 5 are the CPU's."""
    trace = TraceBuilder().step(4, 0, 100).annotation("## forward ##", 0, 40).module("Net", 0, 1, 39)
    trace.op("aten::mm", 5, 30).memory(600_000, 10, total=602_000, device=0, address=1)
    trace.memory(400_000, 11, total=1_002_000, device=0, address=2).memory(5, 12, total=5)
    trace.annotation("## backward ##", 40, 90).op("MmBackward0", 45, 80)
    trace.memory(-600_000, 50, total=402_000, device=0, address=1)
    trace.memory(-400_000, 51, total=2_000, device=0, address=2)
    with trace.load(tmp_path) as loaded:
        report = ha.report(loaded)
    found = section(report, "memory_peak")
    assert found is not None
    assert found.rows.select("category", "phase", "bytes", "block_count", "module_path", "size").rows() == [
        ("activation", "forward", 1_000_000, 2, "Net_0", "977 KiB"),
        ("unknown", None, 2_000, None, None, "1.95 KiB"),
    ]
    assert found.note.startswith("979 KiB allocated on device 0 in step 4, of 979 KiB reserved.")
    assert "activation checkpointing" in found.note
    assert "Memory at its peak" in report.to_text()
    assert "Memory at its peak" in report.to_markdown()


def test_a_full_queue(tmp_path: Path) -> None:
    """1,001 calls of 1 us fill the queue; three more take 500 us each."""
    trace = TraceBuilder().op("aten::mm", 0, 3000)
    for number in range(1004):
        at = number if number <= 1000 else 1001 + 500 * (number - 1001)
        trace.launches("k", 4000 + number, 4001 + number, at=at, until=at + (1 if number <= 1000 else 500))
    with trace.load(tmp_path) as loaded:
        report = ha.report(loaded)
    found = section(report, "full_queue")
    assert found is not None
    # The call number 1,000 (from 0) begins with a full queue, too, and takes 1 us as usual.
    row = found.rows.row(0, named=True)
    assert (row["full_launch_count"], row["full_call_ns"], row["blocked_ns"]) == (4, 1_501_000, 1_497_000)
    assert "1.50 ms (29.9 % of the time)" in found.note


def test_they_are_silent_otherwise(tmp_path: Path) -> None:
    with TraceBuilder().op("aten::mm", 0, 10).launches("k", 20, 30).load(tmp_path) as trace:
        report = ha.report(trace)
    assert section(report, "memory_peak") is None
    assert section(report, "full_queue") is None
