"""Charts: frames → Altair charts, and the timeline that a page of its own can open level by level.

A function has the name of an answer and takes the frame that the answer returns. `timeline` and `overview` take
the trace itself, and `stragglers` the frame of `collectives`. `draw` draws any of them by name, `save` writes it.
"""

from hotline_analysis.charts.breakdown import (
    coverage,
    device_use,
    modules,
    phases,
    slowest_ops,
    step_limits,
    steps,
)
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
from hotline_analysis.charts.path import critical_path
from hotline_analysis.charts.ranks import stragglers
from hotline_analysis.charts.registry import CHARTS, draw
from hotline_analysis.charts.resources import memory_bandwidth, memory_peak, memory_timeline, queue_length
from hotline_analysis.charts.saving import save
from hotline_analysis.charts.timeline import Timeline, timeline

__all__ = [
    "CHARTS",
    "Timeline",
    "comm_comp_overlap",
    "coverage",
    "critical_path",
    "device_use",
    "diff",
    "draw",
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
    "save",
    "slowest_ops",
    "step_limits",
    "steps",
    "stragglers",
    "temporal_breakdown",
    "timeline",
]
