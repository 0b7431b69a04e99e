"""Trace files → a run directory: each file is read, annotated and written once, and the run appears when all is done.

Several files are imported by as many processes as there are processors. A process is this module run as a program:
unlike `multiprocessing`, that asks nothing of the caller's main module.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hotline_analysis import catalog
from hotline_analysis.annotate import annotate
from hotline_analysis.annotate.model import METADATA_KEY, Model, parse_model, read_model
from hotline_analysis.errors import (
    EmptyTraceError,
    HotlineError,
    HotlineWarning,
    ModelMismatchError,
    TraceFormatError,
)
from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.schema import FORMAT_VERSION, KERNEL_CLASSES, READ_TABLES, TABLES
from hotline_analysis.trace import MANIFEST, Trace, replace_folder

Source = str | os.PathLike[str]
KernelClasses = Mapping[str, str] | str | os.PathLike[str]
"""Patterns of kernel names and the class of what they match, or a CSV file with the columns `pattern` and `class`."""

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of the whole that is done, from 0 to 1."""

SUFFIXES = (".json", ".json.gz", ".json.zst")
_ROW_GROUP = 122_880
_MEMORY_LIMIT = "500MB"
_MAX_RANK = 1_000_000_000
_READING = 0.7  # share of an import's time that reading takes, for the progress bar


def load(
    source: Source | Sequence[Source],
    *,
    model: Source | None = None,
    kernel_classes: KernelClasses | None = None,
    on_progress: Progress | None = None,
) -> Trace:
    """Open a run directory, or import trace files to a temporary one and open that.

    `source` is a run directory, a trace file (`.json`, `.json.gz`, `.json.zst`), a folder of them, a glob, or a list of
    files. The temporary run is deleted when the trace is closed or forgotten; `import_traces` makes one that stays, and
    says what `model` and `kernel_classes` are; a run has those it was imported with. Raises `TraceFormatError`,
    `EmptyTraceError`, `RunFormatError` or `ModelMismatchError`, and warns (`HotlineWarning`) about what was lost.
    """
    if isinstance(source, str | os.PathLike) and (Path(source) / MANIFEST).is_file():
        if kernel_classes is not None or model is not None:
            raise HotlineError(
                f"{source} is imported already, and its events have their modules and classes",
                hint="Import the trace files again with the model or the classes.",
            )
        return Trace(Path(source))
    folder = Path(tempfile.mkdtemp(prefix="hotline-"))
    run = folder / "run.hotline"
    try:
        import_traces(source, run, model=model, kernel_classes=kernel_classes, on_progress=on_progress)
    except BaseException:
        _remove(folder)
        raise
    return Trace(run, temporary=folder)


def import_traces(
    source: Source | Sequence[Source],
    output: Source,
    *,
    model: Source | None = None,
    overwrite: bool = False,
    kernel_classes: KernelClasses | None = None,
    on_progress: Progress | None = None,
) -> Path:
    """Import trace files and annotate them; write a run directory and return its path.

    `model` is a JSON file that describes the model in execution order, as `[{"name", "type", "ops": [...]}]` or as
    `hotline_analysis.model_ops` gives it. It is placed on the ops of traces that have no `nn.Module` frames, instead of
    what a capture may have stored in them. Raises `ModelMismatchError` if it fits none of a trace's forward passes.

    The run appears when it is complete, and not at all if something goes wrong. Of a folder or glob, files that are no
    traces are skipped with a warning. `kernel_classes` add to the rules that tell computation, communication and memory
    kernels apart (`name_info`): regular expressions (RE2) to find in a kernel's full name, the first that matches
    counts, before the built-in rules. Raises `TraceFormatError` or `EmptyTraceError` if nothing can be read,
    `ExportExistsError` if the output exists and `overwrite` is false, and `HotlineError` for a wrong class or pattern.
    """
    files, is_search = find_traces(source)
    options = Options(None if model is None else Path(model), read_kernel_classes(kernel_classes))
    if options.model is not None:
        read_model(options.model)  # a mistake in it is better told before the traces are read
    target = Path(output)

    def write(partial: Path) -> None:
        parts, warned = _import_all(files, partial, options, on_progress, skip_bad=is_search)
        ranked, more = _assign_ranks(parts)
        for part in ranked:
            for table in TABLES.values():
                if table.kind != "view":
                    place = partial / table.name / f"rank={part['rank']}"
                    place.mkdir(parents=True)
                    (Path(part["folder"]) / f"{table.name}.parquet").rename(place / "data.parquet")
            _remove(Path(part.pop("folder")))
        warned += more
        manifest = {"format_version": FORMAT_VERSION, "parts": ranked, "warnings": warned}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        for text in warned:
            warnings.warn(text, HotlineWarning, stacklevel=4)

    return replace_folder(target, write, overwrite=overwrite)


