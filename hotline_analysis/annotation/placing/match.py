"""Place a model on a trace without module information: the module, and the call of the module, for each op.

The alignment has the modules without children as rows, in execution order, and the outermost ops of a stretch of
forward as columns. If a capture recorded the ops of each module, the rows are these ops and match by name. Otherwise
the module types determine the expected ops (`type_evidence`). An op between two matched ops belongs to the innermost
module around both; this follows from the modules' spans and needs no rule here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
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

_LEAST_REGISTERED = 0.25  # LEAST_HEAVY for a list with modules that never run
_EXPLAINED = 0.75  # minimum share of a stretch's ops with parameters, explained by the model, for such a list
_SLACK = 1.25  # maximum length of a copy of the model, relative to its share
_SEARCHED = 4_000_000  # maximum rows × columns of a search for the end of a copy


@dataclass(frozen=True)
class Placed:
    """A placed model: the matches of modules with the ops of a trace, and the modules without a match."""

    matches: pa.Table
    """`event_id`, `module_id`, `call`, pass and confidence of each match."""
    fused: pa.Table
    """Modules without an op: the previous module's op (`event_id`), and the `word` expected in a fused op's name."""
    missing: pa.Array
    """For each module, the number of calls without a match."""
    note: str | None
    """The difference between trace and model, if large enough to make all places doubtful."""


def match_model(connection: duckdb.DuckDBPyConnection, model: Model) -> Placed:
    """Place the model on the ops of `forward_item`.

    Raises `ModelMismatchError`, naming the first difference, if no stretch of the trace fits the model.
    """
    forward = read_forward(connection)
    rows = learned_rows(model, forward.items) if model.ops else typed_rows(connection, model, forward.items)
    return placed(connection, model, forward, rows, find(forward, rows))


@dataclass(frozen=True)
class Forward:
    """The ops of forward, and the stretches in which a model may run."""

    items: Items
    stretches: list[list[ItemIndices]]
    uses: FirstUses

    @property
    def windows(self) -> list[ItemIndices]:
        """The items of each stretch and thread."""
        return [window for stretch in self.stretches for window in stretch]

    def without(self, taken: Flags) -> Forward:
        """Remove items that are already placed."""
        stretches = [[window[~taken[window]] for window in stretch] for stretch in self.stretches]
        remaining = [[window for window in stretch if len(window)] for stretch in stretches]
        return replace(self, stretches=[stretch for stretch in remaining if stretch])


def read_forward(connection: duckdb.DuckDBPyConnection) -> Forward:
    """Read the ops of forward, in which models are searched for."""
    items = read_items(connection)
    first_use = connection.sql(catalog.get("first_use").sql).pl()
    uses = FirstUses(*(first_use[name].to_numpy() for name in ("event_id", "pass_ns")))
    return Forward(items, list(_stretches(connection, items)), uses)


def find(forward: Forward, rows: Rows, first_pass: int = 0) -> Found:
    """Search for the rows in all stretches."""
    search = Search(
        forward.items,
        rows,
        np.isin(forward.items.event, forward.uses.event),
        Found(first_pass=first_pass, next_pass=first_pass),
    )
    if len(rows.symbol):
        search.everywhere(forward.stretches)
    return search.found


def placed(
    connection: duckdb.DuckDBPyConnection,
    model: Model,
    forward: Forward,
    rows: Rows,
    found: Found,
    *,
    counted: Flags | None = None,
    is_alone: bool = True,
) -> Placed:
    """Check the matches and return them as tables.

    Only `counted` rows have to be found. A model that `is_alone` has to explain most ops of the stretches.
    """
    items, uses = forward.items, forward.uses
    note = check_fit(model, items, rows, forward.windows, found, uses, counted=counted, is_alone=is_alone)
    found.doubt(contradicted(items, rows, found, uses) | (note is not None))
    missing = _missing_calls(len(model.modules), rows, found)
    return Placed(recomputed(connection, items, rows, found), _fused(model, items, rows, found), missing, note)


def _stretches(connection: duckdb.DuckDBPyConnection, items: Items) -> Iterator[list[ItemIndices]]:
    """Stretches between two backward passes or step starts. A stretch has the positions of each thread's items."""
    borders = connection.sql(
        "select start_ns from step union all select start_ns from engine_call where container_id is null order by 1"
    ).pl()
    border_number = np.searchsorted(borders["start_ns"].to_numpy(), items.start, side="right")
    forward_items = np.flatnonzero(items.call < 0)
    for stretch in np.split(forward_items, np.flatnonzero(np.diff(border_number[forward_items])) + 1):
        threads = np.unique(items.track[stretch])
        if len(threads):
            yield [stretch[items.track[stretch] == thread] for thread in threads]


