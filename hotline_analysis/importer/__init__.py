"""Trace files → a run directory: each file is read and annotated once, and the run appears when all is done."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotline_analysis.annotation.model_file import read_model
from hotline_analysis.atomic import MANIFEST, begin, begin_folder, end, finish, path_of, remove, replace_folder
from hotline_analysis.errors import HotlineError, HotlineWarning
from hotline_analysis.importer.files import Source, TraceFile, find_runs, find_traces, state_of
from hotline_analysis.importer.gpus import Gpus, read_gpus
from hotline_analysis.importer.joined import MOST_OWN_FILES, join_ranks
from hotline_analysis.importer.options import KernelClasses, Options, Progress, read_kernel_classes
from hotline_analysis.importer.parts import is_part, key_of, parts_beside
from hotline_analysis.importer.processes import chosen
from hotline_analysis.importer.remote import Remote, is_remote, shown
from hotline_analysis.importer.remote_runs import copied_run, is_remote_run, store_run, written_here
from hotline_analysis.importer.signatures import OpSignatures, read_op_signatures
from hotline_analysis.importer.stored_rank import warnings_of
from hotline_analysis.importer.tasks import Executor, Task, import_all
from hotline_analysis.importer.work import OpWork, read_op_work
from hotline_analysis.run.stored import (
    RUN_SUFFIX,
    is_of_earlier_format,
    missing_ranks,
    own_file,
    read_manifest,
    run_of_rank,
)
from hotline_analysis.run.trace import Trace
from hotline_analysis.schema import FORMAT_VERSION, OLDEST_FORMAT, TABLES
from hotline_analysis.text.formats import lost_events, some_of

if TYPE_CHECKING:
    from hotline_analysis.importer.cluster import Cluster
    from hotline_analysis.importer.remote_parts import PartsInStore

__all__ = [
    "Gpus",
    "KernelClasses",
    "OpSignatures",
    "Progress",
    "Source",
    "find_traces",
    "import_traces",
    "is_remote",
    "load",
    "missing_ranks",
    "read_manifest",
    "shown",
    "state_of",
    "store_run",
    "written_here",
]


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
    on_progress: Progress | None = None,
) -> Trace:
    """Open a run directory, or import trace files to a temporary one and open that.

    `source` is a run directory, a trace file (`.json`, `.json.gz`, `.json.zst`), a folder of them, a glob, or a list of
    files, which may be in a store (`s3://`, `gs://`, `az://`) or on a web server (`https://`). Several runs, as a list
    or glob, are opened as one if each holds other ranks, as those do that the processes of one training have written.
    A run in a store is copied to this machine for as long as it is open, and one of an earlier version of this package
    is annotated again, as `import_traces` does for good.
    The temporary run is deleted when the trace is closed or forgotten; `import_traces` makes one that stays, and says
    what the other arguments are; a run has those it was imported with. Raises `TraceFormatError`, `EmptyTraceError`,
    `RunFormatError` or `ModelMismatchError`, and warns (`HotlineWarning`) about what was lost, and about ranks of the
    job that a run of several ranks lacks.
    """
    runs = find_runs(source)
    url = source if isinstance(source, str) and is_remote_run(source) else None
    if not runs and url is None:
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
                on_progress=on_progress,
            ),
        )
    called = str(runs[0]) if url is None else shown(url)
    if keep_secrets:
        raise HotlineError(
            f"{called} is imported already, and has no secrets any more",
            hint="Import the trace files again with the secrets.",
        )
    if not (kernel_classes is model is gpu is gpus is op_signatures is op_work is None):
        raise HotlineError(
            f"{called} is imported already, and has its modules, classes and GPUs",
            hint=f"Import it once more with the model, the classes or the GPUs: `hotline import {called} -o NEW ...`.",
        )
    if url is not None:
        runs = [copied_run(url, on_progress)]
    is_earlier = any(map(is_of_earlier_format, runs))
    if url is None and not is_earlier:
        trace = Trace(*runs)
    else:
        folder, undo = begin_folder() if url is None else (runs[0].parent, begin(lambda: remove(runs[0].parent)))
        trace = _opened_in(
            folder, undo, lambda: _annotated_again(runs, called, folder, on_progress) if is_earlier else runs[0]
        )
    if not is_earlier and (sentence := missing_ranks(trace.manifest["parts"])):
        warnings.warn(sentence, HotlineWarning, stacklevel=2)
    return trace


def _opened_in(folder: Path, undo: Callable[[], object], make: Callable[[], Path]) -> Trace:
    """Open the run that is made in a temporary folder, which goes with the trace."""
    try:
        trace = Trace(make(), temporary=folder)
    except BaseException:
        finish(undo)
        raise
    end(undo)
    return trace


def _annotated_again(runs: Sequence[Path], called: str, folder: Path, on_progress: Progress | None) -> Path:
    """Import runs of earlier formats to a folder."""
    run_of_rank(runs, [read_manifest(run, oldest=OLDEST_FORMAT) for run in runs])
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    what, from_where = ("of a copy of it, ", "COPY") if is_remote(called) else ("", called)
    warnings.warn(
        f"{called}{more} was imported by an earlier version of this package, so its events are annotated again"
        f" whenever it is opened; {what}`hotline import {from_where} -o NEW{RUN_SUFFIX}` keeps the result",
        HotlineWarning,
        stacklevel=4,
    )
    return import_traces(runs, folder / "again" / runs[0].name, on_progress=on_progress)


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
    workers: int | None = None,
    cluster: Cluster | None = None,
    parts: str | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Import trace files and annotate them; write a run directory and return its path.

    `source` is named as for `load`, but for runs in a store. The ranks of runs are annotated again: so runs of earlier
    versions of this package are brought to this one, several are made one, and rules are given that count instead of
    those that a run has. If it was imported with a `model` or `op_work`, these must be given again.

    `model` is a JSON file that describes the model in execution order, as `[{"name", "type", "ops": [...]}]` or as
    `hotline_analysis.model_ops` gives it. It is placed on the ops of traces that have no `nn.Module` frames, instead of
    what a capture may have stored in them. Raises `ModelMismatchError` if it fits none of a trace's forward passes.

    The run appears when it is complete, and not at all if something goes wrong. Of a folder or glob, files that are no
    traces are skipped with a warning, and so is a copy of another file of the same rank. With `allow_missing`, any file
    that cannot be imported is, whatever the reason.

    `kernel_classes` add to the rules that tell computation, communication and memory kernels apart (`name_info`):
    regular expressions (RE2) to find in a kernel's full name, the first that matches counts, before the built-in rules.

    `gpu` names the GPU that the traces were recorded on, for files that name none or another: the name of its model, or
    the name that a trace would have (`"H100 SXM5 80GB"`, `"NVIDIA H100 80GB HBM3"`). `gpus` adds GPUs to those whose
    peaks are known (`gpu_model`, `device_peak`): a CSV file, or a dict for each.

    `op_signatures` say of ops of your own which formula counts their work (`op_work`), and which argument is what; they
    count before those that are known. `op_work` is a file with a query of your own over the table `op_shape`, for ops
    that no formula fits: `shape_id`, and `matrix_flop`, `vector_flop` or `bytes`. It counts before all formulas.

    What looks like a key, password or token of a service is replaced by `***` before anything is written; with
    `keep_secrets`, it stays in the metadata of the trace and in the arguments of events (`rank_info`, `device`,
    `event_args`), and in what is exported of them.

    `workers` is how many processes import files at a time, each with up to 0.8 GB of memory: by default one for each
    processor, up to 16. With `cluster`, the workers of a Dask cluster do: it is the address of its scheduler, the file
    that describes one, `"local:4"` for four processes of this machine, or a `distributed.Client`. They must see the
    traces and the output at the same paths. The files that they have imported stay beside the output until the run is
    complete, and the same import after an error goes on from there. `parts` is a URL of a store (`s3://bucket/parts`)
    where they stay instead, for workers that share no folder with this machine; their traces lie in a store, too.

    Raises `TraceFormatError` or `EmptyTraceError` if nothing can be read, `MachineError` if memory, disk or network do
    not suffice or a process was killed, `ExportExistsError` if the output exists and `overwrite` is false, and
    `HotlineError` for a wrong class, pattern, GPU or query.
    """
    if workers is not None and workers < 1:
        raise HotlineError(f"{workers} processes cannot import anything", hint="Use 1 worker or more.")
    files, is_search = find_traces(source)
    classes = read_kernel_classes(kernel_classes)
    signatures = read_op_signatures(op_signatures)
    model_file = None if model is None else Path(os.path.abspath(path_of(model)))
    options = Options(model_file, classes, read_gpus(gpus, gpu), signatures, keep_secrets, read_op_work(op_work))
    if options.model is not None:
        read_model(options.model)  # a mistake in it is better told before the traces are read
    target = path_of(output)
    if cluster is not None:
        if workers is not None:
            raise HotlineError("the workers of a cluster are its own", hint="Leave out the number of workers.")
        target = Path(os.path.abspath(target))  # workers have other working directories
    store = None if parts is None else _store_of(parts, files, cluster)

    def write(partial: Path) -> None:
        with _executor(files, options, partial, kept, store, cluster, workers, on_progress) as (tasks, executor):
            parts, warned = import_all(
                tasks, executor, options, on_progress, skip_bad=is_search, allow_missing=allow_missing
            )
        parts, copied = _without_copies(parts)
        ranked, more = _assign_ranks(parts)
        warned += copied
        if sentence := missing_ranks(ranked):
            more.append(sentence)
        folders = {part["rank"]: Path(part.pop("folder")) for part in ranked}
        stored = [table for table in TABLES.values() if table.kind != "view"]
        joined = join_ranks(stored, folders, partial) if len(folders) > MOST_OWN_FILES else {}
        alone = [table for table in stored if table.name not in joined]
        for table in alone:
            (partial / table.name).mkdir()
        for rank, folder in folders.items():
            for table in alone:
                place = partial / own_file(table, rank)
                place.parent.mkdir()
                (folder / f"{table.name}.parquet").rename(place)
            shutil.rmtree(folder, ignore_errors=True)
        for part in ranked:
            for name in ("path", "bytes", "digest"):
                part.pop(name, None)
        warned += more
        warned = list(dict.fromkeys([*warnings_of(files), *warned]))
        manifest = {"format_version": FORMAT_VERSION, "parts": ranked, "warnings": warned, "joined": joined}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for text in warned:
            warnings.warn(text, HotlineWarning, stacklevel=4)

    kept: Path | None
    with nullcontext() if cluster is None or store is not None else parts_beside(target) as kept:
        run = replace_folder(target, write, overwrite=overwrite)
        if kept is not None:
            remove(kept)
    if store is not None:
        store.delete()
    return run


