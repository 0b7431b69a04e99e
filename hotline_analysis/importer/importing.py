"""Import trace files to a run directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotline_analysis.atomic import path_of
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer.files import find_traces
from hotline_analysis.importer.gpus import Gpus
from hotline_analysis.importer.job import Job, store_of
from hotline_analysis.importer.options import Given, KernelClasses, Progress
from hotline_analysis.importer.signatures import OpSignatures
from hotline_analysis.importer.sources import Source
from hotline_analysis.importer.work import OpWork

if TYPE_CHECKING:
    from hotline_analysis.importer.cluster import Cluster


def import_traces(
    source: Source | Sequence[Source],
    output: Source,
    *,
    model: Source | None = None,
    overwrite: bool = False,
    kernel_classes: KernelClasses | None = None,
    gpu: str | None = None,
    gpus: Gpus | None = None,
    op_signatures: OpSignatures | None = None,
    op_work: OpWork | None = None,
    keep_secrets: bool = False,
    allow_missing: bool = False,
    rank_from_order: bool = False,
    workers: int | None = None,
    cluster: Cluster | None = None,
    parts: str | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Import trace files and annotate them; write a run directory and return its path.

    `source` is the same as for `load`, except that runs in a store are not accepted. Runs as `source` are annotated
    again. Use this to convert runs from earlier versions, to merge several runs, or to replace a run's rules by the
    rules given here. If a run was imported with a `model` or `op_work`, give them again.

    `model` is a JSON file that describes the model in execution order, as `[{"name", "type", "ops": [...]}]` or in the
    format of `hotline_analysis.model_ops`. The model is aligned with the ops of traces without `nn.Module` frames, and
    replaces a model stored by a capture. Raises `ModelMismatchError` if the model matches no forward pass of a trace.

    The output appears when complete; after an error, nothing is written. In a folder or glob, non-trace files and
    copies of another file of the same rank are skipped with a warning. With `allow_missing`, any file that cannot be
    imported is skipped.

    Each file is the recording of a rank: the declared rank, the rank in the file name (`rank3`), or the next free
    number. A process without a rank, GPU work or training (a server front end, a data worker) is not a rank if other
    processes work. Each working process of a merged file is a rank. Consecutive recordings of one process
    (`schedule(repeat=2)`) form one rank, without the time between them. Recordings of different programs or runs with
    the same rank raise `HotlineError`; with `rank_from_order`, each file is a rank, in order.

    `kernel_classes` extends the rules that separate computation, communication and memory kernels (`name_info`). Keys
    are regular expressions (RE2) searched in a kernel's full name. The first match counts, before the built-in rules.

    `gpu` names the GPU of the traces, for files without or with a wrong GPU name: a model, or the name in a trace
    (`"H100 SXM5 80GB"`, `"NVIDIA H100 80GB HBM3"`). `gpus` adds GPUs with their peak figures (`gpu_model`,
    `device_peak`): a CSV file, or a dict for each GPU.

    `op_signatures` assigns work formulas and argument roles to your own ops (`op_work`), before the built-in
    signatures. `op_work` is a file with your own query over the table `op_shape`, for ops without a formula. Its
    columns are `shape_id`, and `matrix_flop`, `vector_flop` or `bytes`. The query takes precedence over all formulas.

    Texts that look like a key, password or token of a service are replaced by `***` before anything is written. With
    `keep_secrets`, they stay in the trace's metadata, in event arguments (`rank_info`, `device`, `event_args`), and in
    exports of these tables.

    `workers` is the number of import processes, each with up to 0.8 GB of memory; by default one per processor, up to
    16. `cluster` imports with the workers of a Dask cluster instead: a scheduler's address, a scheduler file,
    `"local:4"` for four processes on this machine, or a `distributed.Client`. The workers must see the traces and the
    output at the same paths. Imported files are kept next to the output until the run is complete; the same import
    continues from there after an error. `parts` is a store URL (`s3://bucket/parts`) for these files, for workers
    without a shared folder; the traces must then be in a store too.

    Raises `TraceFormatError` or `EmptyTraceError` if nothing can be read, `MachineError` if memory, disk or network
    fail or a process was killed, `ExportExistsError` if the output exists and `overwrite` is false, and `HotlineError`
    for an invalid class, pattern, GPU or query.
    """
    if workers is not None and workers < 1:
        raise HotlineError(f"workers must be 1 or more, not {workers}")
    if cluster is not None and workers is not None:
        raise HotlineError("a cluster defines the number of workers", hint="Leave out the number of workers.")
    files, is_search = find_traces(source)
    given = Given(model, kernel_classes, gpu, gpus, op_signatures, op_work, keep_secrets)
    job = Job(
        files=files,
        target=path_of(output),
        options=given.read(),
        overwrite=overwrite,
        is_search=is_search,
        allow_missing=allow_missing,
        rank_from_order=rank_from_order,
        workers=workers,
        cluster=cluster,
        store=None if parts is None else store_of(parts, files, cluster),
        on_progress=on_progress,
    )
    return job.run()
