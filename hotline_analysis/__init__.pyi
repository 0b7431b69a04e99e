# Written by `make docs` from its list and the headers of queries/answers: change that, and run it again.

from . import answers as answers
from . import charts as charts
from . import memory as memory
from . import predict as predict
from .answers.balance import (
    gpu_balance as gpu_balance,
)
from .answers.bottleneck import (
    gpu_or_cpu_bound as gpu_or_cpu_bound,
    optimizer_bottleneck as optimizer_bottleneck,
)
from .answers.comparison import (
    diff as diff,
)
from .answers.dependencies import (
    DependencyGraph as DependencyGraph,
)
from .answers.detail import (
    detail_size as detail_size,
)
from .answers.efficiency import (
    gpu_efficiency as gpu_efficiency,
    tensor_core_use as tensor_core_use,
)
from .answers.finding import (
    Finding as Finding,
)
from .answers.generated import (
    annotation_kernels as annotation_kernels,
    caveats as caveats,
    collectives as collectives,
    comm_comp_overlap as comm_comp_overlap,
    compiled_regions as compiled_regions,
    coverage as coverage,
    cpu_parts as cpu_parts,
    cupti_counters as cupti_counters,
    cupti_flops as cupti_flops,
    dependency_edges as dependency_edges,
    device_use as device_use,
    devices as devices,
    doubtful_modules as doubtful_modules,
    encodings as encodings,
    event_place as event_place,
    gpu_parts as gpu_parts,
    idle_breakdown as idle_breakdown,
    idle_events as idle_events,
    idle_gaps as idle_gaps,
    idle_samples as idle_samples,
    kernel_breakdown as kernel_breakdown,
    kernel_duration_distribution as kernel_duration_distribution,
    kernel_launches as kernel_launches,
    kernel_metrics as kernel_metrics,
    kernel_sequence as kernel_sequence,
    launch_stats as launch_stats,
    level_of_detail as level_of_detail,
    longest_events as longest_events,
    memory_bandwidth as memory_bandwidth,
    memory_bandwidth_summary as memory_bandwidth_summary,
    memory_breakdown as memory_breakdown,
    memory_peak as memory_peak,
    memory_timeline as memory_timeline,
    modules as modules,
    network_by_module as network_by_module,
    op_delays as op_delays,
    os_calls as os_calls,
    peak_loss as peak_loss,
    phases as phases,
    pipeline_bubbles as pipeline_bubbles,
    place_spans as place_spans,
    process_groups as process_groups,
    queue_length as queue_length,
    queue_length_summary as queue_length_summary,
    ranks as ranks,
    recompute as recompute,
    recompute_groups as recompute_groups,
    roofline as roofline,
    slowest_kernels as slowest_kernels,
    slowest_modules as slowest_modules,
    slowest_ops as slowest_ops,
    slowest_sources as slowest_sources,
    step_kinds as step_kinds,
    step_lengths as step_lengths,
    step_time_breakdown as step_time_breakdown,
    steps as steps,
    straggler_causes as straggler_causes,
    stragglers as stragglers,
    temporal_breakdown as temporal_breakdown,
    tensor_cores as tensor_cores,
    throughput as throughput,
    uneven_kernels as uneven_kernels,
    unknown_spans as unknown_spans,
    unknown_tracks as unknown_tracks,
    user_annotations as user_annotations,
    utilisation as utilisation,
)
from .answers.limits import (
    step_limits as step_limits,
)
from .answers.path import (
    critical_path as critical_path,
    critical_path_breakdown as critical_path_breakdown,
    dependency_graph as dependency_graph,
)
from .answers.patterns import (
    frequent_kernel_patterns as frequent_kernel_patterns,
)
from .answers.places import (
    slowest_places as slowest_places,
)
from .answers.rules import (
    Advice as Advice,
    advice as advice,
)
from .answers.storage import (
    encodings_total as encodings_total,
)
from .capture import (
    analyze as analyze,
    annotate as annotate,
    model_ops as model_ops,
    ModelOps as ModelOps,
    nvtx as nvtx,
)
from .demo import (
    demo_trace as demo_trace,
)
from .errors import (
    EmptyTraceError as EmptyTraceError,
    ExportExistsError as ExportExistsError,
    HotlineError as HotlineError,
    HotlineWarning as HotlineWarning,
    MachineError as MachineError,
    ModelMismatchError as ModelMismatchError,
    QueryNotFoundError as QueryNotFoundError,
    QueryParameterError as QueryParameterError,
    RunFormatError as RunFormatError,
    TraceFormatError as TraceFormatError,
)
from .export import (
    append_run as append_run,
    dashboard as dashboard,
    export_perfetto as export_perfetto,
    export_tables as export_tables,
)
from .gating import (
    Check as Check,
    gate as gate,
    measure as measure,
    Measured as Measured,
    read_baseline as read_baseline,
    Verdict as Verdict,
    write_baseline as write_baseline,
)
from .importer import (
    import_traces as import_traces,
    load as load,
    store_run as store_run,
)
from .prediction.asked import (
    whatif as whatif,
)
from .prediction.engine.edits import (
    Fuse as Fuse,
    Gap as Gap,
    Insert as Insert,
    Move as Move,
    Remove as Remove,
    Scale as Scale,
    Take as Take,
    Unwait as Unwait,
)
from .prediction.engine.predict import (
    Prediction as Prediction,
    Scenario as Scenario,
)
from .prediction.studies.all_gpus import (
    on_gpu as on_gpu,
)
from .prediction.studies.backward import (
    backward_chain as backward_chain,
)
from .prediction.studies.batch import (
    batch_scaling as batch_scaling,
    BatchScaling as BatchScaling,
)
from .prediction.studies.checkpoint import (
    recomputation as recomputation,
)
from .prediction.studies.scaling import (
    bucket_sizes as bucket_sizes,
    data_parallel_scaling as data_parallel_scaling,
)
from .prediction.studies.sharing import (
    share_gpu as share_gpu,
)
from .reports import (
    diff_report as diff_report,
    Report as Report,
    report as report,
)
from .run.trace import (
    Trace as Trace,
)

__version__: str

__all__ = [
    "HotlineError",
    "Trace",
    "__version__",
    "advice",
    "analyze",
    "annotate",
    "answers",
    "charts",
    "demo_trace",
    "device_use",
    "diff",
    "gate",
    "gpu_or_cpu_bound",
    "import_traces",
    "load",
    "memory",
    "optimizer_bottleneck",
    "phases",
    "predict",
    "report",
    "slowest_kernels",
    "slowest_modules",
    "slowest_ops",
    "slowest_places",
    "steps",
    "whatif",
]
