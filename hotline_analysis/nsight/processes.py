"""Find the processes of an export that worked on a GPU: each process is a rank."""

from __future__ import annotations

from pathlib import Path

from hotline_analysis.nsight.database import ExportFile

GPU_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)
THREAD_BITS = 24
"""Bits of a global id that number the thread; higher bits are the process (Nsight Systems, "Common SQLite examples":
`globalTid / 0x1000000 % 0x1000000` is the process id in the operating system)."""


def gpu_processes(path: Path) -> list[int]:
    """Return the processes with GPU work, as global ids without the thread, ordered by their first devices.

    Raises `TraceFormatError` if the file is not a readable SQLite database.
    """
    first: dict[int, int] = {}
    with ExportFile(path) as file:
        for table in GPU_TABLES:
            for key, device in file.first_devices(table, THREAD_BITS).items():
                first[key] = min(device, first.get(key, device))
    return sorted(first, key=lambda key: (first[key], key))


def pid_of(key: int) -> int:
    """Return the operating system's id of a process."""
    return key % (1 << THREAD_BITS)