def find_traces(source: Source | Sequence[Source]) -> tuple[list[Path], bool]:
    """Return the files that a source names, and whether they were searched for rather than named one by one."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.is_dir():
            found = _traces_in(path)
            if not found:
                raise TraceFormatError(
                    f"{path} holds no trace files", hint=f"Looked for files ending in {', '.join(SUFFIXES)}."
                )
            return found, True
        if not path.exists() and has_magic(str(source)):
            found = sorted(Path(name) for name in glob(str(source), recursive=True) if Path(name).is_file())
            if not found:
                raise TraceFormatError(f"no file matches {source}", hint="Quote the pattern, and check the folder.")
            return found, True
        return [_existing(path)], False
    files = [_existing(Path(name)) for name in source]
    if not files:
        raise TraceFormatError("the list of trace files is empty", hint="Pass at least one file.")
    return files, False


@dataclass(frozen=True)
class Options:
    """What the user knows beside the trace: the model (a file), and classes of kernels (the table `kernel_class`)."""

    model: Path | None = None
    classes: pa.Table = field(default_factory=lambda: read_kernel_classes(None))

    def to_json(self) -> str:
        """The options as text, for a process that imports one of several files."""
        return json.dumps({"model": self.model and str(self.model), "classes": self.classes.to_pylist()})

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The options as `to_json` wrote them."""
        given = json.loads(text)
        classes = pa.Table.from_pylist(given["classes"], TABLES["kernel_class"].arrow)
        return cls(Path(given["model"]) if given["model"] else None, classes)


def read_kernel_classes(given: KernelClasses | None) -> pa.Table:
    """Check the user's classes of kernels and return them as the table `kernel_class`."""
    if given is None:
        pairs: list[tuple[str, str]] = []
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        try:
            with open(given, newline="", encoding="utf-8") as stream:
                pairs = [(row["pattern"], row["class"]) for row in csv.DictReader(stream)]
        except OSError as error:
            raise HotlineError(f"cannot read {given}: {error.strerror or error}") from error
        except (KeyError, ValueError, csv.Error) as error:
            raise HotlineError(
                f"{given} is no table of kernel classes", hint="It is a CSV file whose first line is: pattern,class"
            ) from error
    for pattern, name in pairs:
        if name not in KERNEL_CLASSES:
            raise HotlineError(
                f"{name!r} is no class of kernels (pattern {pattern!r})", hint=f"Use {', '.join(KERNEL_CLASSES)}."
            )
        try:
            duckdb.execute("select regexp_matches('', ?)", [pattern]).fetchall()
        except duckdb.Error as error:
            raise HotlineError(f"{pattern!r} is no regular expression: {error}") from error
    rows = [{"position": number, "pattern": each[0], "class": each[1]} for number, each in enumerate(pairs)]
    return pa.Table.from_pylist(rows, TABLES["kernel_class"].arrow)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TraceFormatError(f"{path} does not exist", hint="Check the path.")
    if path.is_dir():
        raise TraceFormatError(f"{path} is a folder in a list of files", hint="Pass the folder alone.")
    return path


def _traces_in(folder: Path) -> list[Path]:
    """Trace files of a folder, or if it has none itself, of the folders below it that are no run directories."""
    direct = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().endswith(SUFFIXES))
    if direct:
        return direct
    below = (path for path in folder.rglob("*") if path.is_file() and path.name.lower().endswith(SUFFIXES))
    return sorted(path for path in below if not any((parent / MANIFEST).exists() for parent in path.parents))


# Looks for modules where this process does, and not in the working directory, where anything may lie beside the traces.
_CHILD = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10)); from hotline_analysis.importer import _main; _main()"
)

# --- several files ---------------------------------------------------------------------------------------------------


