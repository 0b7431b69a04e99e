"""The files of a run directory: manifest and tables, validated before use.

A run may come from anyone. Therefore nothing outside the run's folder is read, whatever numbers, names or links it
contains. Only regular files are opened. A file that would unpack to far more than a trace can hold is rejected. Two
rows for one event are also rejected, because each join would multiply them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from hotline_analysis import catalog
from hotline_analysis.atomic import MANIFEST
from hotline_analysis.database import macros_in
from hotline_analysis.errors import HotlineError, RunFormatError
from hotline_analysis.schema import FORMAT_VERSION, OLDEST_FORMAT, Table
from hotline_analysis.text.formats import runs as spans

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, ParquetFile

RUN_SUFFIX = ".hotline"  # usual suffix; other names work, too

_MOST_MANIFEST_BYTES = 1 << 27
_MOST_RANK = 1 << 40
_LONGEST = 1 << 63

# Limits for rows and unpacked bytes of a file: a constant, plus a factor per byte of the file. Rows differ in numbers
# or times. Among our own files, the most repetitive ones have 20 rows per byte.
_ROWS, _ROWS_PER_BYTE = 1_000_000, 64
_UNPACKED, _UNPACKED_PER_BYTE = 1 << 30, 1000

_MOST_NAMED = 1 << 17  # maximum number of ranks of a job checked one by one

_HINT = "Import the traces again."
_PART: Mapping[str, tuple[type, ...]] = {
    "rank": (int,),
    "file": (str,),
    "rank_source": (str,),
    "event_count": (int,),
    "lost_event_count": (int,),
    "lost_bytes": (int,),
    "damage": (str, type(None)),
    "truncated": (bool,),
    "world_size": (int, type(None)),
    "start_ns": (int, type(None)),
    "end_ns": (int, type(None)),
    **dict.fromkeys(("tp", "pp", "dp", "ep"), (int, type(None))),
}
_LATER = ("world_size", "start_ns", "end_ns", "tp", "pp", "dp", "ep")  # missing in older runs
_PROCESS: Mapping[str, tuple[type, ...]] = {"name": (str,), "event_count": (int,)}
_RECORDING: Mapping[str, tuple[type, ...]] = {
    "file": (str,),
    "first_event_id": (int,),
    "event_count": (int,),
    "start_ns": (int, type(None)),
    "end_ns": (int, type(None)),
    "shift_ns": (int,),
}
_WORDS = {
    dict: "an object",
    list: "a list",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
# Physical and logical Parquet types of each column type. The logical type excludes dates and decimals, which are also
# stored as numbers.
_TEXT = {("BYTE_ARRAY", "UTF8", "STRING"), ("BYTE_ARRAY", "JSON", "JSON")}
_STORED: Mapping[str, set[tuple[str, str, str]]] = {
    "BIGINT": {("INT64", "NONE", "NONE"), ("INT64", "INT_64", "INT")},
    "INTEGER": {("INT32", "NONE", "NONE"), ("INT32", "INT_32", "INT")},
    "DOUBLE": {("DOUBLE", "NONE", "NONE")},
    "VARCHAR": _TEXT,
    "BOOLEAN": {("BOOLEAN", "NONE", "NONE")},
    "JSON": _TEXT,
}
# Key columns of tables that do not start with `event_id`. Uniqueness is checked where joins use the key.
_KEYS = {
    "track": ["track_id"],
    "model_op": ["module_id"],
    "step": ["step"],
    "gpu_busy": ["device", "start_ns"],
    "gpu_gap": ["device", "start_ns"],
    "module_source": ["module_id"],
    "python_function": ["name"],
}
_FEW_ROWS = 50  # duplicates in so few rows are harmless, and a check takes longer than opening the file
# Tables with several rows per event.
_SEVERAL = ("counter", "shared_kernel")


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a table's files, on disk and unpacked."""

    file_bytes: int
    rows: int
    text_bytes: int
    """Upper bound of the unpacked texts, because a text stored once may occur in every row."""

    def __add__(self, other: Size) -> Size:
        """Sum of both sizes."""
        return Size(*(count + other_count for count, other_count in zip(astuple(self), astuple(other), strict=True)))


