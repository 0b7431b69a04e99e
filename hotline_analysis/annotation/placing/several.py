"""Place several models on a trace without module information: the model and module of each op.

During capture, the ops of a forward pass of each model were recorded. If a thread runs exactly these ops in sequence,
the sequence is a candidate pass of the model. Among all ways to cover the ops by candidate passes, the search takes the
one that covers the most ops. Ties are resolved by the order of the models during capture, because two models of one
class run the same ops. The remaining ops may be a pass with a different control flow, so each model is aligned with
them. A model without a recorded pass is searched for in the rest by its module types.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from hotline_analysis.annotation.model_file import Model, Root
from hotline_analysis.annotation.placing.indices import (
    Integers,
    ItemIndices,
    ModuleId,
    ModuleIds,
    NameCodes,
    RowIndex,
    Symbols,
)
from hotline_analysis.annotation.placing.match import Forward, Pass, Placed, Search, find, placed, read_forward
from hotline_analysis.annotation.placing.misfit import LEAST, LEAST_HEAVY
from hotline_analysis.annotation.placing.rows import SURE, UNSURE, Flags, Found, Rows, learned_rows, typed_rows
from hotline_analysis.errors import ModelMismatchError

# Maximum cost, in ops, of a pass out of the recorded order. A model with fewer ops, such as a single layer, is then not
# accepted there. A skipped call costs one op: the call may have run with a different control flow. A step may begin
# with any call, but most likely with the first.
_OUT_OF_ORDER = 3
_NOT_FIRST = 1
# Minimum share of matched ops in a pass with a different control flow, relative to the recorded ops and the ops in
# between: at the model's turn in the recorded order, and anywhere else if other passes of the model match exactly. This
# rejects a small model inside the ops of another model.
_LEAST_IN_ORDER = LEAST
_LEAST_ALIKE = 0.9
_STATES = 20_000_000  # maximum passes × calls of a step for a search that considers their order


def match_models(connection: duckdb.DuckDBPyConnection, model: Model) -> Placed:
    """Place several models on the ops of `forward_item`. Raises `ModelMismatchError` if no model fits."""
    forward = read_forward(connection)
    taken = np.zeros(len(forward.items.event), bool)
    unseen_roots = [root for root in model.roots if root.first_op == root.end_op]
    parts: list[Placed] = []
    errors: list[ModelMismatchError] = []
    next_pass = 0
    if len(unseen_roots) < len(model.roots):
        rows = learned_rows(model, forward.items)
        search = _SeenModels(model, forward, rows)
        search.everywhere()
        found = search.found
        try:
            parts.append(
                placed(connection, model, forward, rows, found, counted=search.runs, is_alone=not unseen_roots)
            )
            taken[np.concatenate(found.items)] = True
            next_pass = found.next_pass
        except ModelMismatchError as error:
            errors.append(error)
    for seeking in _compete(
        [_Seeking.of(connection, model, root, forward) for root in unseen_roots], forward, taken, next_pass
    ):
        found = seeking.found
        found.next_pass = next_pass = max(next_pass, found.next_pass)
        try:
            placement = placed(connection, seeking.model, forward, seeking.rows, found, is_alone=False)
        except ModelMismatchError as error:
            errors.append(error)
            continue
        parts.append(_renumbered(placement, seeking.own, len(model.modules)))
        next_pass = found.next_pass
    if not parts:
        raise errors[0]
    return _together(parts)


# --- models with a recorded pass -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Candidate:
    """Consecutive ops that match a pass of one or several models: positions among the ops of a thread."""

    begin: int
    end: int
    roots: tuple[int, ...]
    has_first_use: bool


@dataclass(frozen=True)
class _Chosen:
    """A pass of the model with the number `root`.

    `is_sure` is true if no other model has the same recorded ops, or if the pass is the next call in recorded order.
    """

    candidate: _Candidate
    root: int
    is_sure: bool
    call: int
    """The call's number within the step, if the order is known."""