# --- one stretch of forward ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """One pass of the model in a row of ops: the positions of the matched ops, and the rows matched with them."""

    items: ItemIndices
    rows: RowIndices
    calls: CallNumbers
    run: Rows  # the rows searched for
    is_unrolled: bool  # `run` repeats rows as often as the ops show them
    places: ChosenIndices  # positions in `run` of the matched rows
    is_sure: Flags
    expected: RowIndices
    more: list[tuple[ItemIndices, RowIndices, CallNumbers]]  # additional ops with guessed rows and calls


class Search:
    """Search for the model in one stretch of forward after the other."""

    def __init__(
        self, items: Items, rows: Rows, is_first_use: Flags, found: Found | None = None, least: float = LEAST_HEAVY
    ) -> None:
        self.items, self.rows, self.is_first_use = items, rows, is_first_use
        self._least = least  # minimum share of the modules with parameters
        self.found = Found() if found is None else found
        self._repeats = ByGradients(rows)
        self._again = called_again(rows)

    def everywhere(self, stretches: list[list[ItemIndices]]) -> None:
        """Search all stretches, starting with the stretches with a backward pass, which carry the most information."""
        for stretch in sorted(stretches, key=lambda stretch: not self.is_first_use[np.concatenate(stretch)].any()):
            self._stretch(stretch)

    def _stretch(self, windows: list[ItemIndices]) -> None:
        """Find the model on each thread separately, because there may be replicas, or else in the ops of all threads.

        In the second case, one thread waits while another runs.
        """
        first_pass = self.found.next_pass
        for window in windows:
            self._window(window)
        if self.found.next_pass == first_pass and len(windows) > 1:
            self._window(np.sort(np.concatenate(windows)))

    def _window(self, window: ItemIndices) -> None:
        """Find all passes of the model in a row of ops."""
        passes = self._whole_passes(window)
        if passes:
            self._add(window, passes)
            begin, end = (
                np.searchsorted(window, limit(model_pass.items))
                for model_pass, limit in ((passes[0], min), (passes[-1], max))
            )
            for rest in (window[:begin], window[end + 1 :]):
                if len(rest):
                    self._window(rest)
            return
        rows, names = self.rows, self.items.name[window]
        passes = self._passes(window, by_cells(rows, names, self.is_first_use[window], _copies(rows, names)))
        if self._worth(passes) < (np.count_nonzero(rows.looks_heavy[names]), 0):
            unrolled = self._repeats.unroll(names, self.is_first_use[window])
            unrolled_passes = self._passes(window, unrolled) if unrolled is not None else []
            if unrolled_passes and (
                (self._worth(unrolled_passes) > self._worth(passes) and self._has_all(unrolled_passes, passes))
                or not passes
            ):
                passes = unrolled_passes
        self._add(window, passes)

    def _add(self, window: ItemIndices, passes: list[Pass]) -> None:
        for model_pass, is_sure in zip(passes, self._are_sure(window, passes), strict=True):
            self.found.add(
                model_pass.items,
                model_pass.rows,
                model_pass.calls,
                np.where(is_sure, SURE, UNSURE),
                model_pass.expected,
            )
            for items, rows, calls in model_pass.more:
                self.found.add_to_last(items, rows, calls)

    def _are_sure(self, window: ItemIndices, passes: list[Pass]) -> list[Flags]:
        """For each pass, flag the certain matches. A captured list is complete; other lists may lack modules."""
        if self.rows.is_learned or not passes:
            return [model_pass.is_sure for model_pass in passes]
        numbers = [np.full(len(model_pass.places), number) for number, model_pass in enumerate(passes)]
        items, places, is_sure = (
            np.concatenate([getattr(model_pass, name) for model_pass in passes])
            for name in ("items", "places", "is_sure")
        )
        matches = Matches(np.searchsorted(window, items), places, np.concatenate(numbers), is_sure)
        run, names, is_first = passes[0].run, self.items.name[window], self.is_first_use[window]
        sure = surely_placed(run, names, is_first, matches, repeats=passes[0].is_unrolled)
        return np.split(sure, np.cumsum([len(model_pass.places) for model_pass in passes])[:-1])

    def _worth(self, passes: list[Pass]) -> tuple[int, int]:
        """Number of explained ops that look like modules with parameters, and negated number of missing modules."""
        explained = [
            np.count_nonzero(self.rows.looks_heavy[self.items.name[model_pass.items]]) for model_pass in passes
        ]
        missing = [
            np.count_nonzero(self.rows.is_heavy[np.setdiff1d(model_pass.expected, model_pass.rows)])
            for model_pass in passes
        ]
        return int(sum(explained)), -int(sum(missing))

    def _has_all(self, passes: list[Pass], others: list[Pass]) -> bool:
        """Whether these passes have every module with parameters found in the others: repeats only add calls."""
        modules, other_modules = (
            np.unique(
                np.concatenate(
                    [self.rows.module[model_pass.rows[self.rows.is_heavy[model_pass.rows]]] for model_pass in side]
                )
            )
            for side in (passes, others or passes)
        )
        return bool(np.isin(other_modules, modules).all())

    def _whole_passes(self, window: ItemIndices) -> list[Pass]:
        """The passes in a row of ops in which modules run as a whole: one op for a module and all its submodules.

        All candidate modules are tried. Modules without such an op are dropped, and the rest is tried again. A whole
        module counts as a module with parameters, as its submodules would.
        """
        rows = self.rows
        fits = rows.aligner.weights[:, np.unique(self.items.name[window])].max(axis=1, initial=0) > 0
        whole = rows.is_whole & fits[rows.symbol]
        while whole.any():
            replaced = rows.replaced(whole)
            passes = self._likely_passes(window, np.flatnonzero(~replaced & (whole | ~rows.is_whole)), None)
            unmatched = whole & ~replaced
            for model_pass in passes:
                unmatched[model_pass.rows] = False
            if not unmatched.any():
                return passes
            whole &= ~unmatched
        return []

    def _passes(self, window: ItemIndices, unrolled: Unrolled | None) -> list[Pass]:
        """The passes of the model (or of its unrolled rows) in a row of ops, without modules that run as a whole."""
        number = np.arange(len(self.rows.symbol)) if unrolled is None else unrolled.rows
        parts = ~self.rows.is_whole[number]
        return self._likely_passes(
            window, number[parts], unrolled and Unrolled(unrolled.rows[parts], unrolled.is_sure[parts])
        )

    def _likely_passes(self, window: ItemIndices, number: RowIndices, unrolled: Unrolled | None) -> list[Pass]:
        """The passes of the given rows in a row of ops, with the more likely number of copies of the model."""
        run = self.rows if len(number) == len(self.rows.symbol) and unrolled is None else self.rows.take(number)
        names = self.items.name[window]
        passes = self._passes_of(window, run, number, unrolled, copies := _copies(run, names))
        # Evaluation runs no dropout and counts no batches, so the rarest op may not show how often a model runs.
        if (more_copies := _copies(run, names, by_parameters=True)) > copies:
            more_passes = self._passes_of(window, run, number, unrolled, more_copies)
            passes = max(passes, more_passes, key=self._placed)
        return passes

    def passes(self, window: ItemIndices) -> list[Pass]:
        """The passes of captured rows in a row of ops."""
        return self._likely_passes(window, np.arange(len(self.rows.symbol)), None)

    def _placed(self, passes: list[Pass]) -> int:
        return int(sum(np.count_nonzero(self.rows.is_heavy[model_pass.rows]) for model_pass in passes))

    def _passes_of(
        self, window: ItemIndices, run: Rows, number: RowIndices, unrolled: Unrolled | None, copies: int
    ) -> list[Pass]:
        """The passes of the model in a row of ops, if the model runs `copies` times there."""
        items = self.items
        length = share = len(window) / max(1, copies)
        passes: list[Pass] = []
        start = 0
        while start < len(window):
            last = copies <= 1 or len(window) - start < _SLACK * length
            columns = window[start:] if last else _no_longer(run, items, window[start : start + int(_SLACK * length)])
            alignment = run.aligner.align(run.symbol, items.name[columns]) if len(columns) else None
            first = np.empty(0, int) if alignment is None else _tenable(run, alignment, items.name[columns])
            hit = np.flatnonzero(first >= 0)
            if alignment is None or not _fits(items, run, columns, first[hit], hit, self._least):
                # Other work may separate two copies, such as a loop over the results of an episode.
                if last or not 0 < len(passes) < copies or len(run.symbol) * 2 * length > _SEARCHED:
                    break
                length *= 2
                continue
            length = share
            sure = first[hit] == alignment.last[hit]
            if unrolled is not None:
                sure &= unrolled.is_sure[hit]
            more = [(position, number[row], run.call[row]) for position, row in self._more_slices(run, columns, first)]
            more += self._called_again(number, run, columns, first)
            pass_items = columns[first[hit]]
            is_unrolled = unrolled is not None
            passes.append(
                Pass(pass_items, number[hit], run.call[hit], run, is_unrolled, hit, sure, np.unique(number), more)
            )
            if last:
                break
            start += int(first[hit].max()) + 1
        return passes

    def _called_again(
        self, number: RowIndices, run: Rows, columns: ItemIndices, first: ColumnIndices
    ) -> list[tuple[ItemIndices, RowIndices, CallNumbers]]:
        """Additional calls of modules without parameters that are listed once but seem to run again."""
        hit = np.flatnonzero(first >= 0)
        gap = np.arange(first[hit[0]], first[hit[-1]])
        previous = np.searchsorted(first[hit], gap, side="right") - 1
        rows_again = self._again[number[hit[previous]], self.items.name[columns[gap]]]
        free = (rows_again >= 0) & (first[hit[previous]] != gap) & ~self.is_first_use[columns[gap]]
        free &= ~self.rows.in_sequence[rows_again] | (first[hit[previous]] == gap - 1)
        gap, previous, rows_again = gap[free], previous[free], rows_again[free]
        # the module must be in the innermost module around the previous and the next op
        modules = self.rows.module[number[hit]]
        pairs = np.stack((modules[previous], modules[previous + 1], self.rows.module[rows_again]), axis=1)
        kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
        is_inside = np.array([self.rows.is_inside(*triple) for triple in kinds.tolist()], bool)[kind.reshape(-1)]
        gap, rows_again = gap[is_inside], rows_again[is_inside]
        calls = int(run.call.max()) + 1 + np.arange(len(gap))
        return [(columns[gap], rows_again, calls)] if len(gap) else []

    def _more_slices(
        self, run: Rows, columns: ItemIndices, first: ColumnIndices
    ) -> Iterator[tuple[ItemIndices, ChosenIndices]]:
        """Further ops of a module with parameters: they follow its op, have the same name, and match no other row."""
        is_taken = np.zeros(len(columns) + 1, bool)
        is_taken[first[first >= 0]] = True
        is_taken[:-1] |= self.is_first_use[columns]
        names = np.append(self.items.name[columns], -1)
        ends = first.copy()
        while True:
            next_columns = ends + 1
            chosen = np.flatnonzero(
                (first >= 0) & run.is_heavy & ~is_taken[next_columns] & (names[next_columns] == names[ends])
            )
            if not len(chosen) or not run.looks_heavy.any():
                return
            yield columns[next_columns[chosen]], chosen
            is_taken[next_columns[chosen]] = True
            ends[chosen] = next_columns[chosen]


