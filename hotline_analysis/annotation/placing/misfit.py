"""Whether a model that was placed on a trace is the one that ran there; if not, an error tells where they part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hotline_analysis.annotation.align import Alignment
from hotline_analysis.annotation.model_file import Model
from hotline_analysis.annotation.placing.indices import EventIds, ItemIndices, PassNumbers, RowIndices
from hotline_analysis.annotation.placing.rows import MAIN, Flags, Found, Items, Rows
from hotline_analysis.errors import ModelMismatchError

LEAST = 0.5  # of a model's parts must be found in a stretch of forward, or it is not this model that runs there
LEAST_HEAVY = 0.75  # the same, of its modules with parameters, which do not vanish as a dropout may
_MISSING = 10  # of so many modules with parameters, one may be found nowhere, and one in any case
_LEFT_OVER = 0.4  # of the ops that look like modules with parameters may be none of the model's
_USED_AGAIN = 0.3  # of the first uses of a parameter may be a later call of a module that has run before
_DOUBTFUL = 0.05  # if more of its modules with parameters are missing (one may be), all places are doubtful
_DOUBTFUL_LIGHT = 0.1  # the same for modules without parameters
_DOUBTFUL_LEFT_OVER = 0.1  # the same for ops left over that look like layers; _DOUBTFUL for a captured table
ORDER_HINT = (
    "Is it the model that was traced, with its modules in execution order?"
    " `hotline_analysis.model_ops(model, *inputs).save(path)` writes such a file."
)


@dataclass(frozen=True)
class FirstUses:
    """Forward ops that use a parameter for the first time, and the backward pass (`pass_ns`) that adds its gradient."""

    event: EventIds
    number: PassNumbers


def check_fit(
    model: Model, items: Items, rows: Rows, windows: list[ItemIndices], found: Found, uses: FirstUses
) -> str | None:
    """Raise `ModelMismatchError` if too little of the model was found, or too much else.

    If a little is missing or left, say what: the list may lack modules, or be that of a model of the same kind.
    """
    if not found.items:
        raise _too_little(model, items, rows, windows)
    seen = _seen(items, rows, found, uses)
    if not _enough(rows, seen, has_backward=bool(len(uses.event))):
        raise _too_little(model, items, rows, windows, seen)
    doubts = _check_left_over(model, items, rows, windows, found, uses)
    _check_first_uses(model, items, rows, found, uses)
    return None if rows.is_registered else _partly(model, rows, seen) or doubts


def _seen(items: Items, rows: Rows, found: Found, uses: FirstUses) -> Flags:
    """By row: whether it was found, or what it is a part of runs as a whole.

    In a pass with backward, a weak match to a module with parameters does not count unless the op receives a parameter
    gradient.
    """
    row, item, number = (np.concatenate(part) for part in (found.rows, found.items, found.passes))
    weights = rows.aligner.weights
    most = weights.max(axis=1, initial=0)[rows.symbol]
    is_weak = rows.is_heavy[row] & (weights[rows.symbol[row], items.name[item]] < most[row])
    is_use = np.isin(items.event[item], uses.event)
    is_trained = np.bincount(number, is_use)[number] > 0
    seen = np.zeros(len(rows.symbol), bool)
    seen[row[~(is_weak & is_trained & ~is_use)]] = True
    seen |= rows.replaced(seen & rows.is_whole)
    return seen


def _enough(rows: Rows, seen: Flags, *, has_backward: bool) -> bool:
    """Whether enough of the model was found in all, where each stretch has only a part of it.

    Without a backward pass, the trace may end before the model does.
    """
    if rows.is_registered:
        return True
    with_parameters = int(np.count_nonzero(rows.has_parameters))
    missing = with_parameters - int(np.count_nonzero(rows.has_parameters & seen))
    rates = ((~rows.is_optional, LEAST), (rows.is_heavy, LEAST_HEAVY))
    found = all(np.count_nonzero(kind & seen) >= least * np.count_nonzero(kind) for kind, least in rates)
    return found and (not has_backward or missing <= max(1, with_parameters // _MISSING))


def _partly(model: Model, rows: Rows, seen: Flags) -> str | None:
    """What is missing of a model, if that is more than a few of its modules."""
    with_parameters = rows.has_parameters | rows.is_unseen
    has_op = rows.aligner.weights.max(axis=1, initial=0)[rows.symbol] >= MAIN
    light = ~rows.is_optional & ~with_parameters & has_op & (not rows.is_learned)
    kinds = ((with_parameters, "modules with parameters", _DOUBTFUL), (light, "other modules", _DOUBTFUL_LIGHT))
    for kind, what, limit in kinds:
        missing = np.flatnonzero(kind & ~seen)
        if len(missing) > max(1.0, limit * np.count_nonzero(kind)):
            first = int(rows.module[missing[0]])
            path, type_name = (model.modules.column(name)[first].as_py() for name in ("path", "type"))
            return (
                f"lacks {len(missing)} of {np.count_nonzero(kind)} {what} of {model.source}, the first one is"
                f" {path} ({type_name}, module {first})"
            )
    return None


def _too_little(
    model: Model, items: Items, rows: Rows, windows: list[ItemIndices], seen: Flags | None = None
) -> ModelMismatchError:
    best: tuple[int, Alignment, ItemIndices] | None = None
    for window in windows:
        alignment = rows.aligner.align(rows.symbol, items.name[window])
        count = int(np.count_nonzero(alignment.first >= 0))
        if best is None or count > best[0]:
            best = count, alignment, window
    path, kind = (model.modules.column(name).to_pylist() for name in ("path", "type"))
    if best is None:
        return ModelMismatchError(f"{model.source} does not fit: the trace has no ops of a forward pass")
    _, alignment, window = best
    places = alignment.first if seen is None else np.where(seen, alignment.first, -1)
    needed = np.flatnonzero(~rows.is_optional)
    count = int(np.count_nonzero(places[needed] >= 0))
    if count == len(needed):
        return ModelMismatchError(
            f"{model.source} does not fit the trace: all {count} parts of the model are found, but not in passes of it",
            hint="Is each module listed as often as it runs in one pass of the model?",
        )
    missing = int(needed[places[needed] < 0][0])
    module = int(rows.module[missing])
    before = places[:missing]
    after = int(before.max()) + 1 if len(before) and before.max() >= 0 else 0
    place = (
        f"where the trace has {items.names[items.name[window[after]]]} (event {items.event[window[after]]})"
        if after < len(window)
        else "where the trace has no more ops"
    )
    return ModelMismatchError(
        f"{model.source} does not fit the trace: of {len(needed)} parts of the model {count} are found;"
        f" the first one missing is {path[module]} ({kind[module]}, module {module}), {place}",
        hint=ORDER_HINT,
    )


def _check_left_over(
    model: Model, items: Items, rows: Rows, windows: list[ItemIndices], found: Found, uses: FirstUses
) -> str | None:
    """A larger model contains a smaller one of its kind: see whether too many ops are left that look like modules.

    For a captured table, which knows ops and not types, the ops that use a parameter for the first time count. Any
    other list may leave out a kind of layer; unless that is a norm, it is a reason to doubt.
    """
    taken = np.zeros(len(items.event), bool)
    taken[np.concatenate(found.items)] = True
    matched = np.concatenate([window for window in windows if taken[window].any()])
    is_use = np.isin(items.event[matched], uses.event)
    name = items.name[matched]
    is_norm = np.array(["norm" in name for name in items.names], bool)
    looks_heavy = is_use if rows.is_learned else rows.looks_heavy[name]
    alike = matched[looks_heavy]
    if np.count_nonzero(~taken[alike]) > _LEFT_OVER * len(alike):
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {_left(items, alike, taken)}",
            hint="Is it the model that was traced, with all its modules, or a smaller one?",
        )
    alike = matched[looks_heavy | (is_use & (rows.uses_parameters & ~is_norm)[name])]
    limit = _DOUBTFUL if rows.is_learned else _DOUBTFUL_LEFT_OVER
    if np.count_nonzero(~taken[alike]) > max(found.next_pass, limit * len(alike)):
        return f"has more layers than {model.source}: {_left(items, alike, taken)}"
    return None


def _left(items: Items, alike: ItemIndices, taken: Flags) -> str:
    free = alike[~taken[alike]]
    first = free[np.argmin(items.start[free])]
    return (
        f"{len(free)} of {len(alike)} ops that look like modules with parameters belong to none; the first one is"
        f" {items.names[items.name[first]]} (event {items.event[first]})"
    )


@dataclass(frozen=True)
class _Used:
    """First uses of parameters that were taken for modules, in order of time, as positions in the items and rows."""

    item: ItemIndices
    row: RowIndices
    number: PassNumbers  # of the backward pass
    is_again: Flags  # the module has used its parameters for the first time before in this pass


def _used(items: Items, rows: Rows, found: Found, uses: FirstUses) -> _Used:
    position, row = (np.concatenate(part) for part in (found.items, found.rows))
    row_at = np.full(len(items.event), -1, np.int64)
    row_at[position] = np.where(rows.is_heavy[row], row, -1)
    by_event = np.argsort(items.event)
    used = by_event[np.searchsorted(items.event, uses.event, sorter=by_event)]
    used, number = used[row_at[used] >= 0], uses.number[row_at[used] >= 0]
    in_time = np.argsort(items.start[used], kind="stable")
    used, number = used[in_time], number[in_time]
    is_again = np.ones(len(used), bool)
    is_again[np.unique(np.stack((number, row_at[used])), axis=1, return_index=True)[1]] = False
    return _Used(used, row_at[used], number, is_again)


def contradicted(items: Items, rows: Rows, found: Found, uses: FirstUses) -> Flags:
    """Which matches, in the order of `found`, contradict each other: first uses by one module in one backward pass.

    One of them may be right, but which?
    """
    used = _used(items, rows, found, uses)
    _, kind = np.unique(np.stack((used.number, used.row)), axis=1, return_inverse=True)
    is_one = np.zeros(len(items.event), bool)
    is_one[used.item[np.bincount(kind.reshape(-1), used.is_again)[kind.reshape(-1)] > 0]] = True
    return is_one[np.concatenate(found.items)]


def _check_first_uses(model: Model, items: Items, rows: Rows, found: Found, uses: FirstUses) -> None:
    """Check that few modules seem to use their parameters for the first time twice in one backward pass.

    Else a model of a few layers fits any larger one, as if its layers ran again and again.
    """
    used = _used(items, rows, found, uses)
    again = used.item[used.is_again]
    if len(again) > _USED_AGAIN * len(used.item):
        module = int(rows.module[used.row[used.is_again][0]])
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {len(again)} of {len(used.item)} ops that look like its modules"
            f" have parameters of their own, but could only be further calls; the first one is"
            f" {items.names[items.name[again[0]]]} (event {items.event[again[0]]}), where"
            f" {model.modules.column('path')[module].as_py()} (module {module}) has run before",
            hint="Is it the model that was traced, with all its modules, or a smaller one?",
        )
