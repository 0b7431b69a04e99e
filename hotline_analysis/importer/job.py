"""One import: read and annotate each file once, then publish the complete run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotline_analysis.atomic import MANIFEST, remove, replace_folder
from hotline_analysis.errors import HotlineError, HotlineWarning
from hotline_analysis.importer.exports import exported_processes
from hotline_analysis.importer.files import state_of
from hotline_analysis.importer.identity import COORDINATES
from hotline_analysis.importer.joined import MOST_OWN_FILES, join_ranks
from hotline_analysis.importer.options import Options, Progress
from hotline_analysis.importer.parts import is_part, key_of, parts_beside
from hotline_analysis.importer.processes import chosen
from hotline_analysis.importer.ranks import settle
from hotline_analysis.importer.remote import Remote, is_remote, shown
from hotline_analysis.importer.sources import TraceFile
from hotline_analysis.importer.stored_rank import processes_of, warnings_of
from hotline_analysis.importer.tasks import Executor, Task, import_all
from hotline_analysis.run.stored import annotated_by, missing_ranks, own_file
from hotline_analysis.schema import FORMAT_VERSION, TABLES
from hotline_analysis.text.formats import lost_events, some_of

if TYPE_CHECKING:
    from hotline_analysis.importer.cluster import Cluster
    from hotline_analysis.importer.remote_parts import PartsInStore

_OF_THE_IMPORT = ("path", "bytes", "digest", "identity")  # facts of a part that no manifest keeps
_TO_THE_CALLER = 6  # calls from a warning of the import to the code that calls `import_traces`


@dataclass(frozen=True)
class Job:
    """Everything that an import needs: the files, the run to write, the user's options, and the way to work."""

    files: Sequence[TraceFile]
    target: Path
    options: Options
    overwrite: bool
    is_search: bool
    """Whether a search found the files, so files that are no traces are skipped."""
    allow_missing: bool
    rank_from_order: bool
    workers: int | None
    cluster: Cluster | None
    store: PartsInStore | None
    """Where workers without a shared folder keep imported files."""
    on_progress: Progress | None

    def run(self) -> Path:
        """Import the files and write the run directory. Return its path."""
        # Workers have other working directories.
        target = self.target if self.cluster is None else Path(os.path.abspath(self.target))
        has_folder = self.cluster is not None and self.store is None
        kept: Path | None
        with (
            exported_processes(
                self.files, skip_bad=self.is_search or self.allow_missing, is_elsewhere=self.cluster is not None
            ) as files,
            parts_beside(target) if has_folder else nullcontext() as kept,
        ):
            job = replace(self, files=files)
            run = replace_folder(target, lambda partial: job._write(partial, kept), overwrite=self.overwrite)
            if kept is not None:
                remove(kept)
        if self.store is not None:
            self.store.delete()
        return run

    def _write(self, partial: Path, kept: Path | None) -> None:
        """Write a run to a folder. Imported files are kept in another folder if there is one."""
        with self._executor(partial, kept) as (tasks, executor):
            parts, messages = import_all(
                tasks,
                executor,
                self.options,
                self.on_progress,
                skip_bad=self.is_search,
                allow_missing=self.allow_missing,
            )
        parts, copy_notes = _without_copies(parts)
        parts, processes = settle(parts, partial, self.options, self.on_progress, from_order=self.rank_from_order)
        processes = [*processes_of(self.files), *processes]
        parts, rank_warnings = _assign_ranks(parts)
        messages += copy_notes
        if sentence := missing_ranks(parts):
            rank_warnings.append(sentence)
        joined = _move_tables(parts, partial)
        messages = list(dict.fromkeys([*warnings_of(self.files), *messages, *rank_warnings]))
        kept_parts = [_facts_to_keep(part) for part in parts]
        manifest = {
            "format_version": FORMAT_VERSION,
            "annotated_by": annotated_by(),
            "parts": kept_parts,
            "warnings": messages,
            "joined": joined,
        }
        manifest |= {"processes": processes} if processes else {}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for text in messages:
            warnings.warn(text, HotlineWarning, stacklevel=_TO_THE_CALLER)

    @contextmanager
    def _executor(self, partial: Path, kept: Path | None) -> Iterator[tuple[list[Task], Executor]]:
        """Give the tasks, with folders in the run or in the kept parts, and the executor."""
        tasks = []
        for number, file in enumerate(self.files):
            name, size, version = state_of(file)
            if self.store is not None:
                tasks.append(Task(file, partial / key_of(name, size, version, self.options), size))
            elif kept is None:
                tasks.append(Task(file, partial / f"part-{number}", size))
                tasks[-1].folder.mkdir()
            else:  # workers have other working directories
                absolute = Path(name) if isinstance(file, Path) else file
                tasks.append(Task(absolute, kept / key_of(name, size, version, self.options), size))
        if self.cluster is None:
            yield tasks, chosen(tasks, self.workers, self.on_progress)
            return
        from hotline_analysis.importer.cluster import OnCluster, connected

        with connected(self.cluster) as client:
            try:
                yield tasks, OnCluster(client, self.store)
            except HotlineError as error:
                count = sum(is_part(task.folder) for task in tasks) if self.store is None else self.store.count(tasks)
                if count:
                    location = kept if self.store is None else shown(self.store.url)
                    kept_now = f"Imported files ({count:,} of {len(tasks):,}) are kept in {location}"
                    note = f"{kept_now}: the same import continues from there."
                    error.hint = f"{error.hint} {note}" if error.hint else note
                raise