class _SeenModels:
    """Search for all models with a recorded pass."""

    def __init__(self, model: Model, forward: Forward, rows: Rows) -> None:
        self._forward, self._rows, self._order = forward, rows, model.order
        self._roots = {number: root for number, root in enumerate(model.roots) if root.first_op < root.end_op}
        self._is_first_use = np.isin(forward.items.event, forward.uses.event)
        self._taken = np.zeros(len(forward.items.event), bool)
        self.found = Found()
        self.runs = np.zeros(len(rows.symbol), bool)
        """By row: whether the model of the row runs in the trace."""

    def everywhere(self) -> None:
        """Find passes with exactly the recorded ops, then passes with a different control flow."""
        names = self._forward.items.name
        gaps: list[tuple[ItemIndices, set[int]]] = []
        for window, stretch in _threads(self._forward):
            candidates = _candidates(self._roots, self._rows, names[window], stretch, self._is_first_use[window])
            passes = _covering(candidates, self._order)
            for choice in passes:
                items = window[choice.candidate.begin : choice.candidate.end]
                self._add(choice.root, items, np.arange(len(items)), np.full(len(items), choice.is_sure))
            gaps += [
                (part, missing)
                for gap, missing in _between(window, passes, self._order)
                for part in np.split(gap, np.flatnonzero(np.diff(stretch[np.searchsorted(window, gap)])) + 1)
            ]
        searches = {
            number: Search(
                self._forward.items,
                self._rows.part(RowIndex(root.first_op), RowIndex(root.end_op)),
                self._is_first_use,
                least=_LEAST_IN_ORDER,
            )
            for number, root in self._roots.items()
        }
        as_learned = {number for number, root in self._roots.items() if self.runs[root.first_op]}

        def least(number: int, missing: set[int]) -> float:
            if number in missing:
                return _LEAST_IN_ORDER
            return _LEAST_ALIKE if number in as_learned else LEAST_HEAVY

        while gaps:
            gap, missing = gaps.pop()
            number, best = max(
                ((number, self._passes(search, gap, least(number, missing))) for number, search in searches.items()),
                key=lambda each: sum(len(model_pass.items) for model_pass in each[1]),
            )
            for model_pass in best:
                self._add(number, model_pass.items, model_pass.rows, model_pass.is_sure)
                self._taken[gap[(gap >= model_pass.items.min()) & (gap <= model_pass.items.max())]] = True
            if best:
                gaps += [(gap_part, missing) for gap_part in _gaps(gap, self._taken)]

    def _passes(self, search: Search, gap: ItemIndices, least: float) -> list[Pass]:
        """The passes of a model in a gap with at least the share `least` of the recorded ops."""
        if not _may_fit(search.rows.symbol, self._forward.items.name[gap], least):
            return []
        passes = []
        for model_pass in search.passes(gap):
            length = int(np.count_nonzero((gap >= model_pass.items.min()) & (gap <= model_pass.items.max())))
            if len(model_pass.items) < least * max(length, len(search.rows.symbol)):
                break
            passes.append(model_pass)
        return passes

    def _add(self, number: int, items: ItemIndices, rows: Integers, is_sure: Flags) -> None:
        """Add a pass of a model. `rows` are numbered within the model."""
        root = self._roots[number]
        root_rows = np.arange(root.first_op, root.end_op)
        self.found.roots[self.found.next_pass] = ModuleId(root.module_id)
        self.found.add(
            items, root_rows[rows], self._rows.call[root_rows[rows]], np.where(is_sure, SURE, UNSURE), root_rows
        )
        self.runs[root_rows] = True
        self._taken[items] = True


def _threads(forward: Forward) -> Iterator[tuple[ItemIndices, Integers]]:
    """The items of each thread in time order, and the stretch of each item."""
    items = forward.items
    stretch = np.full(len(items.event), -1, np.int64)
    for number, windows in enumerate(forward.stretches):
        stretch[np.concatenate(windows)] = number
    forward_items = np.flatnonzero(stretch >= 0)
    for thread in np.unique(items.track[forward_items]):
        window = forward_items[items.track[forward_items] == thread]
        yield window, stretch[window]


def _candidates(
    roots: dict[int, Root], rows: Rows, names: NameCodes, stretch: Integers, is_first_use: Flags
) -> list[_Candidate]:
    """All places where the ops of a model run consecutively, ordered by their ends."""
    by_ops: dict[bytes, list[int]] = {}
    for number, root in roots.items():
        by_ops.setdefault(rows.symbol[root.first_op : root.end_op].tobytes(), []).append(number)
    uses = np.concatenate(([0], np.cumsum(is_first_use)))
    candidates = []
    for numbers in by_ops.values():
        root = roots[numbers[0]]
        symbols = rows.symbol[root.first_op : root.end_op]
        begins = _places(symbols, names)
        begins = begins[stretch[begins] == stretch[begins + len(symbols) - 1]]
        candidates += [
            _Candidate(begin, begin + len(symbols), tuple(numbers), bool(uses[begin + len(symbols)] > uses[begin]))
            for begin in begins.tolist()
        ]
    return sorted(candidates, key=lambda each: (each.end, each.begin))


