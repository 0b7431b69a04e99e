# Written by `make docs` from the functions in hotline_analysis/charts: change that, and run it again.

from .breakdown import (
    modules as modules,
    phases as phases,
    slowest_kernels as slowest_kernels,
    slowest_modules as slowest_modules,
    slowest_ops as slowest_ops,
    steps as steps,
)
from .comparison import (
    diff as diff,
)
from .device_time import (
    comm_comp_overlap as comm_comp_overlap,
    device_use as device_use,
    idle_breakdown as idle_breakdown,
    temporal_breakdown as temporal_breakdown,
)
from .efficiency import (
    kernel_metrics as kernel_metrics,
    peak_loss as peak_loss,
    roofline as roofline,
)
from .kernels import (
    kernel_breakdown as kernel_breakdown,
    kernel_duration_distribution as kernel_duration_distribution,
    launch_stats as launch_stats,
)
from .limits import (
    step_limits as step_limits,
)
from .memory import (
    memory_bandwidth as memory_bandwidth,
    memory_breakdown as memory_breakdown,
    memory_over_step as memory_over_step,
    memory_peak as memory_peak,
    memory_timeline as memory_timeline,
    recomputation as recomputation,
)
from .multi_scale import (
    Timeline as Timeline,
    timeline as timeline,
)
from .path import (
    critical_path as critical_path,
)
from .prediction import (
    batch as batch,
    copies as copies,
    other_gpus as other_gpus,
    scaling as scaling,
    whatif as whatif,
)
from .queue import (
    queue_length as queue_length,
)
from .ranks import (
    stragglers as stragglers,
)
from .registry import (
    CHARTS as CHARTS,
    draw as draw,
)
from .saving import (
    save as save,
)
from .trust import (
    coverage as coverage,
)
from .whole_run import (
    overview as overview,
)

__all__ = [
    "CHARTS",
    "Timeline",
    "batch",
    "comm_comp_overlap",
    "copies",
    "coverage",
    "critical_path",
    "device_use",
    "diff",
    "draw",
    "idle_breakdown",
    "kernel_breakdown",
    "kernel_duration_distribution",
    "kernel_metrics",
    "launch_stats",
    "memory_bandwidth",
    "memory_breakdown",
    "memory_over_step",
    "memory_peak",
    "memory_timeline",
    "modules",
    "other_gpus",
    "overview",
    "peak_loss",
    "phases",
    "queue_length",
    "recomputation",
    "roofline",
    "save",
    "scaling",
    "slowest_kernels",
    "slowest_modules",
    "slowest_ops",
    "step_limits",
    "steps",
    "stragglers",
    "temporal_breakdown",
    "timeline",
    "whatif",
]