def _import_all(
    files: Sequence[Path], partial: Path, options: Options, on_progress: Progress | None, *, skip_bad: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Import each file to a folder of its own; return what is known of each, and warnings about the skipped ones."""
    folders = [partial / f"part-{number}" for number in range(len(files))]
    for folder in folders:
        folder.mkdir()
    results: Iterable[dict[str, Any] | HotlineError]
    if len(files) == 1:
        report = on_progress or (lambda what, share: None)
        results = [_guarded(lambda: import_file(files[0], folders[0], os.cpu_count() or 1, report, options))]
    else:
        results = _in_processes(files, folders, options, on_progress)
    parts: list[dict[str, Any]] = []
    warned = []
    failed: list[HotlineError] = []
    for result in results:
        if isinstance(result, HotlineError):
            failed.append(result)
            warned.append(f"skipped: {result.message}")
        else:
            parts.append(result)
    for error in failed:
        if not parts or not skip_bad or isinstance(error, ModelMismatchError):
            raise error
    return parts, warned


def _guarded(work: Callable[[], dict[str, Any]]) -> dict[str, Any] | HotlineError:
    try:
        return work()
    except HotlineError as error:
        return error


def _in_processes(
    files: Sequence[Path], folders: Sequence[Path], options: Options, on_progress: Progress | None
) -> list[dict[str, Any] | HotlineError]:
    processors = os.cpu_count() or 1
    workers = min(len(files), processors)
    threads = max(1, processors // workers)
    running: set[subprocess.Popen[str]] = set()
    done = 0

    def run(number: int) -> dict[str, Any] | HotlineError:
        nonlocal done
        arguments = ["\n".join(sys.path), str(files[number]), str(folders[number]), str(threads), str(os.getpid())]
        arguments.append(options.to_json())
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        running.add(process)
        out, err = process.communicate()
        running.remove(process)
        done += 1
        if on_progress:
            on_progress(f"imported {files[number].name}", done / len(files))
        return _parse_result(out, err, process.returncode, files[number])

    pool = ThreadPoolExecutor(workers)
    try:
        futures = [pool.submit(run, number) for number in range(len(files))]
        while wait(futures, timeout=0.2).not_done:
            pass  # wakes up to be interrupted, even if another thread receives the signal
        return [future.result() for future in futures]
    finally:  # when interrupted, do not wait for what is still running
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running):
            process.kill()
        pool.shutdown()


def _parse_result(out: str, err: str, status: int, file: Path) -> dict[str, Any] | HotlineError:
    try:
        result: dict[str, Any] = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        reason = (err.strip().splitlines() or ["no message"])[-1]
        return HotlineError(f"importing {file} failed (exit status {status}): {reason}")
    if "error" in result:
        kinds = {kind.__name__: kind for kind in (TraceFormatError, EmptyTraceError, ModelMismatchError)}
        return kinds.get(result["error"], HotlineError)(result["message"], hint=result["hint"])
    return result


def _assign_ranks(parts: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Give every file a rank of its own: that of the file, or the next free one if another file has it already."""
    taken: dict[int, str] = {}
    warned = []
    for part in parts:
        rank = part["rank"]
        if rank in taken:
            free = max(max(other["rank"] for other in parts), *taken) + 1
            warned.append(
                f"{part['file']} and {taken[rank]} both claim rank {rank}; {part['file']} is imported as rank {free}"
            )
            part["rank"] = rank = free
        taken[rank] = part["file"]
        warned += part.pop("notes")
        if part["damage"]:
            warned.append(
                f"{part['file']}: {part['damage']} ({part['event_count']:,} events were read,"
                f" about {part['lost_event_count']:,} were lost)"
            )
    return sorted(parts, key=lambda part: part["rank"]), warned


# --- one file --------------------------------------------------------------------------------------------------------


def import_file(
    file: Path, folder: Path, threads: int, on_progress: Progress, options: Options | None = None
) -> dict[str, Any]:
    """Read and annotate one trace file; write `<table>.parquet` for every table and return the manifest's entry.

    The entry has `notes` beside: warnings about the model.
    """
    options = options or Options()
    notes: list[str] = []
    size = max(1, file.stat().st_size)
    reader = TraceReader(file, lambda done: on_progress(f"reading {file.name}", _READING * done / size))
    tracks = _write_raw(reader, folder)
    _save_table(options.classes, "kernel_class", folder)
    connection = duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": _MEMORY_LIMIT,
            "temp_directory": str(folder / "spill"),
            "python_enable_replacements": False,
            # The database joins by time row by row where it expects few rows, and it expects far too few.
            "asof_loop_join_threshold": 0,
        }
    )
    try:
        _open_raw(connection, folder)
        _pair_begin_end(connection, folder)
        connection.register("track_key", tracks)
        _save(connection, "track", catalog.get("track").sql, folder)
        _save_table(_devices(reader.metadata), "device", folder)
        derived = annotate(
            connection,
            lambda share: on_progress(f"annotating {file.name}", _READING + (1 - _READING) * share),
            model=_model_of(file, reader.metadata, options.model, notes),
            on_note=lambda note: notes.append(f"{file.name}: {note}"),
        )
        for name in derived:
            _save(connection, name, f"from {name}", folder)
        info = _rank_info(connection, file, reader)
        _save_table(pa.Table.from_pylist([info], TABLES["rank_info"].arrow), "rank_info", folder)
    except duckdb.Error as error:
        raise HotlineError(f"{file} cannot be annotated: {error}", hint="Is there enough memory and disk?") from error
    finally:
        connection.close()
    rank, _ = _rank_of(file, reader.metadata)
    names = ("file", "rank_source", "event_count", "lost_event_count", "lost_bytes", "damage")
    return {"rank": rank, **{name: info[name] for name in names}, "folder": str(folder), "notes": notes}