def _tenable(run: Rows, alignment: Alignment, names: NameCodes) -> ColumnIndices:
    """For each row, the leftmost of the equally good columns; -1 without a match, and for a match too weak to trust.

    Three kinds of matches are dropped:

    * all matches of a call of a module without parameters, if a required op of the call has no match: other modules may
      run the same ops,
    * weak matches of modules without parameters, if the row has another possible column,
    * optional ops of a hand-written module beyond another layer (`_is_apart`).
    """
    columns = alignment.first
    _, call = np.unique(run.module * (int(run.call.max()) + 1) + run.call, return_inverse=True)
    is_heavy = np.bincount(call, run.is_heavy) > 0
    lacks = np.bincount(call, ~run.is_optional & (columns < 0)) > 0
    is_weak = run.aligner.weights[run.symbol, names[columns]] < MAIN - 1
    is_dropped = (lacks & ~is_heavy)[call] | (is_weak & ~run.is_heavy & (columns != alignment.last))
    is_dropped |= _is_apart(run, call, columns, names)
    return np.where(is_dropped, -1, columns)


def _is_apart(run: Rows, call: CallNumbers, places: ColumnIndices, names: NameCodes) -> Flags:
    """Flag optional ops of a hand-written module (e.g. RMSNorm as pow, mean, rsqrt) that lie beyond another layer.

    A hand-written module contains no layer, so such ops belong to other modules.
    """
    heavy = np.append(np.cumsum(run.looks_heavy[names]), 0)[places]
    least, most = np.full(len(call), len(names)), np.full(len(call), -1)
    is_needed = ~run.is_optional & (places >= 0)
    np.minimum.at(least, call[is_needed], heavy[is_needed])
    np.maximum.at(most, call[is_needed], heavy[is_needed])
    is_other = (heavy < least[call]) | (heavy > most[call])
    return is_other & run.is_optional & run.is_written_out()


