"""Answers: one small function per question, on an open `Trace`."""

from hotline_analysis.answers.annotations import annotation_kernels, compiled_regions, op_delays, user_annotations
from hotline_analysis.answers.bottleneck import gpu_or_cpu_bound, optimizer_bottleneck
from hotline_analysis.answers.breakdown import (
    coverage,
    doubtful_modules,
    has_gpu_work,
    modules,
    phases,
    slowest_ops,
    slowest_sources,
    steps,
)
from hotline_analysis.answers.comparison import compare, diff
from hotline_analysis.answers.cupti import cupti_counters, cupti_flops
from hotline_analysis.answers.dependencies import DependencyGraph
from hotline_analysis.answers.detail import detail_size, level_of_detail
from hotline_analysis.answers.device_time import (
    comm_comp_overlap,
    device_use,
    idle_breakdown,
    idle_events,
    idle_gaps,
    step_time_breakdown,
    temporal_breakdown,
)
from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.kernels import (
    kernel_breakdown,
    kernel_duration_distribution,
    kernel_launches,
    launch_stats,
)
from hotline_analysis.answers.lateness import collectives, straggler_causes, stragglers
from hotline_analysis.answers.limits import step_lengths, step_limits
from hotline_analysis.answers.memory import memory_bandwidth, memory_bandwidth_summary, memory_peak, memory_timeline
from hotline_analysis.answers.parts import cpu_parts, gpu_parts
from hotline_analysis.answers.path import critical_path, critical_path_breakdown, dependency_graph
from hotline_analysis.answers.patterns import frequent_kernel_patterns
from hotline_analysis.answers.queue import queue_length, queue_length_summary
from hotline_analysis.answers.rules import Advice, advice

__all__ = [
    "Advice",
    "DependencyGraph",
    "Finding",
    "advice",
    "annotation_kernels",
    "collectives",
    "comm_comp_overlap",
    "compare",
    "compiled_regions",
    "coverage",
    "cpu_parts",
    "critical_path",
    "critical_path_breakdown",
    "cupti_counters",
    "cupti_flops",
    "dependency_graph",
    "detail_size",
    "device_use",
    "diff",
    "doubtful_modules",
    "frequent_kernel_patterns",
    "gpu_or_cpu_bound",
    "gpu_parts",
    "has_gpu_work",
    "idle_breakdown",
    "idle_events",
    "idle_gaps",
    "kernel_breakdown",
    "kernel_duration_distribution",
    "kernel_launches",
    "launch_stats",
    "level_of_detail",
    "memory_bandwidth",
    "memory_bandwidth_summary",
    "memory_peak",
    "memory_timeline",
    "modules",
    "op_delays",
    "optimizer_bottleneck",
    "phases",
    "queue_length",
    "queue_length_summary",
    "slowest_ops",
    "slowest_sources",
    "step_lengths",
    "step_limits",
    "step_time_breakdown",
    "steps",
    "straggler_causes",
    "stragglers",
    "temporal_breakdown",
    "user_annotations",
]