def _model_of(file: Path, metadata: Mapping[str, Any], given: Path | None, notes: list[str]) -> Model | None:
    """The model that the user gives, else the one that a capture has stored in the trace."""
    if given is not None:
        return read_model(given)
    if METADATA_KEY not in metadata:
        return None
    try:
        return parse_model(metadata[METADATA_KEY], f"{METADATA_KEY} in {file.name}", stored=True)
    except ModelMismatchError as error:
        notes.append(error.message)
        return None


class _TableWriter:
    """Collects batches of one table and writes them as Parquet row groups of a useful size."""

    def __init__(self, name: str, folder: Path) -> None:
        self._schema = TABLES[name].arrow
        texts = [field.name for field in self._schema if pa.types.is_string(field.type)]
        # Numbers rarely repeat; trying to encode them as a dictionary doubles the time of writing.
        self._writer = pq.ParquetWriter(
            folder / f"{name}.parquet",
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=texts or False,
        )
        self._held: list[pa.Table] = []
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        self._held.append(table.select(self._schema.names).cast(self._schema))
        self._rows += table.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=_ROW_GROUP)
        self._held, self._rows = [], 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _write_raw(reader: TraceReader, folder: Path) -> pa.Table:
    """Write the tables that come from the file; return the tracks as a table (track_id, pid, tid)."""
    special = {"rank_info", "device", "track", "kernel_class"}
    writers = {table.name: _TableWriter(table.name, folder) for table in READ_TABLES if table.name not in special}
    tracks: dict[tuple[str | None, str | None], int] = {}
    try:
        for tables in reader:
            pairs = zip(*(tables["pair"].column(name).to_pylist() for name in ("pid", "tid")), strict=True)
            numbers = [None if pair == (None, None) else tracks.setdefault(pair, len(tracks)) for pair in pairs]
            track_of = pa.array(numbers, pa.int64())
            for name, table in tables.items():
                if name == "pair":
                    continue
                if "pair" in table.column_names:
                    table = table.append_column("track_id", pc.take(track_of, table.column("pair")))
                writers[name].write(table)
    finally:
        for writer in writers.values():
            writer.close()
    rows = [{"pid": pid, "tid": tid, "track_id": number} for (pid, tid), number in tracks.items()]
    schema = pa.schema([("pid", pa.string()), ("tid", pa.string()), ("track_id", pa.int64())])
    return pa.Table.from_pylist(rows, schema)