def _no_longer(rows: Rows, items: Items, columns: ItemIndices) -> ItemIndices:
    """The shortest prefix of the columns that explains as much as all columns, so no row matches in the next pass."""
    if len(rows.symbol) * len(columns) > _SEARCHED:
        return columns
    return columns[: rows.aligner.enough_columns(rows.symbol, items.name[columns], ~rows.is_optional)]


def _fits(
    items: Items, rows: Rows, columns: ItemIndices, places: ColumnIndices, hit: RowIndices, least_heavy: float
) -> bool:
    heavy = int(np.count_nonzero(rows.is_heavy))
    heavy_hit = int(np.count_nonzero(rows.is_heavy[hit]))
    needed_count, hit_count = (
        int(np.count_nonzero(~optional)) for optional in (rows.is_optional, rows.is_optional[hit])
    )
    if hit_count >= LEAST * needed_count and heavy_hit >= least_heavy * heavy:
        return True
    if not rows.is_registered:
        return False
    uses_parameters = rows.uses_parameters[items.name[columns]]
    is_explained = int(np.count_nonzero(uses_parameters[places])) >= _EXPLAINED * int(np.count_nonzero(uses_parameters))
    return is_explained and heavy_hit > 0 and heavy_hit >= _LEAST_REGISTERED * heavy