def _store_of(parts: str, files: Sequence[TraceFile], cluster: Cluster | None) -> PartsInStore:
    """The store for parts. Raises `HotlineError` if it is of no use, or none."""
    from hotline_analysis.importer.remote_parts import PartsInStore

    if cluster is None:
        raise HotlineError("only workers of a cluster put parts into a store", hint="Name the cluster (--cluster).")
    if not is_remote(parts):
        raise HotlineError(f"{parts!r} is no URL of a store", hint="Write s3://bucket/parts, for example.")
    if here := next((file for file in files if not isinstance(file, Remote)), None):
        raise HotlineError(
            f"{here} is on this machine, and workers that share no folder with it cannot read it",
            hint=f"Name the URLs of the traces, or leave out {shown(parts)}.",
        )
    store = PartsInStore(parts)
    store.check()
    return store


@contextmanager
def _executor(
    files: Sequence[TraceFile],
    options: Options,
    partial: Path,
    kept: Path | None,
    store: PartsInStore | None,
    cluster: Cluster | None,
    workers: int | None,
    on_progress: Progress | None,
) -> Iterator[tuple[list[Task], Executor]]:
    """What there is to do, in folders of the run or in those that are kept, and who does it."""
    tasks = []
    for number, file in enumerate(files):
        name, size, version = state_of(file)
        if store is not None:
            tasks.append(Task(file, partial / key_of(name, size, version, options), size))
        elif kept is None:
            tasks.append(Task(file, partial / f"part-{number}", size))
            tasks[-1].folder.mkdir()
        else:  # workers have other working directories
            whole = Path(name) if isinstance(file, Path) else file
            tasks.append(Task(whole, kept / key_of(name, size, version, options), size))
    if cluster is None:
        yield tasks, chosen(tasks, workers, on_progress)
        return
    from hotline_analysis.importer.cluster import OnCluster, connected

    with connected(cluster) as client:
        try:
            yield tasks, OnCluster(client, store)
        except HotlineError as error:
            done = sum(is_part(task.folder) for task in tasks) if store is None else store.count(tasks)
            if done:
                place = kept if store is None else shown(store.url)
                kept_now = f"what is imported ({done:,} of {len(tasks):,} files) stays in {place}"
                stays = f"{kept_now}: the same import goes on from there."
                error.hint = f"{error.hint} {stays}" if error.hint else stays
            raise


