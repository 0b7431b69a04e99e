"""Check whether a placed model is the model in the trace. If it is not, an error names the first difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hotline_analysis.annotation.align import Alignment
from hotline_analysis.annotation.model_file import Model
from hotline_analysis.annotation.placing.indices import EventIds, ItemIndices, PassNumbers, RowIndices
from hotline_analysis.annotation.placing.rows import MAIN, Flags, Found, Items, Rows
from hotline_analysis.errors import ModelMismatchError

LEAST = 0.5  # minimum share of a model's parts found in a stretch of forward
LEAST_HEAVY = 0.75  # the same for modules with parameters, which never vanish, unlike a dropout
_MISSING = 10  # missing modules with parameters: one per this many is allowed, but always one
_LEFT_OVER = 0.4  # maximum share of ops that look like modules with parameters but match none
_USED_AGAIN = 0.3  # maximum share of first uses of parameters in repeated calls of a module
_DOUBTFUL = 0.05  # with a larger share of missing modules with parameters (beyond one), all places are doubtful
_DOUBTFUL_LIGHT = 0.1  # the same for modules without parameters
_DOUBTFUL_LEFT_OVER = 0.1  # the same for unmatched ops that look like layers; _DOUBTFUL for a captured table
ORDER_HINT = (
    "Is this the traced model, with modules in execution order?"
    " `hotline_analysis.model_ops(model, *inputs).save(path)` writes a suitable file."
)


@dataclass(frozen=True)
class FirstUses:
    """Forward ops that use a parameter for the first time, and the backward pass (`pass_ns`) that adds its gradient."""

    event: EventIds
    number: PassNumbers


def check_fit(
    model: Model,
    items: Items,
    rows: Rows,
    windows: list[ItemIndices],
    found: Found,
    uses: FirstUses,
    *,
    counted: Flags | None = None,
    is_alone: bool = True,
) -> str | None:
    """Raise `ModelMismatchError` if too little of the model was found, or if too many ops were left over.

    For a small difference, return a description: the list may lack modules, or belong to a different model of the same
    kind. Only `counted` rows have to be found, and only a model that `is_alone` has to explain most ops.
    """
    if not found.items:
        raise _too_little(model, items, rows, windows)
    seen = _seen(items, rows, found, uses)
    if counted is not None:
        seen |= ~counted
    if not _enough(rows, seen, has_backward=bool(len(uses.event))):
        raise _too_little(model, items, rows, windows, seen)
    doubts = _check_left_over(model, items, rows, windows, found, uses) if is_alone else None
    _check_first_uses(model, items, rows, found, uses)
    return None if rows.is_registered else _partly(model, rows, seen) or doubts


def _seen(items: Items, rows: Rows, found: Found, uses: FirstUses) -> Flags:
    """By row: whether the row was found, or belongs to a module that runs as a whole.

    In a pass with backward, a weak match to a module with parameters does not count unless the op receives a parameter
    gradient.
    """
    row, item, number = (np.concatenate(part) for part in (found.rows, found.items, found.passes))
    weights = rows.aligner.weights
    best_weight = weights.max(axis=1, initial=0)[rows.symbol]
    is_weak = rows.is_heavy[row] & (weights[rows.symbol[row], items.name[item]] < best_weight[row])
    is_use = np.isin(items.event[item], uses.event)
    is_trained = np.bincount(number, is_use)[number] > 0
    seen = np.zeros(len(rows.symbol), bool)
    seen[row[~(is_weak & is_trained & ~is_use)]] = True
    seen |= rows.replaced(seen & rows.is_whole)
    return seen


def _enough(rows: Rows, seen: Flags, *, has_backward: bool) -> bool:
    """Whether enough of the model was found overall, if each stretch has only a part of the model.

    Without a backward pass, the trace may end before the model does.
    """
    if rows.is_registered:
        return True
    with_parameters = int(np.count_nonzero(rows.has_parameters))
    missing_count = with_parameters - int(np.count_nonzero(rows.has_parameters & seen))
    rates = ((~rows.is_optional, LEAST), (rows.is_heavy, LEAST_HEAVY))
    has_enough = all(np.count_nonzero(kind & seen) >= least * np.count_nonzero(kind) for kind, least in rates)
    return has_enough and (not has_backward or missing_count <= max(1, with_parameters // _MISSING))


def _partly(model: Model, rows: Rows, seen: Flags) -> str | None:
    """Describe the missing modules, if more than a few are missing."""
    with_parameters = rows.has_parameters | rows.is_unseen
    has_op = rows.aligner.weights.max(axis=1, initial=0)[rows.symbol] >= MAIN
    light = ~rows.is_optional & ~with_parameters & has_op & (not rows.is_learned)
    kinds = ((with_parameters, "modules with parameters", _DOUBTFUL), (light, "other modules", _DOUBTFUL_LIGHT))
    for kind, noun, limit in kinds:
        missing_rows = np.flatnonzero(kind & ~seen)
        if len(missing_rows) > max(1.0, limit * np.count_nonzero(kind)):
            first = int(rows.module[missing_rows[0]])
            path, type_name = (model.modules.column(name)[first].as_py() for name in ("path", "type"))
            return (
                f"lacks {len(missing_rows)} of {np.count_nonzero(kind)} {noun} of {model.source}, the first one is"
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
    columns = alignment.first if seen is None else np.where(seen, alignment.first, -1)
    needed_rows = np.flatnonzero(~rows.is_optional)
    count = int(np.count_nonzero(columns[needed_rows] >= 0))
    if count == len(needed_rows):
        return ModelMismatchError(
            f"{model.source} does not fit the trace: all {count} parts of the model are found, but not as whole passes",
            hint="List each module as often as the module runs in one pass of the model.",
        )
    missing_row = int(needed_rows[columns[needed_rows] < 0][0])
    module = int(rows.module[missing_row])
    earlier = columns[:missing_row]
    next_column = int(earlier.max()) + 1 if len(earlier) and earlier.max() >= 0 else 0
    clause = (
        f"where the trace has {items.names[items.name[window[next_column]]]} (event {items.event[window[next_column]]})"
        if next_column < len(window)
        else "where the trace has no more ops"
    )
    return ModelMismatchError(
        f"{model.source} does not fit the trace: of {len(needed_rows)} parts of the model {count} are found;"
        f" the first missing part is {path[module]} ({kind[module]}, module {module}), {clause}",
        hint=ORDER_HINT,
    )


def _check_left_over(
    model: Model, items: Items, rows: Rows, windows: list[ItemIndices], found: Found, uses: FirstUses
) -> str | None:
    """Check for too many left-over ops that look like modules: a larger model contains a smaller one of the same kind.

    A captured table knows ops but not types, so ops that use a parameter for the first time count. Any other list may
    omit a kind of layer. Unless that kind is a norm, this is a reason to doubt.
    """
    is_taken = np.zeros(len(items.event), bool)
    is_taken[np.concatenate(found.items)] = True
    window_items = np.concatenate([window for window in windows if is_taken[window].any()])
    is_use = np.isin(items.event[window_items], uses.event)
    name = items.name[window_items]
    is_norm = np.array(["norm" in name for name in items.names], bool)
    looks_heavy = is_use if rows.is_learned else rows.looks_heavy[name]
    module_like = window_items[looks_heavy]
    if np.count_nonzero(~is_taken[module_like]) > _LEFT_OVER * len(module_like):
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {_left(items, module_like, is_taken)}",
            hint="Is this the traced model with all modules, or a smaller model?",
        )
    module_like = window_items[looks_heavy | (is_use & (rows.uses_parameters & ~is_norm)[name])]
    limit = _DOUBTFUL if rows.is_learned else _DOUBTFUL_LEFT_OVER
    if np.count_nonzero(~is_taken[module_like]) > max(found.next_pass, limit * len(module_like)):
        return f"has more layers than {model.source}: {_left(items, module_like, is_taken)}"
    return None


def _left(items: Items, alike: ItemIndices, taken: Flags) -> str:
    free_items = alike[~taken[alike]]
    first = free_items[np.argmin(items.start[free_items])]
    return (
        f"{len(free_items)} of {len(alike)} ops that look like modules with parameters belong to no module; the first"
        f" op is {items.names[items.name[first]]} (event {items.event[first]})"
    )


@dataclass(frozen=True)
class _Used:
    """First uses of parameters matched to modules, in time order, as positions in the items and rows."""

    item: ItemIndices
    row: RowIndices
    number: PassNumbers  # of the backward pass
    is_again: Flags  # the module already had a first use of its parameters in this pass


def _used(items: Items, rows: Rows, found: Found, uses: FirstUses) -> _Used:
    position, row = (np.concatenate(part) for part in (found.items, found.rows))
    row_at = np.full(len(items.event), -1, np.int64)
    row_at[position] = np.where(rows.is_heavy[row], row, -1)
    by_event = np.argsort(items.event)
    item = by_event[np.searchsorted(items.event, uses.event, sorter=by_event)]
    item, number = item[row_at[item] >= 0], uses.number[row_at[item] >= 0]
    in_time = np.argsort(items.start[item], kind="stable")
    item, number = item[in_time], number[in_time]
    is_again = np.ones(len(item), bool)
    is_again[np.unique(np.stack((number, row_at[item])), axis=1, return_index=True)[1]] = False
    return _Used(item, row_at[item], number, is_again)


def contradicted(items: Items, rows: Rows, found: Found, uses: FirstUses) -> Flags:
    """Flag contradictory matches, in the order of `found`: several first uses by one module in one backward pass.

    At most a single match is right, but the data does not show the right match.
    """
    first_uses = _used(items, rows, found, uses)
    _, kind = np.unique(np.stack((first_uses.number, first_uses.row)), axis=1, return_inverse=True)
    is_one = np.zeros(len(items.event), bool)
    is_one[first_uses.item[np.bincount(kind.reshape(-1), first_uses.is_again)[kind.reshape(-1)] > 0]] = True
    return is_one[np.concatenate(found.items)]


def _check_first_uses(model: Model, items: Items, rows: Rows, found: Found, uses: FirstUses) -> None:
    """Check that few modules seem to use their parameters for the first time twice in one backward pass.

    Otherwise a model of a few layers would fit any larger model, as if its layers ran repeatedly.
    """
    first_uses = _used(items, rows, found, uses)
    repeated_items = first_uses.item[first_uses.is_again]
    if len(repeated_items) > _USED_AGAIN * len(first_uses.item):
        module = int(rows.module[first_uses.row[first_uses.is_again][0]])
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {len(repeated_items)} of {len(first_uses.item)} ops similar to"
            f" the model's modules have their own parameters, but could only be further calls; the first op is"
            f" {items.names[items.name[repeated_items[0]]]} (event {items.event[repeated_items[0]]}), where"
            f" {model.modules.column('path')[module].as_py()} (module {module}) has run before",
            hint="Is this the traced model with all modules, or a smaller model?",
        )
