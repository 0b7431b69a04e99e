"""Open a run, or import trace files to a temporary run.

Most runs that are opened are stored on this machine. Everything that reads a trace, or a store, is imported on use.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hotline_analysis.atomic import begin, begin_folder, end, finish, remove
from hotline_analysis.errors import HotlineError, HotlineWarning
from hotline_analysis.importer.remote import is_remote, shown
from hotline_analysis.importer.runs import find_runs
from hotline_analysis.run.stored import (
    RUN_SUFFIX,
    annotated_by,
    is_of_earlier_format,
    missing_ranks,
    read_manifest,
    run_of_rank,
)
from hotline_analysis.run.trace import Trace
from hotline_analysis.schema import OLDEST_FORMAT

if TYPE_CHECKING:
    from hotline_analysis.importer.gpus import Gpus
    from hotline_analysis.importer.options import KernelClasses, Progress
    from hotline_analysis.importer.signatures import OpSignatures
    from hotline_analysis.importer.sources import Source
    from hotline_analysis.importer.work import OpWork

__all__ = ["load", "missing_ranks", "read_manifest"]


def load(
    source: Source | Sequence[Source],
    *,
    model: Source | None = None,
    kernel_classes: KernelClasses | None = None,
    gpu: str | None = None,
    gpus: Gpus | None = None,
    op_signatures: OpSignatures | None = None,
    op_work: OpWork | None = None,
    keep_secrets: bool = False,
    rank_from_order: bool = False,
    on_progress: Progress | None = None,
) -> Trace:
    """Open a run directory, or import trace files to a temporary run and open it.

    `source` is a run directory, a trace file (`.json`, `.json.gz`, `.json.zst`), an export or report of Nsight Systems
    (`.sqlite`, `.nsys-rep`), a folder of trace files, a glob, or a list of files. Files may be in a store (`s3://`,
    `gs://`, `az://`) or on a web server (`https://`). Several runs, as a list or glob, are opened as one run if their
    ranks differ, as for runs written by the processes of one training.

    A run in a store is copied to this machine while open. A run from an earlier version of this package is annotated
    again on each opening; `import_traces` converts it permanently.

    A temporary run is deleted when the trace is closed or garbage-collected; use `import_traces` to keep a run. See
    `import_traces` for the other arguments; a run keeps the arguments of its import. Raises `TraceFormatError`,
    `EmptyTraceError`, `RunFormatError` or `ModelMismatchError`. Warns (`HotlineWarning`) about lost data, and about
    missing ranks of the job if the run has several ranks.
    """
    runs = find_runs(source)
    url = source if isinstance(source, str) and is_remote(source) and _is_run(source) else None
    if not runs and url is None:
        from hotline_analysis.importer.importing import import_traces

        folder, undo = begin_folder()
        return _opened_in(
            folder,
            undo,
            lambda: import_traces(
                source,
                folder / "run.hotline",
                model=model,
                kernel_classes=kernel_classes,
                gpu=gpu,
                gpus=gpus,
                op_signatures=op_signatures,
                op_work=op_work,
                keep_secrets=keep_secrets,
                rank_from_order=rank_from_order,
                on_progress=on_progress,
            ),
        )
    label = str(runs[0]) if url is None else shown(url)
    if keep_secrets:
        raise HotlineError(
            f"{label} is already imported, without secrets",
            hint="Import the trace files again with the secrets.",
        )
    if any(rule is not None for rule in (model, kernel_classes, gpu, gpus, op_signatures, op_work)):
        raise HotlineError(
            f"{label} is already imported, with modules, classes and GPUs",
            hint=f"Import the run again with the model, the classes or the GPUs: `hotline import {label} -o NEW ...`.",
        )
    if url is not None:
        from hotline_analysis.importer.remote_runs import copied_run

        runs = [copied_run(url, on_progress)]
    is_earlier = any(map(is_of_earlier_format, runs))
    if url is None and not is_earlier:
        trace = Trace(*runs)
    else:
        folder, undo = begin_folder() if url is None else (runs[0].parent, begin(lambda: remove(runs[0].parent)))
        trace = _opened_in(
            folder, undo, lambda: _annotated_again(runs, label, folder, on_progress) if is_earlier else runs[0]
        )
    if trace.manifest["annotated_by"] != annotated_by():
        source_of_new = "COPY" if is_remote(label) else label
        warnings.warn(
            f"{label} was annotated by other rules than those of this version;"
            f" `hotline import {source_of_new} -o NEW{RUN_SUFFIX}` annotates the run again",
            HotlineWarning,
            stacklevel=2,
        )
    if not is_earlier and (sentence := missing_ranks(trace.manifest["parts"])):
        warnings.warn(sentence, HotlineWarning, stacklevel=2)
    return trace


def _is_run(url: str) -> bool:
    from hotline_analysis.importer.remote_runs import is_remote_run

    return is_remote_run(url)


def _opened_in(folder: Path, undo: Callable[[], object], make: Callable[[], Path]) -> Trace:
    """Open the run made in a temporary folder. The folder is deleted with the trace."""
    try:
        trace = Trace(make(), temporary=folder)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return trace


def _annotated_again(runs: Sequence[Path], called: str, folder: Path, on_progress: Progress | None) -> Path:
    """Import runs of earlier formats to a folder."""
    from hotline_analysis.importer.importing import import_traces

    run_of_rank(runs, [read_manifest(run, oldest=OLDEST_FORMAT) for run in runs])
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    clause, source = ("with a local copy, ", "COPY") if is_remote(called) else ("", called)
    warnings.warn(
        f"{called}{more} was imported by an earlier version of this package, so the events are annotated again"
        f" at each opening; {clause}`hotline import {source} -o NEW{RUN_SUFFIX}` stores the result",
        HotlineWarning,
        stacklevel=5,
    )
    return import_traces(runs, folder / "again" / runs[0].name, on_progress=on_progress)
