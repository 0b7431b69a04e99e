"""Known GPU models and their vendors' figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import duckdb

from hotline_analysis import catalog
from hotline_analysis.errors import HotlineError
from hotline_analysis.schema import TABLES
from hotline_analysis.text.formats import one_of

Figures = Mapping[str, object]
"""Figures of a model: a row of `rules/gpus.csv`, or of the user's own file."""


def shipped_gpus() -> list[Figures]:
    """The models shipped with the package, in the order in which their names are tried."""
    columns = {column.name for column in TABLES["gpu_given"].columns}
    return [{name: row[name] for name in columns if name in row} for row in catalog.rules()["gpus"].to_pylist()]


def named_gpu(gpu: str, rows: Sequence[Figures] = ()) -> Figures:
    """The figures of a GPU, by model or by its name in a trace. The user's own `rows` come first.

    Raises HotlineError with suggestions for an unknown name.
    """
    known = [*rows, *shipped_gpus()]
    for row in known:
        if str(row["model"]).casefold() == gpu.casefold():
            return row
    matches = duckdb.execute(
        "select list_transform($patterns, lambda pattern: coalesce(regexp_matches($name, '(?i)' || pattern), false))",
        {"patterns": [row["name_pattern"] for row in known], "name": gpu},
    ).fetchall()[0][0]
    for row, matched in zip(known, matches, strict=True):
        if matched:
            return row
    models = [str(row["model"]) for row in known]
    folded = {model.casefold(): model for model in models}
    close = [model for model in models if gpu.casefold() in model.casefold()] if gpu.strip() else []
    close = close or [folded[name] for name in get_close_matches(gpu.casefold(), folded, n=4, cutoff=0.5)]
    hint = "Give its figures with gpus (--gpus FILE); `hotline schema gpu_given` lists them."
    if close:
        hint = f"Did you mean {one_of(list(dict.fromkeys(close)))}? Else give its figures with gpus (--gpus FILE)."
    raise HotlineError(f"there is no GPU {gpu!r} in the table of GPUs", hint=hint)