def read_manifest(run: Path, *, oldest: int = FORMAT_VERSION) -> Mapping[str, Any]:
    """The manifest of a run, with every field of the type written by the importer.

    Raises `RunFormatError` if the manifest is missing or invalid, or its format is before `oldest`.
    """
    path = run / MANIFEST
    try:
        file = _own_file(run, MANIFEST)
        if os.stat(file).st_size > _MOST_MANIFEST_BYTES:
            raise RunFormatError(f"{path} is too large for a manifest", hint=_HINT)
        with open(file, encoding="utf-8") as stream:
            manifest = json.loads(stream.read(_MOST_MANIFEST_BYTES + 1))
    except FileNotFoundError:
        raise RunFormatError(
            f"{run} is not a run directory: {MANIFEST} is missing",
            hint="Make a run with `hotline import TRACES -o run.hotline`.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", hint=_HINT) from error
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if type(version) is not int or not oldest <= version <= FORMAT_VERSION:
        label = json.dumps(version)
        is_usable = type(version) is int and OLDEST_FORMAT <= version < FORMAT_VERSION
        raise RunFormatError(
            f"{run} was imported by another version of this package: the run has format version"
            f" {label if len(label) < 40 else 'of another kind'}, and this version reads {FORMAT_VERSION}",
            hint=f"`hotline import {run} -o NEW{RUN_SUFFIX}` makes a new run from the events." if is_usable else _HINT,
        )
    parts, warnings = _list(path, manifest, "parts"), _list(path, manifest, "warnings")
    if not parts:
        raise RunFormatError(f"{path} has no rank in parts", hint=_HINT)
    for number, part in enumerate(parts):
        _check_part(path, f"parts[{number}]", part)
    ranks = {part["rank"] for part in parts}
    if len(ranks) < len(parts):
        raise RunFormatError(f"{path} has a duplicate rank in parts", hint=_HINT)
    for number, text in enumerate(warnings):
        _check(path, f"warnings[{number}]", text, (str,))
    for number, process in enumerate(manifest.setdefault("processes", [])):
        _check_fields(path, f"processes[{number}]", process, _PROCESS)
    _check_joined(path, manifest.setdefault("joined", {}), min(ranks))
    _check(path, "annotated_by", manifest.setdefault("annotated_by", ""), (str,))
    return dict(manifest)


@cache
def annotated_by() -> str:
    """A digest of the rules that annotate a run: queries, macros and tables of names. Comments do not count.

    A manifest holds the digest of the import, so a run annotated by other rules of the same format is recognised.
    """
    queries = catalog.queries("annotate")
    texts = [step.sql for query in queries for step in (*query.steps, query)]
    texts += [catalog.macros()[name].sql for name in macros_in(texts)]
    files = sorted(catalog.shipped_folder().joinpath("rules").iterdir(), key=lambda file: file.name)
    rules = [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".csv")]
    statements = [" ".join(catalog.COMMENT.sub("", text).split()) for text in texts]
    return hashlib.sha256(json.dumps([statements, rules]).encode()).hexdigest()[:16]


