"""Answers: one small function per question, on an open `Trace`."""

from hotline_analysis.analyze.bottleneck import gpu_or_cpu_bound, optimizer_bottleneck
from hotline_analysis.analyze.breakdown import coverage, modules, phases, slowest_ops, steps
from hotline_analysis.analyze.finding import Finding

__all__ = [
    "Finding",
    "coverage",
    "gpu_or_cpu_bound",
    "modules",
    "optimizer_bottleneck",
    "phases",
    "slowest_ops",
    "steps",
]
