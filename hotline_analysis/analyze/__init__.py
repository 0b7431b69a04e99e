"""Answers: one small function per question, on an open `Trace`."""

from hotline_analysis.analyze.bottleneck import gpu_or_cpu_bound, optimizer_bottleneck
from hotline_analysis.analyze.breakdown import coverage, has_gpu_work, modules, phases, slowest_ops, steps
from hotline_analysis.analyze.detail import detail_size, level_of_detail
from hotline_analysis.analyze.finding import Finding

__all__ = [
    "Finding",
    "coverage",
    "detail_size",
    "gpu_or_cpu_bound",
    "has_gpu_work",
    "level_of_detail",
    "modules",
    "optimizer_bottleneck",
    "phases",
    "slowest_ops",
    "steps",
]