def run_of_rank(runs: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> dict[int, Path]:
    """The run directory of each rank. Raises `HotlineError` if two runs contain the same rank."""
    folders: dict[int, Path] = {}
    for run, manifest in zip(runs, manifests, strict=True):
        for part in manifest["parts"]:
            other = folders.setdefault(part["rank"], run)
            if other is not run:
                raise HotlineError(
                    f"{other} and {run} both have rank {part['rank']}, so the runs cannot be opened together",
                    hint="Open the runs separately, as in `hotline diff A B`, or import the traces together.",
                )
    return folders


def is_of_earlier_format(run: Path) -> bool:
    """Whether this is a run of an earlier format that can be annotated again."""
    with suppress(RunFormatError):
        read_manifest(run)
        return False
    with suppress(RunFormatError):
        read_manifest(run, oldest=OLDEST_FORMAT)
        return True
    return False


def missing_ranks(parts: Sequence[Mapping[str, Any]]) -> str | None:
    """One sentence about the missing ranks of a run with several ranks; `None` if complete or unknown.

    A run with a single rank is not called incomplete, because tracing a single rank is usually intended.
    """
    sizes = {part.get("world_size") for part in parts}
    ranks = {part["rank"] for part in parts}
    if len(ranks) < 2 or len(sizes) > 1 or (size := sizes.pop()) is None or len(ranks) >= size:
        return None
    count = size - len(ranks)
    sentence = f"{count:,} of {size:,} ranks {'is' if count == 1 else 'are'} missing"
    return sentence if size > _MOST_NAMED else f"{sentence}: {spans([n for n in range(size) if n not in ranks])}"


def _list(path: Path, manifest: Mapping[str, Any], name: str) -> Sequence[Any]:
    if name not in manifest:
        raise RunFormatError(f"{path} is damaged: {name} is missing", hint=_HINT)
    entries = manifest[name]
    if not isinstance(entries, list):
        raise RunFormatError(f"{path} is damaged: {name} is not a list", hint=_HINT)
    return entries


def _check_joined(path: Path, joined: Any, lowest: int) -> None:
    """Check that each table has the first ranks of its files, in ascending order from the lowest rank."""
    _check(path, "joined", joined, (dict,))
    for name, firsts in joined.items():
        field = f"joined.{name}"
        _check(path, field, firsts, (list,))
        for number, first in enumerate(firsts):
            _check(path, f"{field}[{number}]", first, (int,))
        if not firsts or firsts != sorted(set(firsts)) or not 0 <= firsts[0] <= lowest:
            raise RunFormatError(f"{path} is damaged: {field} does not name the first rank of each file", hint=_HINT)


def _check_part(path: Path, place: str, part: object) -> None:
    if not isinstance(part, dict):
        raise RunFormatError(f"{path} is damaged: {place} is not an object", hint=_HINT)
    for name, kinds in _PART.items():
        if name not in part and name in _LATER:
            continue
        if name not in part:
            raise RunFormatError(f"{path} is damaged: {place}.{name} is missing", hint=_HINT)
        _check(path, f"{place}.{name}", part[name], kinds)
        # The rank becomes part of a path, and counts are summed and shown. A time may be negative on its clock.
        least = -_LONGEST if name.endswith("_ns") else 0
        largest = _MOST_RANK if name == "rank" else _LONGEST
        if int in kinds and part[name] is not None and not least <= part[name] < largest:
            raise RunFormatError(f"{path} is damaged: {place}.{name} is out of range", hint=_HINT)
    for number, recording in enumerate(part.get("recordings", [])):
        _check_fields(path, f"{place}.recordings[{number}]", recording, _RECORDING)


def _check_fields(path: Path, place: str, found: object, fields: Mapping[str, tuple[type, ...]]) -> None:
    if not isinstance(found, dict):
        raise RunFormatError(f"{path} is damaged: {place} is not an object", hint=_HINT)
    for name, kinds in fields.items():
        _check(path, f"{place}.{name}", found.get(name), kinds)


def _check(path: Path, place: str, value: object, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:
        words = " or ".join(_WORDS[kind] for kind in kinds)
        raise RunFormatError(f"{path} is damaged: {place} is not {words}", hint=_HINT)


def _own_file(run: Path, name: str) -> str:
    """The path of a regular file of the run. Raises `OSError`, or `RunFormatError` for other files or links."""
    file = os.path.join(os.path.realpath(run), name)
    if os.path.realpath(file) != file:
        raise RunFormatError(
            f"{run / name} is a link, or in a linked folder, and only files of the run itself are read",
            hint="If the run is yours, replace the link by a copy of the target. Otherwise import the traces again.",
        )
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise RunFormatError(f"{run / name} is not a plain file and is not read", hint=_HINT)
    return file


def own_file(table: Table, rank: int) -> str:
    """The path, inside the run, of a table's file for one rank."""
    return f"{table.name}/rank={rank}/data.parquet"


def shared_file(table: Table, first: int) -> str:
    """The path, inside the run, of a table's file for several ranks; `first` is the first rank."""
    return f"{table.name}/from-{first}/data.parquet"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a table that contain the requested ranks."""

    own: list[str]
    """Files of a single rank, which is part of the path."""
    shared: list[str]
    """Files of several ranks, with a column `rank`."""
    size: Size
    """Total size; for shared files, the size of the row groups that may contain the requested ranks."""


def table_files(table: Table, runs: Mapping[int, Path], joined: Mapping[Path, Mapping[str, list[int]]]) -> Files:
    """The files of a table that contain the given ranks.

    `runs` maps each rank to its run directory, and `joined` maps each run to the `joined` entry of its manifest. Raises
    `RunFormatError` for a file that is missing, is outside its run, is not a Parquet file of this table, unpacks to
    more than a file of its size can hold, or has duplicate keys.
    """
    own_files, shared_files = [], []
    total = Size(0, 0, 0)
    ranks_of_file: dict[tuple[Path, int], list[int]] = {}  # ranks of each shared file
    for rank in sorted(runs):
        run = runs[rank]
        firsts = joined.get(run, {}).get(table.name)
        if firsts is None:
            file, size = _looked_at(table, run, own_file(table, rank), None)
            own_files.append(file)
            total += size
        else:
            ranks_of_file.setdefault((run, firsts[bisect_right(firsts, rank) - 1]), []).append(rank)
    for (run, first), ranks in ranks_of_file.items():
        file, size = _looked_at(table, run, shared_file(table, first), ranks)
        shared_files.append(file)
        total += size
    return Files(own_files, shared_files, total)


def _looked_at(table: Table, run: Path, name: str, ranks: Sequence[int] | None) -> tuple[str, Size]:
    """A file and its size. The size of a shared file counts only row groups that may contain the ranks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = _own_file(run, name)
        with pq.ParquetFile(file, memory_map=False) as parquet:
            spans = None if ranks is None else spans_of(parquet.metadata)
            groups = [
                number
                for number in range(parquet.num_row_groups)
                if ranks is None or spans is None or _has_one(ranks, *spans[number])
            ]
            size = _size(table, parquet.metadata, os.stat(file).st_size, groups)
            _check_keys(table, parquet, groups, spans)
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        message = error.strerror if isinstance(error, OSError) and error.strerror else _first_line(error)
        raise RunFormatError(f"{run} is damaged: {name}: {message}", hint=_HINT) from error
    return file, size


def spans_of(footer: FileMetaData) -> list[tuple[int, int]]:
    """The lowest and highest rank of each row group. Raises `ValueError` if ranks are not in order."""
    index = footer.schema.names.index("rank") if "rank" in footer.schema.names else -1
    if index < 0 or footer.schema.column(index).physical_type != "INT64":
        raise ValueError("the column rank is missing")
    spans: list[tuple[int, int]] = []
    for number in range(footer.num_row_groups):
        statistics = footer.row_group(number).column(index).statistics
        if statistics is None or not statistics.has_min_max or (spans and statistics.min < spans[-1][1]):
            raise ValueError("the ranks are not in order")
        spans.append((statistics.min, statistics.max))
    return spans


def _has_one(ranks: Sequence[int], low: int, high: int) -> bool:
    """Whether one of the sorted ranks is in the range from `low` to `high`."""
    index = bisect_left(ranks, low)
    return index < len(ranks) and ranks[index] <= high


def _size(table: Table, footer: FileMetaData, file_bytes: int, groups: Sequence[int]) -> Size:
    """The size of some row groups. Raises `ValueError` for a different table, or if it unpacks to too much."""
    kinds = {}
    for number in range(len(footer.schema)):
        column = footer.schema.column(number)
        if column.path == column.name and column.max_repetition_level == 0:
            kinds[column.name] = (column.physical_type, column.converted_type, column.logical_type.type)
    for expected in table.columns:
        if expected.name not in kinds:
            raise ValueError(f"the column {expected.name} is missing")
        if kinds[expected.name] not in _STORED[expected.type]:
            raise ValueError(f"the column {expected.name} is not {expected.type}")
    rows = packed = unpacked = texts = 0
    for group in map(footer.row_group, groups):
        rows += group.num_rows
        for number in range(group.num_columns):
            column = group.column(number)
            packed += column.total_compressed_size
            unpacked += column.total_uncompressed_size
            if column.physical_type == "BYTE_ARRAY":
                texts += group.num_rows * column.total_uncompressed_size
    if len(groups) == footer.num_row_groups:
        packed = file_bytes
    if rows > most_rows(file_bytes):
        raise ValueError(f"{rows:,} rows are too many for a file of {file_bytes:,} bytes")
    if unpacked > most_bytes(file_bytes):
        raise ValueError(f"{unpacked:,} unpacked bytes are too many for a file of {file_bytes:,} bytes")
    return Size(packed, rows, texts)


def _check_keys(
    table: Table, file: ParquetFile, groups: Sequence[int], spans: Sequence[tuple[int, int]] | None
) -> None:
    """Raise `ValueError` if two rows of a rank have the same key. Takes a few milliseconds for 100,000 rows.

    In a file of several ranks, row groups that share a rank are checked together.
    """
    key = _KEYS.get(table.name, [])
    if table.columns[0].name == "event_id" and table.name not in _SEVERAL:
        key = ["event_id"]
    if not key or file.metadata.num_rows < _FEW_ROWS:
        return
    batches: list[list[int]] = []
    for number in groups:
        if batches and (spans is None or spans[number][0] == spans[batches[-1][-1]][1]):
            batches[-1].append(number)
        else:
            batches.append([number])
    columns = key if spans is None else ["rank", *key]
    for batch in batches:
        rows = pl.DataFrame(file.read_row_groups(batch, columns=columns))
        if spans is not None and len(batch) == 1 and spans[batch[0]][0] == spans[batch[0]][1]:
            rows = rows.select(key)  # a single rank according to the file's statistics
        unique = rows.to_series().n_unique() if rows.width == 1 else rows.n_unique()
        if unique < rows.height:
            raise ValueError(f"two rows have the same {' and '.join(key)}")


def most_rows(file_bytes: int) -> int:
    """Maximum number of rows in a file of this size."""
    return _ROWS + _ROWS_PER_BYTE * file_bytes


def most_bytes(file_bytes: int) -> int:
    """Maximum unpacked size of a file of this size."""
    return _UNPACKED + _UNPACKED_PER_BYTE * file_bytes


def _first_line(error: Exception) -> str:
    return str(error.args[0] if error.args else error).partition("\n")[0]
