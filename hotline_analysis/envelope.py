"""The envelope of every JSON answer: tool, runs, units, warnings and truncation.

The schema is `schemas/envelope.json`. A change that breaks a reader increases `SCHEMA_VERSION`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import polars as pl

    from hotline_analysis.catalog import Column

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).parent / "schemas" / "envelope.json"
"""The JSON Schema of all envelopes."""
_UNITS = {"ns": "ns", "bytes": "bytes", "pct": "%", "us": "us", "mb": "MB"}
_RATES = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s"}


_JSON_TYPES = {
    **dict.fromkeys(("BIGINT", "INTEGER"), "integer"),
    **{"DOUBLE": "number", "VARCHAR": "string", "BOOLEAN": "boolean", "STRUCT": "object"},
}


class Run(Protocol):
    """An open run, a `Trace`."""

    path: Path
    manifest: Mapping[str, Any]


def envelope(
    kind: str,
    content: Mapping[str, Any],
    *,
    runs: Sequence[Run] = (),
    warnings: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Put the content into an envelope. The keys of the content are next to the keys of the envelope."""
    from importlib.metadata import version

    noted = [text for run in runs for text in run.manifest["warnings"]]
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "tool": {"name": "hotline_analysis", "version": version("hotline-analysis")},
        "runs": [identity(run) for run in runs],
        "warnings": list(dict.fromkeys([*noted, *warnings])),
        "units": dict(units or {}),
        **{key: plain(value) for key, value in content.items()},
    }


def rows_envelope(
    frame: pl.DataFrame,
    *,
    query: str = "",
    parameters: Mapping[str, object] | None = None,
    runs: Sequence[Run] = (),
    warnings: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> dict[str, Any]:
    """Put rows into an envelope. `columns`, `limit` and `offset` select a part; `truncation` describes the rest."""
    chosen = frame if columns is None else frame.select(columns)
    part = chosen.slice(offset, limit)
    content = {
        "query": {"name": query, "parameters": dict(parameters or {})},
        "columns": [{"name": name, "type": str(kind)} for name, kind in chosen.schema.items()],
        "rows": part.to_dicts(),
        "truncation": {
            "total": chosen.height,
            "offset": offset,
            "returned": part.height,
            "is_truncated": offset + part.height < chosen.height,
        },
    }
    return envelope("rows", content, runs=runs, warnings=warnings, units=units_of(chosen.columns))


def answer_schema(name: str, columns: Sequence[Column]) -> dict[str, Any]:
    """The JSON Schema of an answer's envelope: `SCHEMA`, with the type and meaning of each column.

    Each value may be null.
    """
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    query = {"properties": {"name": {"const": name}}}
    row = {
        "type": "object",
        "required": [column.name for column in columns],
        "additionalProperties": False,
        "properties": {
            column.name: {"description": column.description, **_json_type(column.type)} for column in columns
        },
    }
    schema["title"] = f"The answer {name} of hotline in JSON"
    schema["properties"] |= {"kind": {"const": "rows"}, "query": query, "rows": {"type": "array", "items": row}}
    return schema


def _json_type(type_: str) -> dict[str, Any]:
    """The JSON type of a DuckDB type, or null."""
    if type_.endswith("[]"):
        return {"type": ["array", "null"], "items": _json_type(type_.removesuffix("[]"))}
    return {"type": [_JSON_TYPES[type_], "null"]}


def identity(run: Run) -> dict[str, Any]:
    """The identity of a run: name, ranks and files, and an id independent of the run's location.

    Runs of the same program have equal file names and often the same number of events, but differ in recording time.
    """
    parts = [{name: part[name] for name in ("rank", "file", "event_count")} for part in run.manifest["parts"]]
    times = [[part.get("start_ns"), part.get("end_ns")] for part in run.manifest["parts"]]
    digest = hashlib.sha256(json.dumps([parts, times], sort_keys=True).encode()).hexdigest()[:16]
    return {"name": run.path.name, "id": digest, "parts": parts}


def units_of(names: Sequence[str]) -> dict[str, str]:
    """The units in column names. Ids, counts and texts have no unit."""
    found: dict[str, str] = {}
    for name in names:
        rate = next((unit for ending, unit in _RATES.items() if name.endswith(ending)), None)
        unit = rate or _UNITS.get(name.rpartition("_")[2])
        if unit is not None and (unit != "bytes" or not name.endswith("per_bytes")):
            found[name] = unit
    return found


def plain(value: object) -> Any:
    """Convert a value to JSON types. Integers are exact. Numbers without a JSON representation become null.

    A decimal fraction not representable as a double becomes text.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int) else str(value)
