"""Charts: frames → Altair charts, and the timeline that a page of its own can open level by level.

Each function but `timeline` has the name of an answer, and takes the frame that the answer returns.
"""

from hotline_analysis.charts.breakdown import coverage, gpu_or_cpu_bound, modules, phases, slowest_ops, steps
from hotline_analysis.charts.kernels import (
    comm_comp_overlap,
    diff,
    idle_breakdown,
    kernel_breakdown,
    kernel_duration_distribution,
    launch_stats,
    temporal_breakdown,
)
from hotline_analysis.charts.overview import overview
from hotline_analysis.charts.resources import memory_bandwidth, memory_peak, memory_timeline, queue_length
from hotline_analysis.charts.timeline import Timeline, timeline

__all__ = [
    "Timeline",
    "comm_comp_overlap",
    "coverage",
    "diff",
    "gpu_or_cpu_bound",
    "idle_breakdown",
    "kernel_breakdown",
    "kernel_duration_distribution",
    "launch_stats",
    "memory_bandwidth",
    "memory_peak",
    "memory_timeline",
    "modules",
    "overview",
    "phases",
    "queue_length",
    "slowest_ops",
    "steps",
    "temporal_breakdown",
    "timeline",
]
