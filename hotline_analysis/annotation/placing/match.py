"""The model placed on a trace that does not tell its modules: which op belongs to which call of which module.

The modules without children, in execution order, are the rows, and the outermost ops of a stretch of forward the
columns of an alignment. If a capture has seen which ops each module runs, the rows are those ops, and equal names
match; else the types of the modules say what ops to expect (`type_evidence`). An op between two matched ones belongs to
the innermost module that holds both; that follows from the spans of the modules, and needs no rule here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotation.align import Alignment
from hotline_analysis.annotation.model_file import Model
from hotline_analysis.annotation.placing.certain import Matches, surely_placed
from hotline_analysis.annotation.placing.indices import (
    CallNumbers,
    ChosenIndices,
    ColumnIndices,
    ItemIndices,
    NameCodes,
    RowIndices,
)
from hotline_analysis.annotation.placing.misfit import LEAST, LEAST_HEAVY, FirstUses, check_fit, contradicted
from hotline_analysis.annotation.placing.recompute import recomputed
from hotline_analysis.annotation.placing.repeats import ByGradients, Unrolled, by_cells
from hotline_analysis.annotation.placing.rows import (
    MAIN,
    SURE,
    UNSURE,
    Flags,
    Found,
    Items,
    Rows,
    learned_rows,
    read_items,
    typed_rows,
)
from hotline_analysis.annotation.placing.walk import called_again
from hotline_analysis.database import table_of

_LEAST_REGISTERED = 0.25  # LEAST_OF_WEIGHT for a list that has modules that never run
_EXPLAINED = 0.75  # of the ops of a stretch that are made of parameters must then be the model's
_SLACK = 1.25  # how much longer than its share a copy of the model may be
_SEARCHED = 4_000_000  # rows × columns up to which the end of a copy is searched for


@dataclass(frozen=True)
class Placed:
    """A model on the ops of a trace."""

    matches: pa.Table
    """`event_id`, `module_id`, `call`, pass and confidence of what was found."""
    fused: pa.Table
    """Modules without an op, with the one (`event_id`) of the module before, and the `word` that would show them."""
    missing: pa.Array
    """For each module, the number of its calls for which nothing was found."""
    note: str | None
    """How the trace and the model differ, if so much that all places are doubtful."""


def match_model(connection: duckdb.DuckDBPyConnection, model: Model) -> Placed:
    """Place the model on the ops of `forward_item`.

    Raises `ModelMismatchError` with the first place where they differ if no stretch of the trace fits the model.
    """
    items = read_items(connection)
    rows = learned_rows(model, items) if model.ops else typed_rows(connection, model, items)
    stretches = list(_stretches(connection, items))
    windows = [window for stretch in stretches for window in stretch]
    first_use = connection.sql(catalog.get("first_use").sql).pl()
    uses = FirstUses(*(first_use[name].to_numpy() for name in ("event_id", "pass_ns")))
    search = _Search(items, rows, np.isin(items.event, uses.event))
    if len(rows.symbol):
        search.everywhere(stretches)
    found = search.found
    note = check_fit(model, items, rows, windows, found, uses)
    found.doubt(contradicted(items, rows, found, uses) | (note is not None))
    missing = _missing_calls(len(model.modules), rows, found)
    return Placed(recomputed(connection, items, rows, found), _fused(model, items, rows, found), missing, note)


def _stretches(connection: duckdb.DuckDBPyConnection, items: Items) -> Iterator[list[ItemIndices]]:
    """Stretches between two backward passes or starts of steps: in each, the items of every thread as positions."""
    borders = connection.sql(
        "select start_ns from step union all select start_ns from engine_call where container_id is null order by 1"
    ).pl()
    at = np.searchsorted(borders["start_ns"].to_numpy(), items.start, side="right")
    outside = np.flatnonzero(items.call < 0)
    for stretch in np.split(outside, np.flatnonzero(np.diff(at[outside])) + 1):
        threads = np.unique(items.track[stretch])
        if len(threads):
            yield [stretch[items.track[stretch] == thread] for thread in threads]


# --- one stretch of forward ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pass:
    """The model in a row of ops: the positions of those that were matched, and with what."""

    items: ItemIndices
    rows: RowIndices
    calls: CallNumbers
    run: Rows  # the rows that were looked for
    is_unrolled: bool  # `run` has rows as often as the ops showed them
    places: ChosenIndices  # positions in `run` of the rows that were found
    is_sure: Flags
    expected: RowIndices
    more: list[tuple[ItemIndices, RowIndices, CallNumbers]]  # further ops, their rows and calls, which are guesses


class _Search:
    """Looks for the model in one stretch of forward after the other."""

    def __init__(self, items: Items, rows: Rows, is_first_use: Flags) -> None:
        self.items, self.rows, self.is_first_use = items, rows, is_first_use
        self.found = Found()
        self._repeats = ByGradients(rows)
        self._again = called_again(rows)

    def everywhere(self, stretches: list[list[ItemIndices]]) -> None:
        """Look in all stretches; first in those with a backward pass, which tells most."""
        for stretch in sorted(stretches, key=lambda stretch: not self.is_first_use[np.concatenate(stretch)].any()):
            self._stretch(stretch)

    def _stretch(self, windows: list[ItemIndices]) -> None:
        """Find the model on each thread alone, as there may be replicas; if on none, in the ops of all threads.

        In that case, one thread waits while another runs.
        """
        before = self.found.next_pass
        for window in windows:
            self._window(window)
        if self.found.next_pass == before and len(windows) > 1:
            self._window(np.sort(np.concatenate(windows)))

    def _window(self, window: ItemIndices) -> None:
        """Find the model in a row of ops, as often as it runs there."""
        passes = self._whole_passes(window)
        if passes:
            self._add(window, passes)
            begin, end = (
                np.searchsorted(window, limit(one.items)) for one, limit in ((passes[0], min), (passes[-1], max))
            )
            for rest in (window[:begin], window[end + 1 :]):
                if len(rest):
                    self._window(rest)
            return
        rows, names = self.rows, self.items.name[window]
        passes = self._passes(window, by_cells(rows, names, self.is_first_use[window], _copies(rows, names)))
        if self._worth(passes) < (np.count_nonzero(rows.looks_heavy[names]), 0):
            unrolled = self._repeats.unroll(names, self.is_first_use[window])
            again = self._passes(window, unrolled) if unrolled is not None else []
            if again and ((self._worth(again) > self._worth(passes) and self._has_all(again, passes)) or not passes):
                passes = again
        self._add(window, passes)

    def _add(self, window: ItemIndices, passes: list[_Pass]) -> None:
        for one, is_sure in zip(passes, self._are_sure(window, passes), strict=True):
            self.found.add(one.items, one.rows, one.calls, np.where(is_sure, SURE, UNSURE), one.expected)
            for items, more, calls in one.more:
                self.found.add_to_last(items, more, calls)

    def _are_sure(self, window: ItemIndices, passes: list[_Pass]) -> list[Flags]:
        """By pass: which matches are sure. A list that was captured is complete; another may lack modules."""
        if self.rows.is_learned or not passes:
            return [one.is_sure for one in passes]
        numbers = [np.full(len(one.places), number) for number, one in enumerate(passes)]
        items, places, is_sure = (
            np.concatenate([getattr(one, name) for one in passes]) for name in ("items", "places", "is_sure")
        )
        matches = Matches(np.searchsorted(window, items), places, np.concatenate(numbers), is_sure)
        run, names, is_first = passes[0].run, self.items.name[window], self.is_first_use[window]
        sure = surely_placed(run, names, is_first, matches, repeats=passes[0].is_unrolled)
        return np.split(sure, np.cumsum([len(one.places) for one in passes])[:-1])

    def _worth(self, passes: list[_Pass]) -> tuple[int, int]:
        """How many ops that look like modules with parameters are explained; then, how few such modules are missing."""
        explained = [np.count_nonzero(self.rows.looks_heavy[self.items.name[one.items]]) for one in passes]
        missing = [np.count_nonzero(self.rows.is_heavy[np.setdiff1d(one.expected, one.rows)]) for one in passes]
        return int(sum(explained)), -int(sum(missing))

    def _has_all(self, passes: list[_Pass], others: list[_Pass]) -> bool:
        """Whether these passes have every module with parameters that the others have: repeats only add calls."""
        here, there = (
            np.unique(np.concatenate([self.rows.module[one.rows[self.rows.is_heavy[one.rows]]] for one in some]))
            for some in (passes, others or passes)
        )
        return bool(np.isin(there, here).all())

    def _whole_passes(self, window: ItemIndices) -> list[_Pass]:
        """The passes in a row of ops in which modules run as a whole: one op for a module and all modules in it.

        All modules that can are tried; those without such an op are dropped, and the rest is tried again. A whole
        module counts as one with parameters, as the modules in it would.
        """
        rows = self.rows
        fits = rows.aligner.weights[:, np.unique(self.items.name[window])].max(axis=1, initial=0) > 0
        whole = rows.is_whole & fits[rows.symbol]
        while whole.any():
            replaced = rows.replaced(whole)
            passes = self._likely_passes(window, np.flatnonzero(~replaced & (whole | ~rows.is_whole)), None)
            lacking = whole & ~replaced
            for one in passes:
                lacking[one.rows] = False
            if not lacking.any():
                return passes
            whole &= ~lacking
        return []

    def _passes(self, window: ItemIndices, unrolled: Unrolled | None) -> list[_Pass]:
        """The passes of the model (or of its rows as often as they run) in a row of ops, if none runs as a whole."""
        number = np.arange(len(self.rows.symbol)) if unrolled is None else unrolled.rows
        parts = ~self.rows.is_whole[number]
        return self._likely_passes(
            window, number[parts], unrolled and Unrolled(unrolled.rows[parts], unrolled.is_sure[parts])
        )

    def _likely_passes(self, window: ItemIndices, number: RowIndices, unrolled: Unrolled | None) -> list[_Pass]:
        """The passes of these rows in a row of ops, with the more likely number of copies of the model."""
        run = self.rows if len(number) == len(self.rows.symbol) and unrolled is None else self.rows.take(number)
        names = self.items.name[window]
        passes = self._passes_of(window, run, number, unrolled, few := _copies(run, names))
        # Evaluation runs no dropout and counts no batches, so what is rarest does not tell how often a model runs then.
        if (many := _copies(run, names, by_parameters=True)) > few:
            more = self._passes_of(window, run, number, unrolled, many)
            passes = max(passes, more, key=self._placed)
        return passes

    def _placed(self, passes: list[_Pass]) -> int:
        return int(sum(np.count_nonzero(self.rows.is_heavy[one.rows]) for one in passes))

    def _passes_of(
        self, window: ItemIndices, run: Rows, number: RowIndices, unrolled: Unrolled | None, copies: int
    ) -> list[_Pass]:
        """The passes of the model in a row of ops, if it runs `copies` times there."""
        items = self.items
        share = len(window) / max(1, copies)
        passes = []
        at = 0
        while at < len(window):
            last = copies <= 1 or len(window) - at < _SLACK * share
            columns = window[at:] if last else _no_longer(run, items, window[at : at + int(_SLACK * share)])
            if not len(columns):
                break
            alignment = run.aligner.align(run.symbol, items.name[columns])
            first = _tenable(run, alignment, items.name[columns])
            hit = np.flatnonzero(first >= 0)
            if not _fits(items, run, columns, first[hit], hit):
                break
            sure = first[hit] == alignment.last[hit]
            if unrolled is not None:
                sure &= unrolled.is_sure[hit]
            more = [(position, number[row], run.call[row]) for position, row in self._more_slices(run, columns, first)]
            more += self._called_again(number, run, columns, first)
            found = columns[first[hit]]
            is_unrolled = unrolled is not None
            passes.append(
                _Pass(found, number[hit], run.call[hit], run, is_unrolled, hit, sure, np.unique(number), more)
            )
            if last:
                break
            at += int(first[hit].max()) + 1
        return passes

    def _called_again(
        self, number: RowIndices, run: Rows, columns: ItemIndices, first: ColumnIndices
    ) -> list[tuple[ItemIndices, RowIndices, CallNumbers]]:
        """Further calls of modules without parameters that their container lists once, and that seem to run again."""
        hit = np.flatnonzero(first >= 0)
        between = np.arange(first[hit[0]], first[hit[-1]])
        before = np.searchsorted(first[hit], between, side="right") - 1
        again = self._again[number[hit[before]], self.items.name[columns[between]]]
        free = (again >= 0) & (first[hit[before]] != between) & ~self.is_first_use[columns[between]]
        free &= ~self.rows.in_sequence[again] | (first[hit[before]] == between - 1)
        between, before, again = between[free], before[free], again[free]
        # the module must lie in the innermost one around the ops before and after
        modules = self.rows.module[number[hit]]
        pairs = np.stack((modules[before], modules[before + 1], self.rows.module[again]), axis=1)
        kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
        inside = np.array([self.rows.is_inside(*triple) for triple in kinds.tolist()], bool)[kind.reshape(-1)]
        between, again = between[inside], again[inside]
        calls = int(run.call.max()) + 1 + np.arange(len(between))
        return [(columns[between], again, calls)] if len(between) else []

    def _more_slices(
        self, run: Rows, columns: ItemIndices, first: ColumnIndices
    ) -> Iterator[tuple[ItemIndices, ChosenIndices]]:
        """Ops that follow the op of a module with parameters, have its name and no other module: they are its, too."""
        taken = np.zeros(len(columns) + 1, bool)
        taken[first[first >= 0]] = True
        taken[:-1] |= self.is_first_use[columns]
        names = np.append(self.items.name[columns], -1)
        ends = first.copy()
        while True:
            after = ends + 1
            again = np.flatnonzero((first >= 0) & run.is_heavy & ~taken[after] & (names[after] == names[ends]))
            if not len(again) or not run.looks_heavy.any():
                return
            yield columns[after[again]], again
            taken[after[again]] = True
            ends[again] = after[again]


def _tenable(run: Rows, alignment: Alignment, names: NameCodes) -> ColumnIndices:
    """Leftmost best column per row, dropping matches too weak to trust.

    These are (a) parts of a module whose other parts are missing, if any module may run such ops, and (b) weak ops of
    modules without parameters that have another place.
    """
    places = alignment.first
    _, call = np.unique(run.module * (int(run.call.max()) + 1) + run.call, return_inverse=True)
    is_heavy = np.bincount(call, run.is_heavy) > 0
    lacks = np.bincount(call, ~run.is_optional & (places < 0)) > 0
    weak = run.aligner.weights[run.symbol, names[places]] < MAIN - 1
    out = (lacks & ~is_heavy)[call] | (weak & ~run.is_heavy & (places != alignment.last))
    out |= _is_apart(run, call, places, names)
    return np.where(out, -1, places)


def _is_apart(run: Rows, call: CallNumbers, places: ColumnIndices, names: NameCodes) -> Flags:
    """Optional ops of a hand-written module (e.g. RMSNorm as pow, mean, rsqrt) that lie beyond another layer.

    Such a module contains no layer, so they are not its own.
    """
    heavy = np.append(np.cumsum(run.looks_heavy[names]), 0)[places]
    least, most = np.full(len(call), len(names)), np.full(len(call), -1)
    needed = ~run.is_optional & (places >= 0)
    np.minimum.at(least, call[needed], heavy[needed])
    np.maximum.at(most, call[needed], heavy[needed])
    is_other = (heavy < least[call]) | (heavy > most[call])
    return is_other & run.is_optional & run.is_written_out()


def _no_longer(rows: Rows, items: Items, columns: ItemIndices) -> ItemIndices:
    """The shortest prefix of the columns that explains as much as all, so that no row is found in the next pass."""
    if len(rows.symbol) * len(columns) > _SEARCHED:
        return columns
    return columns[: rows.aligner.enough_columns(rows.symbol, items.name[columns], ~rows.is_optional)]


def _fits(items: Items, rows: Rows, columns: ItemIndices, places: ColumnIndices, hit: RowIndices) -> bool:
    heavy = int(np.count_nonzero(rows.is_heavy))
    heavy_hit = int(np.count_nonzero(rows.is_heavy[hit]))
    needed, found = (int(np.count_nonzero(~optional)) for optional in (rows.is_optional, rows.is_optional[hit]))
    if found >= LEAST * needed and heavy_hit >= LEAST_HEAVY * heavy:
        return True
    if not rows.is_registered:
        return False
    uses_parameters = rows.uses_parameters[items.name[columns]]
    explained = int(np.count_nonzero(uses_parameters[places])) >= _EXPLAINED * int(np.count_nonzero(uses_parameters))
    return explained and heavy_hit > 0 and heavy_hit >= _LEAST_REGISTERED * heavy


def _copies(rows: Rows, names: NameCodes, *, by_parameters: bool = False) -> int:
    """How often the model runs in a stretch: as often as the ops of its rarest kind of module allow.

    `by_parameters`: the rarest of those that run an op made of parameters.
    """
    weights = rows.aligner.weights
    least = np.inf
    counts = np.bincount(names, minlength=weights.shape[1])
    if by_parameters:
        counts = counts * rows.uses_parameters
    for symbol in np.unique(rows.symbol):
        fitting = counts[weights[symbol] >= MAIN].sum() if symbol < len(weights) else 0
        if fitting:
            least = min(least, fitting / np.count_nonzero(rows.symbol == symbol))
    return max(1, int(least + 0.2)) if np.isfinite(least) else 1


# --- what has no op of its own ----------------------------------------------------------------------------------------


def _missing_calls(modules: int, rows: Rows, found: Found) -> pa.Array:
    """By module: how many of its calls were not found, over all passes that should have had them."""
    width = int(rows.call.max()) + 1
    calls, call_of_row = np.unique(rows.module * width + rows.call, return_inverse=True)
    number, row = (np.concatenate(part) for part in (found.passes, found.rows))
    met = np.unique(number * len(calls) + call_of_row[row]) % len(calls)
    expected = np.concatenate([np.unique(call_of_row[one]) for one in found.expected])
    missing = np.bincount(expected, minlength=len(calls)) - np.bincount(met, minlength=len(calls))
    return pl.Series(np.bincount(calls // width, missing, modules).astype(np.int64)).to_arrow()


def _fused(model: Model, items: Items, rows: Rows, found: Found) -> pa.Table:
    """Modules that were not found, with the op of the last module before them that was; none for learned rows.

    An op that could be the missing module's own (a linear before a linear that did not run) says nothing of fusion.
    """
    types = model.modules.column("type").to_pylist()
    plain = [re.sub(r"[^a-z]", "", kind.lower()) for kind in types]
    candidates: list[dict[str, Any]] = []
    last_pass = -1
    for position, row, number in zip(found.items, found.rows, found.passes, strict=True):
        if rows.is_learned or not len(row) or int(number[0]) == last_pass:
            continue
        last_pass = int(number[0])
        places = dict(zip(row.tolist(), position.tolist(), strict=True))
        is_missing = ~np.isin(np.arange(len(rows.symbol)), row)
        is_missing &= ~rows.is_whole & ~rows.replaced(~is_missing & rows.is_whole)
        missing = row[0] + np.flatnonzero(is_missing[row[0] : row[-1]])
        for guest in missing.tolist():
            owner = max(place for place in places if place < guest)
            if rows.aligner.weights[rows.symbol[guest], items.name[places[owner]]]:
                continue
            candidates.append(
                {
                    "event_id": int(items.event[places[owner]]),
                    "module_id": int(rows.module[guest]),
                    "word": plain[int(rows.module[guest])],
                }
            )
    schema = pa.schema([("event_id", pa.int64()), ("module_id", pa.int64()), ("word", pa.string())])
    return table_of([candidate for candidate in candidates if len(candidate["word"]) > 2], schema)
