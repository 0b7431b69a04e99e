"""What a run directory holds: its manifest and the files of its tables, looked at before anything is made of them.

A run may come from somebody else. So nothing outside its folder is read, whatever a number, name or link in it says;
only plain files are opened; what would unpack to far more than a trace can hold is refused; and so are two rows for one
event, since each join would multiply them.
"""

from __future__ import annotations

import json
import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from hotline_analysis.atomic import MANIFEST
from hotline_analysis.errors import HotlineError, RunFormatError
from hotline_analysis.schema import FORMAT_VERSION, OLDEST_FORMAT, Table
from hotline_analysis.text.formats import runs as spans

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData, ParquetFile

RUN_SUFFIX = ".hotline"  # as everybody calls runs; any name will do

_MOST_MANIFEST_BYTES = 1 << 27
_MOST_RANK = 1 << 40
_LONGEST = 1 << 63

# So many rows and bytes of a file are nothing unusual, and so many more for each byte that it has. Rows have numbers or
# times that differ: of our own files, those whose rows repeat most have 20 rows per byte.
_ROWS, _ROWS_PER_BYTE = 1_000_000, 64
_UNPACKED, _UNPACKED_PER_BYTE = 1 << 30, 1000

_MOST_NAMED = 1 << 17  # ranks of a job that are looked for one by one

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
}
_LATER = ("world_size", "start_ns", "end_ns")  # runs of before do not have them
_WORDS = {
    dict: "an object",
    list: "a list",
    int: "a whole number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
# How Parquet stores each type, and what it may say of it: dates and decimals are stored as numbers, too.
_TEXT = {("BYTE_ARRAY", "UTF8", "STRING"), ("BYTE_ARRAY", "JSON", "JSON")}
_STORED: Mapping[str, set[tuple[str, str, str]]] = {
    "BIGINT": {("INT64", "NONE", "NONE"), ("INT64", "INT_64", "INT")},
    "INTEGER": {("INT32", "NONE", "NONE"), ("INT32", "INT_32", "INT")},
    "DOUBLE": {("DOUBLE", "NONE", "NONE")},
    "VARCHAR": _TEXT,
    "BOOLEAN": {("BOOLEAN", "NONE", "NONE")},
    "JSON": _TEXT,
}
# What rows of tables differ in that do not start with `event_id`. It is checked where joins go by it.
_KEYS = {
    "track": ["track_id"],
    "model_op": ["module_id"],
    "step": ["step"],
    "gpu_busy": ["device", "start_ns"],
    "gpu_gap": ["device", "start_ns"],
}
_FEW_ROWS = 50  # joins make no harm of them, and to look takes longer than to open the file
# Tables that have several rows for an event.
_SEVERAL = ("counter", "shared_kernel")


@dataclass(frozen=True, slots=True)
class Size:
    """How much the files of a table are, on disk and unpacked."""

    file_bytes: int
    rows: int
    text_bytes: int
    """What the texts could come to at most: a text that is stored once may stand in every row."""

    def __add__(self, other: Size) -> Size:
        """Both together."""
        return Size(*(each + more for each, more in zip(astuple(self), astuple(other), strict=True)))


def read_manifest(run: Path, *, oldest: int = FORMAT_VERSION) -> Mapping[str, Any]:
    """The manifest of a run, in which every field is of the type that the importer writes.

    Raises `RunFormatError` if it is missing, says anything else, or is of a format before the `oldest` that will do.
    """
    path = run / MANIFEST
    try:
        file = _own_file(run, MANIFEST)
        if os.stat(file).st_size > _MOST_MANIFEST_BYTES:
            raise RunFormatError(f"{path} is too large for a manifest", hint=_HINT)
        with open(file, encoding="utf-8") as opened:
            manifest = json.loads(opened.read(_MOST_MANIFEST_BYTES + 1))
    except FileNotFoundError:
        raise RunFormatError(
            f"{run} is no run directory: it has no {MANIFEST}",
            hint="Make one with `hotline import TRACES -o run.hotline`.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunFormatError(f"{path} cannot be read: {error}", hint=_HINT) from error
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if type(version) is not int or not oldest <= version <= FORMAT_VERSION:
        said = json.dumps(version)
        is_usable = type(version) is int and OLDEST_FORMAT <= version < FORMAT_VERSION
        raise RunFormatError(
            f"{run} was imported by another version of this package: it has format version"
            f" {said if len(said) < 40 else 'of another kind'}, and this version reads {FORMAT_VERSION}",
            hint=f"`hotline import {run} -o NEW{RUN_SUFFIX}` makes a new run of its events." if is_usable else _HINT,
        )
    parts, warnings = _list(path, manifest, "parts"), _list(path, manifest, "warnings")
    if not parts:
        raise RunFormatError(f"{path} names no rank in parts", hint=_HINT)
    for number, part in enumerate(parts):
        _check_part(path, f"parts[{number}]", part)
    ranks = {part["rank"] for part in parts}
    if len(ranks) < len(parts):
        raise RunFormatError(f"{path} names a rank twice in parts", hint=_HINT)
    for number, text in enumerate(warnings):
        _check(path, f"warnings[{number}]", text, (str,))
    _check_joined(path, manifest.setdefault("joined", {}), min(ranks))
    return dict(manifest)


def run_of_rank(runs: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> dict[int, Path]:
    """Which of some runs holds each rank. Raises `HotlineError` if two hold the same."""
    found: dict[int, Path] = {}
    for run, manifest in zip(runs, manifests, strict=True):
        for part in manifest["parts"]:
            other = found.setdefault(part["rank"], run)
            if other is not run:
                raise HotlineError(
                    f"{other} and {run} both hold rank {part['rank']}, so they are not the ranks of one run",
                    hint="Open runs of one rank apart, as in `hotline diff A B`, or import their traces together.",
                )
    return found


def is_of_earlier_format(run: Path) -> bool:
    """Whether this is a run of an earlier format, which can be annotated again."""
    with suppress(RunFormatError):
        read_manifest(run)
        return False
    with suppress(RunFormatError):
        read_manifest(run, oldest=OLDEST_FORMAT)
        return True
    return False


def missing_ranks(parts: Sequence[Mapping[str, Any]]) -> str | None:
    """One sentence about the ranks of the job that a run of several lacks; None if it has all, or nobody knows.

    A single rank is not called incomplete: who traces one wants one.
    """
    sizes = {part.get("world_size") for part in parts}
    ranks = {part["rank"] for part in parts}
    if len(ranks) < 2 or len(sizes) > 1 or (size := sizes.pop()) is None or len(ranks) >= size:
        return None
    count = size - len(ranks)
    lacking = f"{count:,} of {size:,} ranks {'is' if count == 1 else 'are'} missing"
    return lacking if size > _MOST_NAMED else f"{lacking}: {spans([n for n in range(size) if n not in ranks])}"


def _list(path: Path, manifest: Mapping[str, Any], name: str) -> Sequence[Any]:
    if name not in manifest:
        raise RunFormatError(f"{path} is damaged: {name} is missing", hint=_HINT)
    listed = manifest[name]
    if not isinstance(listed, list):
        raise RunFormatError(f"{path} is damaged: {name} is no list", hint=_HINT)
    return listed


def _check_joined(path: Path, joined: Any, lowest: int) -> None:
    """Each table has the first ranks of its files, ascending from the lowest rank on."""
    _check(path, "joined", joined, (dict,))
    for name, firsts in joined.items():
        place = f"joined.{name}"
        _check(path, place, firsts, (list,))
        for number, first in enumerate(firsts):
            _check(path, f"{place}[{number}]", first, (int,))
        if not firsts or firsts != sorted(set(firsts)) or not 0 <= firsts[0] <= lowest:
            raise RunFormatError(f"{path} is damaged: {place} does not name the first rank of each file", hint=_HINT)


def _check_part(path: Path, place: str, part: object) -> None:
    if not isinstance(part, dict):
        raise RunFormatError(f"{path} is damaged: {place} is no object", hint=_HINT)
    for name, kinds in _PART.items():
        if name not in part and name in _LATER:
            continue
        if name not in part:
            raise RunFormatError(f"{path} is damaged: {place}.{name} is missing", hint=_HINT)
        _check(path, f"{place}.{name}", part[name], kinds)
        # The rank is part of a path, and sums of counts are told. A time may be before the zero of its clock.
        least = -_LONGEST if name.endswith("_ns") else 0
        largest = _MOST_RANK if name == "rank" else _LONGEST
        if int in kinds and part[name] is not None and not least <= part[name] < largest:
            raise RunFormatError(f"{path} is damaged: {place}.{name} is out of range", hint=_HINT)


def _check(path: Path, place: str, value: object, kinds: tuple[type, ...]) -> None:
    if type(value) not in kinds:
        words = " or ".join(_WORDS[kind] for kind in kinds)
        raise RunFormatError(f"{path} is damaged: {place} is not {words}", hint=_HINT)


def _own_file(run: Path, name: str) -> str:
    """The path of a plain file of the run; raises `OSError`, or `RunFormatError` for what is none or lies elsewhere."""
    file = os.path.join(os.path.realpath(run), name)
    if os.path.realpath(file) != file:
        raise RunFormatError(
            f"{run / name} is a link, or lies behind one, and only files of the run itself are read",
            hint="If the run is yours, copy what the link leads to in its place; else import the traces again.",
        )
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise RunFormatError(f"{run / name} is no plain file, and is not read", hint=_HINT)
    return file


def own_file(table: Table, rank: int) -> str:
    """The file of a table that has the rows of one rank, in its run."""
    return f"{table.name}/rank={rank}/data.parquet"


def shared_file(table: Table, first: int) -> str:
    """The file of a table that has the rows of several ranks, the first of which is this."""
    return f"{table.name}/from-{first}/data.parquet"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a table that hold some ranks."""

    own: list[str]
    """Of one rank each, which stands in the path."""
    shared: list[str]
    """Of several ranks, with a column `rank`."""
    size: Size
    """Of shared files, that of the parts that can have rows of these ranks."""


def table_files(table: Table, runs: Mapping[int, Path], joined: Mapping[Path, Mapping[str, list[int]]]) -> Files:
    """The files of a table that hold some ranks, by rank.

    `runs` has the run directory of each rank, and `joined` what the manifest of each says. Raises `RunFormatError` for
    a file that is missing, lies outside its run, is no Parquet file of this table, unpacks to more than a file of its
    size can hold, or has two rows where a table has one.
    """
    own, shared = [], []
    total = Size(0, 0, 0)
    asked: dict[tuple[Path, int], list[int]] = {}  # ranks of each shared file
    for rank in sorted(runs):
        run = runs[rank]
        firsts = joined.get(run, {}).get(table.name)
        if firsts is None:
            file, size = _looked_at(table, run, own_file(table, rank), None)
            own.append(file)
            total += size
        else:
            asked.setdefault((run, firsts[bisect_right(firsts, rank) - 1]), []).append(rank)
    for (run, first), ranks in asked.items():
        file, size = _looked_at(table, run, shared_file(table, first), ranks)
        shared.append(file)
        total += size
    return Files(own, shared, total)


def _looked_at(table: Table, run: Path, name: str, ranks: Sequence[int] | None) -> tuple[str, Size]:
    """A file and its size; of one that is shared, that of the groups of rows that can have some ranks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = _own_file(run, name)
        with pq.ParquetFile(file, memory_map=False) as opened:
            spans = None if ranks is None else spans_of(opened.metadata)
            groups = [
                number
                for number in range(opened.num_row_groups)
                if ranks is None or spans is None or _has_one(ranks, *spans[number])
            ]
            size = _size(table, opened.metadata, os.stat(file).st_size, groups)
            _check_keys(table, opened, groups, spans)
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else _first_line(error)
        raise RunFormatError(f"{run} is damaged: {name}: {what}", hint=_HINT) from error
    return file, size


def spans_of(footer: FileMetaData) -> list[tuple[int, int]]:
    """The lowest and highest rank of each group of rows; raises `ValueError` if they are not in order."""
    place = footer.schema.names.index("rank") if "rank" in footer.schema.names else -1
    if place < 0 or footer.schema.column(place).physical_type != "INT64":
        raise ValueError("it has no column rank")
    spans: list[tuple[int, int]] = []
    for number in range(footer.num_row_groups):
        told = footer.row_group(number).column(place).statistics
        if told is None or not told.has_min_max or (spans and told.min < spans[-1][1]):
            raise ValueError("its ranks are not in order")
        spans.append((told.min, told.max))
    return spans


def _has_one(ranks: Sequence[int], low: int, high: int) -> bool:
    """Whether one of the ranks, which are in order, is in a span."""
    place = bisect_left(ranks, low)
    return place < len(ranks) and ranks[place] <= high


def _size(table: Table, footer: FileMetaData, file_bytes: int, groups: Sequence[int]) -> Size:
    """The size of some groups of rows. Raises `ValueError` for another table, or one that unpacks to too much."""
    kinds = {}
    for number in range(len(footer.schema)):
        column = footer.schema.column(number)
        if column.path == column.name and column.max_repetition_level == 0:
            kinds[column.name] = (column.physical_type, column.converted_type, column.logical_type.type)
    for wanted in table.columns:
        if wanted.name not in kinds:
            raise ValueError(f"it has no column {wanted.name}")
        if kinds[wanted.name] not in _STORED[wanted.type]:
            raise ValueError(f"its column {wanted.name} is not {wanted.type}")
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
        raise ValueError(f"it would unpack to {rows:,} rows, which no table of {file_bytes:,} bytes has")
    if unpacked > most_bytes(file_bytes):
        raise ValueError(f"it would unpack to {unpacked:,} bytes, which no table of {file_bytes:,} bytes does")
    return Size(packed, rows, texts)


def _check_keys(
    table: Table, file: ParquetFile, groups: Sequence[int], spans: Sequence[tuple[int, int]] | None
) -> None:
    """Raises `ValueError` if two rows of a rank have the same key. Takes a few milliseconds for 100,000 rows.

    Of a file of several ranks, those groups of rows are looked at together that have rows of one rank.
    """
    key = _KEYS.get(table.name, [])
    if table.columns[0].name == "event_id" and table.name not in _SEVERAL:
        key = ["event_id"]
    if not key or file.metadata.num_rows < _FEW_ROWS:
        return
    together: list[list[int]] = []
    for number in groups:
        if together and (spans is None or spans[number][0] == spans[together[-1][-1]][1]):
            together[-1].append(number)
        else:
            together.append([number])
    columns = key if spans is None else ["rank", *key]
    for some in together:
        found = pl.DataFrame(file.read_row_groups(some, columns=columns))
        if spans is not None and len(some) == 1 and spans[some[0]][0] == spans[some[0]][1]:
            found = found.select(key)  # of one rank, as the file says
        unique = found.to_series().n_unique() if found.width == 1 else found.n_unique()
        if unique < found.height:
            raise ValueError(f"two of its rows have the same {' and '.join(key)}")


def most_rows(file_bytes: int) -> int:
    """How many rows a file may have."""
    return _ROWS + _ROWS_PER_BYTE * file_bytes


def most_bytes(file_bytes: int) -> int:
    """How many bytes a file may unpack to."""
    return _UNPACKED + _UNPACKED_PER_BYTE * file_bytes


def _first_line(error: Exception) -> str:
    return str(error.args[0] if error.args else error).partition("\n")[0]