def _without_copies(parts: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The files without those that have the same bytes as another one of the same rank, and warnings about these."""
    alike: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for part in parts:
        alike.setdefault((part["rank"], part["event_count"], part["bytes"]), []).append(part)
    copies = []
    for group in alike.values():
        if len(group) == 1:
            continue
        originals: dict[str, str] = {}
        for part in group:
            original = originals.setdefault(part.get("digest") or _digest(part["path"]), part["path"])
            if original != part["path"]:
                copies.append(f"{part['file']} is a copy of {Path(original).name}, and is left out")
                shutil.rmtree(part["folder"], ignore_errors=True)
                part["folder"] = None
    kept = [part for part in parts if part["folder"] is not None]
    return kept, some_of(copies, "files are copies of others, and are left out")


def _digest(path: str) -> str:
    """What the bytes of a file have in common with no other's."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _assign_ranks(parts: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Give every file a rank of its own: that of the file, or the next free one if another file has it already."""
    taken: dict[int, str] = {}
    warned = []
    clashes = []
    free = max(max(part["rank"] + 1, part["world_size"] or 0) for part in parts)
    for part in parts:
        rank = part["rank"]
        if rank in taken:
            clashes.append(
                f"{part['file']} and {taken[rank]} both claim rank {rank}; {part['file']} is imported as rank {free}"
            )
            part["rank"] = rank = free
            free += 1
        taken[rank] = part["file"]
        warned += part.pop("notes")
        if part["damage"]:
            warned.append(
                f"{part['file']}: {part['damage']} ({part['event_count']:,} events were read,"
                f" {lost_events(part['lost_event_count'], part['truncated'])})"
            )
    warned = some_of(clashes, "files claim a rank that another has, and are imported as the next free ones") + warned
    return sorted(parts, key=lambda part: part["rank"]), warned
