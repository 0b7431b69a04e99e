"""Annotate PyTorch profiler traces and find what makes training slow.

    import hotline_analysis as ha

    trace = ha.load("traces/")
    print(ha.report(trace))

The public names below are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotline_analysis import charts
    from hotline_analysis.answers import (
        Advice,
        DependencyGraph,
        Finding,
        advice,
        annotation_kernels,
        collectives,
        comm_comp_overlap,
        compiled_regions,
        coverage,
        cpu_parts,
        critical_path,
        critical_path_breakdown,
        cupti_counters,
        cupti_flops,
        dependency_graph,
        detail_size,
        device_use,
        diff,
        doubtful_modules,
        frequent_kernel_patterns,
        gpu_or_cpu_bound,
        gpu_parts,
        idle_breakdown,
        idle_events,
        idle_gaps,
        kernel_breakdown,
        kernel_duration_distribution,
        kernel_launches,
        launch_stats,
        level_of_detail,
        memory_bandwidth,
        memory_bandwidth_summary,
        memory_peak,
        memory_timeline,
        modules,
        op_delays,
        optimizer_bottleneck,
        phases,
        queue_length,
        queue_length_summary,
        slowest_ops,
        slowest_sources,
        step_lengths,
        step_limits,
        step_time_breakdown,
        steps,
        straggler_causes,
        stragglers,
        temporal_breakdown,
        user_annotations,
    )
    from hotline_analysis.capture import ModelOps, analyze, annotate, model_ops
    from hotline_analysis.demo import demo_trace
    from hotline_analysis.errors import (
        EmptyTraceError,
        ExportExistsError,
        HotlineError,
        HotlineWarning,
        ModelMismatchError,
        QueryNotFoundError,
        QueryParameterError,
        RunFormatError,
        TraceFormatError,
    )
    from hotline_analysis.export import export_perfetto
    from hotline_analysis.importer import import_traces, load
    from hotline_analysis.reports import Report, diff_report, report
    from hotline_analysis.run.trace import Trace

    __version__: str

__all__ = [
    "Advice",
    "DependencyGraph",
    "EmptyTraceError",
    "ExportExistsError",
    "Finding",
    "HotlineError",
    "HotlineWarning",
    "ModelMismatchError",
    "ModelOps",
    "QueryNotFoundError",
    "QueryParameterError",
    "Report",
    "RunFormatError",
    "Trace",
    "TraceFormatError",
    "__version__",
    "advice",
    "analyze",
    "annotate",
    "annotation_kernels",
    "charts",
    "collectives",
    "comm_comp_overlap",
    "compiled_regions",
    "coverage",
    "cpu_parts",
    "critical_path",
    "critical_path_breakdown",
    "cupti_counters",
    "cupti_flops",
    "demo_trace",
    "dependency_graph",
    "detail_size",
    "device_use",
    "diff",
    "diff_report",
    "doubtful_modules",
    "export_perfetto",
    "frequent_kernel_patterns",
    "gpu_or_cpu_bound",
    "gpu_parts",
    "idle_breakdown",
    "idle_events",
    "idle_gaps",
    "import_traces",
    "kernel_breakdown",
    "kernel_duration_distribution",
    "kernel_launches",
    "launch_stats",
    "level_of_detail",
    "load",
    "memory_bandwidth",
    "memory_bandwidth_summary",
    "memory_peak",
    "memory_timeline",
    "model_ops",
    "modules",
    "op_delays",
    "optimizer_bottleneck",
    "phases",
    "queue_length",
    "queue_length_summary",
    "report",
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

# Where the public names are; those that stand nowhere here are answers.
_NAMES = {
    "capture": ("ModelOps", "analyze", "annotate", "model_ops"),
    "demo": ("demo_trace",),
    "errors": (
        "EmptyTraceError",
        "ExportExistsError",
        "HotlineError",
        "HotlineWarning",
        "ModelMismatchError",
        "QueryNotFoundError",
        "QueryParameterError",
        "RunFormatError",
        "TraceFormatError",
    ),
    "export": ("export_perfetto",),
    "importer": ("import_traces", "load"),
    "reports": ("Report", "diff_report", "report"),
    "run.trace": ("Trace",),
}
_HOME = {name: f"{__name__}.answers" for name in __all__ if name not in ("__version__", "charts")}
_HOME |= {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("hotline-analysis")
    elif name == "charts":
        value = import_module(f"{__name__}.charts")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        if isinstance(value, FunctionType):
            value = import_module(f"{__name__}.run.trace").takes_traces(value)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