def _places(symbols: Symbols, names: NameCodes) -> Integers:
    """All places where these names occur consecutively."""
    counts = np.bincount(names, minlength=int(symbols.max()) + 1)
    rarest = int(counts[symbols].argmin())
    begins = np.flatnonzero(names == symbols[rarest]) - rarest
    begins = begins[(begins >= 0) & (begins + len(symbols) <= len(names))]
    for number, symbol in enumerate(symbols.tolist()):
        if not len(begins):
            break
        begins = begins[names[begins + number] == symbol]
    return begins


def _covering(candidates: Sequence[_Candidate], order: Sequence[tuple[int, bool]]) -> list[_Chosen]:
    """Passes that do not overlap, cover the most ops, and follow the recorded order of calls.

    This is a Viterbi search (1967). The state is the last pass's call number within the step. Models without a recorded
    order may run anywhere.
    """
    if len(candidates) * len(order) > _STATES:
        order = ()
    count = max(1, len(order))
    called = np.array([root for root, _ in order], np.int64)
    is_trained = np.array([trained for _, trained in order], bool)
    ends = [candidate.end for candidate in candidates]
    start = np.full(count, -_NOT_FIRST, np.int64)
    start[-1] = 0
    best = [start]  # by number of candidates considered: the score by last call
    steps: list[tuple[int, Integers, Integers, Flags]] = []  # candidates before, last call, model, is taken
    for candidate in candidates:
        earlier = bisect_right(ends, candidate.begin, hi=len(best) - 1)
        so_far = best[earlier]
        score, previous, model = _next_calls(candidate, so_far, called, is_trained)
        is_taken = score > best[-1]
        best.append(np.where(is_taken, score, best[-1]))
        steps.append((earlier, previous, model, is_taken))
    state = int(best[-1].argmax())
    choices: list[tuple[_Candidate, int, bool, int]] = []
    number = len(candidates)
    while number:
        earlier, previous, model, is_taken = steps[number - 1]
        if is_taken[state]:
            candidate = candidates[number - 1]
            follows = (state - int(previous[state]) - 1) % count == 0
            is_in_order = len(called) > 0 and follows and int(model[state]) == int(called[state])
            choices.append((candidate, int(model[state]), len(candidate.roots) == 1 or is_in_order, state))
            number, state = earlier, int(previous[state])
        else:
            number -= 1
    return [_Chosen(*choice) for choice in reversed(choices)]


def _next_calls(
    candidate: _Candidate, so_far: Integers, called: Integers, is_trained: Flags
) -> tuple[Integers, Integers, Integers]:
    """For each call of the step that a candidate may be: the score, the previous call, and the model."""
    length = candidate.end - candidate.begin
    count = len(so_far)
    score = np.full(count, np.iinfo(np.int64).min // 2)
    previous, model = np.arange(count), np.full(count, candidate.roots[0])
    free = [root for root in candidate.roots if root not in called]
    if free:
        score, model = so_far + length, np.full(count, free[0])
    if len(called):
        best_call = np.full(count, int(so_far.argmax()))
        value = so_far[best_call] - _OUT_OF_ORDER
        for skipped in reversed(range(_OUT_OF_ORDER)):
            earlier = np.roll(np.arange(count), 1 + skipped)
            is_better = so_far[earlier] - skipped >= value
            best_call = np.where(is_better, earlier, best_call)
            value = np.where(is_better, so_far[earlier] - skipped, value)
        value += length
        value -= np.where(candidate.has_first_use & ~is_trained, _OUT_OF_ORDER, 0)
        is_better = np.isin(called, candidate.roots) & (value > score)
        score = np.where(is_better, value, score)
        previous = np.where(is_better, best_call, previous)
        model = np.where(is_better, called, model)
    return score, previous, model


def _between(
    window: ItemIndices, passes: Sequence[_Chosen], order: Sequence[tuple[int, bool]]
) -> Iterator[tuple[ItemIndices, set[int]]]:
    """The items between the passes of a window, and the models whose calls are missing there."""
    begins = [0, *(choice.candidate.end for choice in passes)]
    ends = [*(choice.candidate.begin for choice in passes), len(window)]
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        missing: set[int] = set()
        if 0 < number < len(passes) and order:
            first, last = passes[number - 1].call, passes[number].call
            missing = {order[call % len(order)][0] for call in range(first + 1, last + len(order) * (last <= first))}
        if begin < end:
            yield window[begin:end], missing


def _gaps(window: ItemIndices, taken: Flags) -> list[ItemIndices]:
    """The runs of items in a window between taken items."""
    free = np.flatnonzero(~taken[window])
    if not len(free):
        return []
    return [window[part] for part in np.split(free, np.flatnonzero(np.diff(free) > 1) + 1)]


def _may_fit(symbols: Symbols, names: NameCodes, least: float) -> bool:
    """Whether the ops, in any order, are enough for a pass."""
    needed_counts = np.bincount(symbols)
    counts = np.bincount(names, minlength=len(needed_counts))[: len(needed_counts)]
    return int(np.minimum(counts, needed_counts).sum()) >= least * len(symbols)


# --- models without a recorded pass ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Seeking:
    """A model without a recorded pass, and the passes found so far."""

    model: Model
    own: ModuleIds
    """For each module: its number among the modules of all models."""
    rows: Rows
    found: Found

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, model: Model, root: Root, forward: Forward) -> _Seeking:
        module_ids = _tree_of(model, root)
        modules = _with_numbers(model.modules, module_ids)
        part = Model(modules, [], f"{root.name} of {model.source}", model.stored, registered=True)
        return cls(part, module_ids, typed_rows(connection, part, forward.items), Found())

    def completeness(self, found: Found, number: int) -> float:
        """Share of the pass's parts found."""
        expected = found.expected[number - found.first_pass]
        needed_rows = expected[~self.rows.is_optional[expected]]
        return float(np.isin(needed_rows, _of_pass(found, found.rows, number)).mean()) if len(needed_rows) else 0.0