def _move_tables(parts: Sequence[Mapping[str, Any]], run: Path) -> dict[str, list[int]]:
    """Move the tables of each rank into a run. Return the first ranks of each table of several ranks' files."""
    folders = {part["rank"]: Path(part["folder"]) for part in parts}
    stored_tables = [table for table in TABLES.values() if table.kind != "view"]
    joined = join_ranks(stored_tables, folders, run) if len(folders) > MOST_OWN_FILES else {}
    own_tables = [table for table in stored_tables if table.name not in joined]
    for table in own_tables:
        (run / table.name).mkdir()
    for rank, folder in folders.items():
        for table in own_tables:
            table_file = run / own_file(table, rank)
            table_file.parent.mkdir()
            (folder / f"{table.name}.parquet").rename(table_file)
        shutil.rmtree(folder, ignore_errors=True)
    return joined


def _facts_to_keep(part: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a rank for the manifest, without facts of the import and unknown coordinates."""
    left_out = {"folder", *_OF_THE_IMPORT, *(name for name in COORDINATES if part.get(name) is None)}
    return {name: value for name, value in part.items() if name not in left_out}


def store_of(parts: str, files: Sequence[TraceFile], cluster: Cluster | None) -> PartsInStore:
    """Return the store for parts. Raises `HotlineError` for an invalid URL, or traces that workers cannot read."""
    from hotline_analysis.importer.remote_parts import PartsInStore

    if cluster is None:
        raise HotlineError("only workers of a cluster store parts at a URL", hint="Name the cluster (--cluster).")
    if not is_remote(parts):
        raise HotlineError(f"{parts!r} is not a URL of a store", hint="Write s3://bucket/parts, for example.")
    if local_file := next((file for file in files if not isinstance(file, Remote)), None):
        raise HotlineError(
            f"{local_file} is on this machine, so workers without a shared folder cannot read the file",
            hint=f"Name the URLs of the traces, or leave out {shown(parts)}.",
        )
    store = PartsInStore(parts)
    store.check()
    return store


def _without_copies(parts: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Drop files identical to another file of the same rank. Return the remaining files, and warnings."""
    groups: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for part in parts:
        groups.setdefault((part["rank"], part["event_count"], part["bytes"]), []).append(part)
    copies = []
    for group in groups.values():
        if len(group) == 1:
            continue
        originals: dict[str, str] = {}
        for part in group:
            original = originals.setdefault(part.get("digest") or _digest(part["path"]), part["path"])
            if original != part["path"]:
                copies.append(f"{part['file']} is a copy of {Path(original).name} and is left out")
                shutil.rmtree(part["folder"], ignore_errors=True)
                part["folder"] = None
    remaining = [part for part in parts if part["folder"] is not None]
    return remaining, some_of(copies, "files are copies of other files and are left out")


def _digest(path: str) -> str:
    """Return the SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _assign_ranks(parts: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Give every file a unique rank: its own rank, or the next free rank if another file already has it.

    A declared rank takes precedence over a default rank.
    """
    owners: dict[int, str] = {}
    messages = []
    clashes = []
    free = max(max(part["rank"] + 1, part["world_size"] or 0) for part in parts)
    declared_ranks = {part["rank"] for part in parts if part.get("rank_source", "default") != "default"}
    for part in sorted(parts, key=lambda part: part.get("rank_source", "default") == "default"):
        rank = part["rank"]
        if rank in declared_ranks and part.get("rank_source", "default") == "default":
            clashes.append(f"{part['file']} declares no rank and is imported as rank {free}")
        elif rank in owners:
            clashes.append(
                f"{part['file']} and {owners[rank]} both claim rank {rank}; {part['file']} is imported as rank {free}"
            )
        if rank in owners:
            part["rank"] = rank = free
            free += 1
        owners[rank] = part["file"]
        messages += part.pop("notes")
        if part["damage"]:
            messages.append(
                f"{part['file']}: {part['damage']} ({part['event_count']:,} events were read,"
                f" {lost_events(part['lost_event_count'], part['truncated'])})"
            )
    messages = (
        some_of(clashes, "files claim the rank of another file and are imported as the next free ranks") + messages
    )
    return sorted(parts, key=lambda part: part["rank"]), messages