def _open_raw(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    for table in READ_TABLES:
        path = folder / f"{table.name}.parquet"
        if path.exists():
            connection.read_parquet(_literal(path), hive_partitioning=False).create_view(table.name)


def _literal(path: Path) -> str:
    """A path in which the database sees no glob pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _pair_begin_end(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Give durations to events that the file holds as separate begin and end. Few traces have any."""
    if not connection.execute("select count(*) from event where ph = 'B'").fetchall()[0][0]:
        return
    connection.execute(f"create temp table paired as {catalog.get('begin_end').sql}")
    columns = TABLES["event"].arrow.names
    chosen = ", ".join(
        f"coalesce(event.{name}, paired.{name}) as {name}" if name in ("dur_ns", "end_ns") else f"event.{name}"
        for name in columns
    )
    _save(
        connection,
        "event",
        f"select {chosen} from event left join paired on event.event_id = paired.event_id order by event.event_id",  # noqa: S608
        folder,
        replace=True,
    )


def _save(connection: duckdb.DuckDBPyConnection, name: str, query: str, folder: Path, *, replace: bool = False) -> None:
    """Write the result of a query as the Parquet file of a table, with exactly the columns of the schema."""
    target = folder / f"{name}.parquet"
    new = folder / f"{name}.new.parquet" if replace else target
    columns = ", ".join(f'"{column.name}"::{column.type} as "{column.name}"' for column in TABLES[name].columns)
    escaped = str(new).replace("'", "''")
    connection.execute(
        f"copy (select {columns} from ({query})) to '{escaped}' (format parquet, compression zstd, compression_level 1)"  # noqa: S608
    )
    if replace:
        new.replace(target)


def _save_table(table: pa.Table, name: str, folder: Path) -> None:
    pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _devices(metadata: Mapping[str, Any]) -> pa.Table:
    listed = metadata.get("deviceProperties")
    rows = [
        {
            "device_id": _integer(device.get("id")),
            "name": str(device["name"]) if "name" in device else None,
            "memory_bytes": _integer(device.get("totalGlobalMem")),
            "sm_count": _integer(device.get("numSms")),
            "properties": json.dumps(device),
        }
        for device in (listed if isinstance(listed, list) else [])
        if isinstance(device, dict)
    ]
    return pa.Table.from_pylist(rows, TABLES["device"].arrow)


def _integer(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 else None


def _rank_of(file: Path, metadata: Mapping[str, Any]) -> tuple[int, str]:
    """The rank of a file, and where it is known from."""
    distributed = metadata.get("distributedInfo")
    rank = _integer(distributed.get("rank")) if isinstance(distributed, dict) else None
    if rank is not None and 0 <= rank < _MAX_RANK:
        return rank, "distributedInfo"
    in_name = re.search(r"(?<![a-z])rank[-_. ]?(\d{1,9})(?!\d)", file.name, re.IGNORECASE)
    return (int(in_name[1]), "file_name") if in_name else (0, "default")


def _rank_info(connection: duckdb.DuckDBPyConnection, file: Path, reader: TraceReader) -> dict[str, Any]:
    facts = connection.execute(
        "select"
        " (select min(start_ns) from event where dur_ns is not null and coalesce(category, '') <> 'trace'),"
        " (select max(end_ns) from event where coalesce(category, '') <> 'trace'),"
        " exists (select 1 from python_call), exists (select 1 from op where input_dims is not null),"
        " exists (select 1 from memory_event)"
    ).fetchall()[0]
    distributed = reader.metadata.get("distributedInfo")
    damage = reader.damage
    return {
        "file": os.fsencode(file.name).decode("utf-8", "replace"),
        "rank_source": _rank_of(file, reader.metadata)[1],
        "world_size": _integer(distributed.get("world_size")) if isinstance(distributed, dict) else None,
        "event_count": reader.event_count,
        "lost_event_count": damage.lost_events,
        "lost_bytes": damage.lost_bytes,
        "truncated": damage.truncated,
        "damage": "; ".join(damage.notes) or None,
        "base_time_ns": _integer(reader.metadata.get("baseTimeNanoseconds")),
        **dict(zip(("start_ns", "end_ns", "with_stack", "record_shapes", "profile_memory"), facts, strict=True)),
        "metadata": json.dumps(reader.metadata),
    }


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _main() -> None:
    """Import one file on behalf of another process and print the result as a line of JSON."""
    file, folder, threads, parent, options = sys.argv[1:]
    threading.Thread(target=_exit_after, args=[int(parent)], daemon=True).start()
    try:
        given = Options.from_json(options)
        result = import_file(Path(file), Path(folder), int(threads), lambda what, share: None, given)
    except HotlineError as error:
        result = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    print(json.dumps(result))


def _exit_after(parent: int) -> None:
    """End this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
