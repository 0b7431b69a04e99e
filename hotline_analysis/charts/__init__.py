"""Charts: frames → Altair charts, and the timeline that a page of its own can open level by level.

Each function but `timeline` has the name of an answer, and takes the frame that the answer returns.
"""

from hotline_analysis.charts.breakdown import coverage, gpu_or_cpu_bound, modules, phases, slowest_ops, steps
from hotline_analysis.charts.resources import memory_bandwidth, memory_peak, memory_timeline, queue_length
from hotline_analysis.charts.timeline import Timeline, timeline

__all__ = [
    "Timeline",
    "coverage",
    "gpu_or_cpu_bound",
    "memory_bandwidth",
    "memory_peak",
    "memory_timeline",
    "modules",
    "phases",
    "queue_length",
    "slowest_ops",
    "steps",
    "timeline",
]
