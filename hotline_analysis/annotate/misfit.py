"""Whether a model that was placed on a trace is the one that ran there; if not, an error tells where they part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hotline_analysis.annotate.align import Alignment, Symbols
from hotline_analysis.annotate.model import Model
from hotline_analysis.annotate.rows import Found, Items, Rows
from hotline_analysis.errors import ModelMismatchError

LEAST = 0.5  # of a model's parts must be found in a stretch of forward, or it is not this model that runs there
LEAST_OF_WEIGHT = 0.75  # the same, of its modules with parameters, which do not vanish as a dropout may
_LEFT_OVER = 0.4  # of the ops that look like modules with parameters may be none of the model's
_USED_AGAIN = 0.3  # of the first uses of a parameter may be a later call of a module that has run before


@dataclass(frozen=True)
class FirstUses:
    """Ops that hand on the gradient of a parameter, and in which backward pass: that of its first use."""

    event: Symbols
    number: Symbols


def check_fit(model: Model, items: Items, rows: Rows, windows: list[Symbols], found: Found, uses: FirstUses) -> None:
    """Raise `ModelMismatchError` if too little of the model was found, or too much else."""
    if not found.items or not _enough(rows, np.concatenate(found.rows)):
        raise _too_little(model, items, rows, windows)
    _check_left_over(model, items, rows, windows, found, uses)
    _check_first_uses(model, items, rows, found, uses)


def _enough(rows: Rows, found: Symbols) -> bool:
    """Whether enough of the model was found in all, where each stretch has only a part of it."""
    if rows.is_registered:
        return True
    seen = np.unique(found)
    rates = ((~rows.is_optional, LEAST), (rows.of_weight, LEAST_OF_WEIGHT))
    return all(np.count_nonzero(kind[seen]) >= least * np.count_nonzero(kind) for kind, least in rates)


def _too_little(model: Model, items: Items, rows: Rows, windows: list[Symbols]) -> ModelMismatchError:
    best: tuple[int, Alignment, Symbols] | None = None
    for window in windows:
        alignment = rows.aligner.align(rows.symbol, items.name[window])
        count = int(np.count_nonzero(alignment.first >= 0))
        if best is None or count > best[0]:
            best = count, alignment, window
    path, kind = (model.modules.column(name).to_pylist() for name in ("path", "type"))
    if best is None:
        return ModelMismatchError(f"{model.source} does not fit: the trace has no ops of a forward pass")
    count, alignment, window = best
    if count == len(rows.symbol):
        return ModelMismatchError(
            f"{model.source} does not fit the trace: all {count} parts of the model are found, but not in passes of it",
            hint="Is each module listed as often as it runs in one pass of the model?",
        )
    missing = int(np.flatnonzero(alignment.first < 0)[0])
    module = int(rows.module[missing])
    before = alignment.first[:missing]
    after = int(before.max()) + 1 if len(before) and before.max() >= 0 else 0
    place = (
        f"where the trace has {items.names[items.name[window[after]]]} (event {items.event[window[after]]})"
        if after < len(window)
        else "where the trace has no more ops"
    )
    return ModelMismatchError(
        f"{model.source} does not fit the trace: of {len(rows.symbol)} parts of the model {count} are found;"
        f" the first one missing is {path[module]} ({kind[module]}, module {module}), {place}",
        hint="Is it the model that was traced, with its modules in execution order?",
    )


def _check_left_over(
    model: Model, items: Items, rows: Rows, windows: list[Symbols], found: Found, uses: FirstUses
) -> None:
    """A larger model contains a smaller one of its kind: see whether too many ops are left that look like modules.

    Of a captured table, which knows ops and not types, those count that hand on the gradient of a parameter.
    """
    taken = np.zeros(len(items.event), bool)
    taken[np.concatenate(found.items)] = True
    matched = np.concatenate([window for window in windows if taken[window].any()])
    looks_so = np.isin(items.event[matched], uses.event) if rows.is_learned else rows.looks_so[items.name[matched]]
    alike = matched[looks_so]
    free = alike[~taken[alike]]
    if len(free) > _LEFT_OVER * len(alike):
        first = free[np.argmin(items.start[free])]
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {len(free)} of {len(alike)} ops that look like its modules"
            f" belong to none; the first one is {items.names[items.name[first]]} (event {items.event[first]})",
            hint="Is it the model that was traced, with all its modules, or a smaller one?",
        )


def _check_first_uses(model: Model, items: Items, rows: Rows, found: Found, uses: FirstUses) -> None:
    """A module uses its parameters for the first time once in a backward pass: see that no others are taken for it.

    Else a model of a few layers fits any larger one, as if its layers ran again and again.
    """
    position, row = (np.concatenate(part) for part in (found.items, found.rows))
    row_at = np.full(len(items.event), -1, np.int64)
    row_at[position] = np.where(rows.of_weight[row], row, -1)
    by_event = np.argsort(items.event)
    used = by_event[np.searchsorted(items.event, uses.event, sorter=by_event)]
    used, number = used[row_at[used] >= 0], uses.number[row_at[used] >= 0]
    in_time = np.argsort(items.start[used], kind="stable")
    used, number = used[in_time], number[in_time]
    _, once = np.unique(np.stack((number, row_at[used])), axis=1, return_index=True)
    again = np.delete(used, once)
    if len(again) > _USED_AGAIN * len(used):
        module = int(rows.module[row_at[again[0]]])
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {len(again)} of {len(used)} ops that look like its modules have"
            f" parameters of their own, but could only be further calls; the first one is"
            f" {items.names[items.name[again[0]]]} (event {items.event[again[0]]}), where"
            f" {model.modules.column('path')[module].as_py()} (module {module}) has run before",
            hint="Is it the model that was traced, with all its modules, or a smaller one?",
        )
