"""Baseline files: the measurements of runs, so the runs themselves can be deleted."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotline_analysis.atomic import check_file, path_of, replace_file
from hotline_analysis.errors import HotlineError
from hotline_analysis.gating.measure import Measured

KIND = "hotline-baseline"
VERSION = 1
_MOST_VALUES = 10_000_000  # 100 MB
_HINT = "`hotline baseline RUN... -o FILE` writes a baseline."


def write_baseline(runs: Sequence[Measured], path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the measurements of runs to a JSON file, the oldest run first.

    Raises `ExportExistsError` if the file exists and `overwrite` is false, and `HotlineError` for too many values.
    """
    size = sum(len(run.values) * run.step_count for run in runs)
    if size > _MOST_VALUES:
        raise HotlineError(
            f"a baseline of these runs would have {size:,} values; the maximum is {_MOST_VALUES:,}",
            hint="Record fewer steps, or give `hotline gate` the runs themselves.",
        )
    content = {
        "kind": KIND,
        "schema_version": VERSION,
        "units": {"times": "ns", "memory_peak": "bytes", "mfu": "%"},
        "runs": [
            {"name": run.name, "identity": dict(run.identity), "values": _rounded(run), "kinds": list(run.kinds)}
            for run in runs
        ],
    }
    target = path_of(path)
    check_file(target, overwrite=overwrite)
    replace_file(target, lambda file: file.write_text(json.dumps(content) + "\n", encoding="utf-8"))
    return target


def _rounded(run: Measured) -> dict[str, list[float]]:
    return {
        metric: [round(value, 6 if run.unit(metric) == "%" else 0) for value in values]
        for metric, values in run.values.items()
    }


def read_baseline(path: str | Path) -> list[Measured]:
    """Read the runs of a baseline file. Raises `HotlineError` for an invalid file, or for a different version."""
    file = Path(path)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise HotlineError(f"{file} cannot be read: {error.strerror}", hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise HotlineError(f"{file} is not a baseline: the file is not JSON", hint=_HINT) from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise HotlineError(f"{file} is not a baseline", hint=_HINT)
    if content.get("schema_version") != VERSION:
        raise HotlineError(
            f"{file} has the version {content.get('schema_version')} of baselines, and this hotline knows {VERSION}",
            hint="Measure the runs again.",
        )
    try:
        runs = [_run(entry) for entry in content["runs"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HotlineError(f"{file} is a damaged baseline", hint=_HINT) from error
    return runs


def _run(given: Any) -> Measured:
    values = {str(name): [float(value) for value in numbers] for name, numbers in given["values"].items()}
    if not all(math.isfinite(value) for numbers in values.values() for value in numbers):
        raise ValueError("a value is not finite")
    identity = {str(key): str(value) for key, value in given["identity"].items()}
    kinds = [int(kind) for kind in given.get("kinds", ())]
    return Measured(str(given["name"]), identity, values, kinds)


def is_baseline(name: str) -> bool:
    """Whether a file is a baseline. Traces are JSON files, too."""
    file = Path(name)
    if file.suffix != ".json" or not file.is_file():
        return False
    with file.open("rb") as stream:
        return KIND.encode() in stream.read(100)