def _copies(rows: Rows, names: NameCodes, *, by_parameters: bool = False) -> int:
    """Number of copies of the model in a stretch, limited by the ops of its rarest kind of module.

    With `by_parameters`, only ops with parameters count.
    """
    weights = rows.aligner.weights
    copies = np.inf
    counts = np.bincount(names, minlength=weights.shape[1])
    if by_parameters:
        counts = counts * rows.uses_parameters
    for symbol in np.unique(rows.symbol):
        fitting = counts[weights[symbol] >= MAIN].sum() if symbol < len(weights) else 0
        if fitting:
            copies = min(copies, fitting / np.count_nonzero(rows.symbol == symbol))
    return max(1, int(copies + 0.2)) if np.isfinite(copies) else 1


# --- modules without their own op ------------------------------------------------------------------------------------


def _missing_calls(modules: int, rows: Rows, found: Found) -> pa.Array:
    """For each module: the number of calls without a match, over all passes expected to contain them."""
    width = int(rows.call.max()) + 1
    calls, call_of_row = np.unique(rows.module * width + rows.call, return_inverse=True)
    number, row = (np.concatenate(part) for part in (found.passes, found.rows))
    matched_calls = np.unique(number * len(calls) + call_of_row[row]) % len(calls)
    expected = np.concatenate([np.unique(call_of_row[pass_rows]) for pass_rows in found.expected])
    missing = np.bincount(expected, minlength=len(calls)) - np.bincount(matched_calls, minlength=len(calls))
    return pl.Series(np.bincount(calls // width, missing, modules).astype(np.int64)).to_arrow()


def _fused(model: Model, items: Items, rows: Rows, found: Found) -> pa.Table:
    """Missing modules, with the op of the last matched module before them; empty for captured rows.

    An op that could be the missing module's own (a linear before a linear that did not run) is no evidence of fusion.
    """
    types = model.modules.column("type").to_pylist()
    plain_types = [re.sub(r"[^a-z]", "", kind.lower()) for kind in types]
    candidates: list[dict[str, Any]] = []
    last_pass = -1
    for position, row, number in zip(found.items, found.rows, found.passes, strict=True):
        if rows.is_learned or not len(row) or int(number[0]) == last_pass:
            continue
        last_pass = int(number[0])
        item_of_row = dict(zip(row.tolist(), position.tolist(), strict=True))
        is_missing = ~np.isin(np.arange(len(rows.symbol)), row)
        is_missing &= ~rows.is_whole & ~rows.replaced(~is_missing & rows.is_whole)
        missing_rows = row[0] + np.flatnonzero(is_missing[row[0] : row[-1]])
        for guest in missing_rows.tolist():
            owner = max(other_row for other_row in item_of_row if other_row < guest)
            if rows.aligner.weights[rows.symbol[guest], items.name[item_of_row[owner]]]:
                continue
            candidates.append(
                {
                    "event_id": int(items.event[item_of_row[owner]]),
                    "module_id": int(rows.module[guest]),
                    "word": plain_types[int(rows.module[guest])],
                }
            )
    schema = pa.schema([("event_id", pa.int64()), ("module_id", pa.int64()), ("word", pa.string())])
    return table_of([candidate for candidate in candidates if len(candidate["word"]) > 2], schema)