def _compete(models: Sequence[_Seeking], forward: Forward, taken: Flags, first_pass: int) -> Sequence[_Seeking]:
    """Search for all models. If several models match the same ops, the most complete pass wins."""
    next_pass = first_pass
    while True:
        remaining = forward.without(taken)
        offers = []
        for model in models:
            found = find(remaining, model.rows, next_pass)
            offers += [
                (model.completeness(found, number), model, found, number)
                for number in range(found.first_pass, found.next_pass)
            ]
            next_pass = found.next_pass
        any_taken = False
        for _, model, found, number in sorted(offers, key=lambda offer: -offer[0]):
            items = _of_pass(found, found.items, number)
            if not taken[items].any():
                taken[items] = any_taken = True
                model.found.take(found, number)
        if not any_taken:
            return models


def _of_pass(found: Found, values: Sequence[Integers], number: int) -> Integers:
    """The values that belong to a pass."""
    return np.concatenate(
        [part for part, numbers in zip(values, found.passes, strict=True) if len(numbers) and numbers[0] == number]
    )


def _tree_of(model: Model, root: Root) -> ModuleIds:
    """The modules of a model, in order."""
    module_ids = {root.module_id}
    for number, parent in enumerate(model.modules.column("parent_id").to_pylist()):  # parents come before children
        if parent in module_ids:
            module_ids.add(number)
    return np.array(sorted(module_ids), np.int64)


def _with_numbers(modules: pa.Table, own: ModuleIds) -> pa.Table:
    """A subset of the modules, renumbered from 0."""
    numbers = {number: index for index, number in enumerate(own.tolist())}
    subset = modules.take(pa.array(own))
    parents = [numbers.get(parent) for parent in subset.column("parent_id").to_pylist()]
    columns = {"module_id": pa.array(range(len(own)), pa.int64()), "parent_id": pa.array(parents, pa.int64())}
    for name, column in columns.items():
        subset = subset.set_column(subset.schema.get_field_index(name), name, column)
    return subset


def _renumbered(part: Placed, own: ModuleIds, count: int) -> Placed:
    """The placed model with module numbers among the modules of all models."""
    missing = np.zeros(count, np.int64)
    missing[own] = part.missing.to_numpy(zero_copy_only=False)

    def numbered(table: pa.Table) -> pa.Table:
        modules = pc.take(pa.array(own), table.column("module_id"))
        return table.set_column(table.schema.get_field_index("module_id"), "module_id", modules)

    return Placed(numbered(part.matches), numbered(part.fused), pl.Series(missing).to_arrow(), part.note)


def _together(parts: Sequence[Placed]) -> Placed:
    """Combine several placed models into one."""
    missing: npt.NDArray[np.int64] = np.sum([part.missing.to_numpy(zero_copy_only=False) for part in parts], axis=0)
    return Placed(
        pa.concat_tables([part.matches for part in parts]),
        pa.concat_tables([part.fused for part in parts]),
        pl.Series(missing).to_arrow(),
        next((part.note for part in parts if part.note), None),
    )
