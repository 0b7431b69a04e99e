"""The model placed on a trace that does not tell its modules: which op belongs to which call of which module.

The modules without children, in execution order, are the rows, and the outermost ops of a stretch of forward the
columns of an alignment. If a capture has seen which ops each module runs, the rows are those ops, and equal names
match; else the types of the modules say what ops to expect (`type_evidence`). An op between two matched ones belongs to
the innermost module that holds both; that follows from the spans of the modules, and needs no rule here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotate.align import Aligner, Alignment, Symbols
from hotline_analysis.annotate.model import Model
from hotline_analysis.errors import ModelMismatchError

_SURE = 100.0
_UNSURE = 50.0  # another place in the same stretch is as good
_LEAST = 0.5  # of a model's parts must be found in a stretch of forward, or it is not this model that runs there
_LEAST_OF_WEIGHT = 0.75  # the same, of its modules with parameters, which do not vanish as a dropout may
_LEAST_REGISTERED = 0.25  # the same, where modules are listed that never run
_EXPLAINED = 0.75  # and of the ops of a stretch that are made of parameters, so many must then be the model's
_LEFT_OVER = 0.4  # of the ops that look like modules with parameters may be none of the model's
_OF_WEIGHT = re.compile("conv|linear|dense|norm|embed|lstm|gru|rnn", re.IGNORECASE)
_MAIN = 8  # weight of the op that a module is made of, see `type_evidence`
_SLACK = 1.25  # how much longer than its share a copy of the model may be
_SEARCHED = 4_000_000  # rows × columns up to which the end of a copy is searched for
_BEFORE = 8  # ops of the node that may come before what it computes again, such as copying a gradient
_RECOMPUTED = 3  # ops that must be the same, one after the other, to count as computed again
_SCHEMA = pa.schema(
    [
        ("event_id", pa.int64()),
        ("module_id", pa.int64()),
        ("call", pa.int64()),
        ("pass_number", pa.int64()),
        ("confidence_pct", pa.float64()),
    ]
)


@dataclass(frozen=True)
class _Items:
    """The ops of `forward_item`, as columns."""

    event: Symbols
    track: Symbols
    start: Symbols
    end: Symbols
    call: Symbols  # the engine's call around the op, -1 for none
    name: Symbols  # number of the name
    names: list[str]


@dataclass
class _Rows:
    """What is to be found: the module of each row, which call of it, and the symbol that the weights know."""

    module: Symbols
    call: Symbols
    aligner: Aligner
    symbol: Symbols
    of_weight: npt.NDArray[np.bool_]  # by row: a module with parameters
    looks_so: npt.NDArray[np.bool_]  # by name of an op: what modules with parameters are made of
    weighty: npt.NDArray[np.bool_]  # by name of an op: made of parameters, whoever's
    is_cell: npt.NDArray[np.bool_]  # by row: a recurrent cell, which runs once for each step in time
    is_learned: bool
    is_registered: bool

    def take(self, chosen: Symbols) -> _Rows:
        """Some of the rows, each as the call of its module that it is among them."""
        order = np.argsort(chosen, kind="stable")
        call = np.empty(len(chosen), np.int64)
        call[order] = np.arange(len(chosen)) - np.searchsorted(chosen[order], chosen[order])
        picked = {name: getattr(self, name)[chosen] for name in ("module", "symbol", "of_weight", "is_cell")}
        return replace(self, call=call, **picked)


@dataclass
class _Found:
    """Matches as positions in the items and in the rows, and the number of the pass."""

    items: list[Symbols] = field(default_factory=list)
    rows: list[Symbols] = field(default_factory=list)
    calls: list[Symbols] = field(default_factory=list)
    passes: list[Symbols] = field(default_factory=list)
    confidence: list[npt.NDArray[np.float64]] = field(default_factory=list)
    next_pass: int = 0

    def add(self, items: Symbols, rows: Symbols, calls: Symbols, confidence: npt.NDArray[np.float64]) -> None:
        self.items.append(items)
        self.rows.append(rows)
        self.calls.append(calls)
        self.confidence.append(confidence)
        self.passes.append(np.full(len(items), self.next_pass))
        self.next_pass += 1

    def add_to_last(self, items: Symbols, rows: Symbols, calls: Symbols) -> None:
        """More ops of the same pass. Which module they belong to is a guess."""
        self.items.append(items)
        self.rows.append(rows)
        self.calls.append(calls)
        self.confidence.append(np.full(len(items), _UNSURE))
        self.passes.append(np.full(len(items), self.next_pass - 1))


@dataclass(frozen=True)
class Placed:
    """A model on the ops of a trace."""

    matches: pa.Table
    """`event_id`, `module_id`, `call`, pass and confidence of what was found."""
    fused: pa.Table
    """Modules without an op, with the one (`event_id`) of the module before, and the `word` that would show them."""
    missing: pa.Array
    """For each module, the number of its calls for which nothing was found."""


def match_model(connection: duckdb.DuckDBPyConnection, model: Model) -> Placed:
    """Place the model on the ops of `forward_item`.

    Raises `ModelMismatchError` with the first place where they part if no stretch of the trace fits the model.
    """
    items = _read_items(connection)
    rows = _learned_rows(model, items) if model.ops else _typed_rows(connection, model, items)
    stretches = list(_stretches(connection, items))
    windows = [window for stretch in stretches for window in stretch]
    found = _Found()
    for stretch in stretches if len(rows.symbol) else []:
        _match_stretch(items, rows, stretch, found)
    if not found.items:
        raise _mismatch(model, items, rows, windows)
    _check_left_over(model, items, rows, windows, found)
    missing = _missing_calls(len(model.modules), rows, found)
    return Placed(_recomputed(connection, items, rows, found), _fused(model, items, rows, found), missing)


# --- what is compared ------------------------------------------------------------------------------------------------


def _read_items(connection: duckdb.DuckDBPyConnection) -> _Items:
    table = connection.sql(
        "select event_id, track_id, start_ns, end_ns, coalesce(call_id, -1) as call_id, name"
        " from forward_item order by start_ns, event_id"
    ).to_arrow_table()
    coded = table.column("name").combine_chunks().dictionary_encode()
    numbers = ("event_id", "track_id", "start_ns", "end_ns", "call_id")
    event, track, start, end, call = (table.column(name).to_numpy().astype(np.int64) for name in numbers)
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return _Items(event, track, start, end, call, codes, coded.dictionary.to_pylist())


def _learned_rows(model: Model, items: _Items) -> _Rows:
    """The ops that the capture has seen. Only equal names match."""
    number = {name: code for code, name in enumerate(items.names)}
    unknown = len(items.names)
    symbol = np.array([number.get(name, unknown) for name, _, _ in model.ops], np.int64)
    weights = np.zeros((unknown + 1, unknown), np.int32)
    np.fill_diagonal(weights, _MAIN)
    module = np.array([module for _, module, _ in model.ops], np.int64)
    call = np.array([call for _, _, call in model.ops], np.int64)
    nothing = np.zeros(unknown, bool)
    every = np.ones(len(symbol), bool)
    return _Rows(module, call, Aligner(weights), symbol, every, nothing, nothing, ~every, True, False)


def _typed_rows(connection: duckdb.DuckDBPyConnection, model: Model, items: _Items) -> _Rows:
    """The modules without children, with the evidence of their types."""
    parents = set(model.modules.column("parent_id").to_pylist())
    leaves = [
        (module_id, kind)
        for module_id, kind in zip(
            model.modules.column("module_id").to_pylist(), model.modules.column("type").to_pylist(), strict=True
        )
        if module_id not in parents and kind != "Identity"
    ]
    types = sorted({kind for _, kind in leaves})
    connection.register("leaf_type", pa.table({"type": types}))
    evidence = connection.sql(catalog.get("type_evidence").sql).fetchall()
    connection.unregister("leaf_type")
    number = {name: code for code, name in enumerate(items.names)}
    of_type = {kind: code for code, kind in enumerate(types)}
    weights = np.zeros((len(types), max(1, len(items.names))), np.int32)
    for kind, name, weight in evidence:
        weights[of_type[kind], number[name]] = weight
    module = np.array([module_id for module_id, _ in leaves], np.int64)
    symbol = np.array([of_type[kind] for _, kind in leaves], np.int64)
    heavy = np.array([_OF_WEIGHT.search(kind) is not None for kind in types], bool)
    looks_so = (weights[heavy] >= _MAIN).any(axis=0)
    weighty = np.array([_OF_WEIGHT.search(name) is not None for name in items.names], bool)
    call = np.zeros(len(leaves), np.int64)
    aligner = Aligner(weights)
    is_cell = np.array([kind.lower().endswith("cell") for _, kind in leaves], bool)
    return _Rows(module, call, aligner, symbol, heavy[symbol], looks_so, weighty, is_cell, False, model.registered)


def _stretches(connection: duckdb.DuckDBPyConnection, items: _Items) -> Iterator[list[Symbols]]:
    """The time between two backward passes or starts of steps: the items of each thread in it, as positions."""
    borders = connection.sql(
        "select start_ns from step union all select start_ns from engine_call where container_id is null order by 1"
    ).to_arrow_table()
    at = np.searchsorted(borders.column(0).to_numpy(), items.start, side="right")
    outside = np.flatnonzero(items.call < 0)
    for stretch in np.split(outside, np.flatnonzero(np.diff(at[outside])) + 1):
        threads = np.unique(items.track[stretch])
        if len(threads):
            yield [stretch[items.track[stretch] == thread] for thread in threads]


# --- one stretch of forward ------------------------------------------------------------------------------------------


def _match_stretch(items: _Items, rows: _Rows, windows: list[Symbols], found: _Found) -> None:
    """Find the model on any thread (there may be replicas), else spread over several: one waits while another runs."""
    before = found.next_pass
    for window in windows:
        _match_window(items, rows, window, found)
    if found.next_pass == before and len(windows) > 1:
        _match_window(items, rows, np.sort(np.concatenate(windows)), found)


def _match_window(items: _Items, rows: _Rows, window: Symbols, found: _Found) -> None:
    """Find the model in a row of ops, as often as it runs there."""
    copies = _copies(rows, items.name[window])
    base = _unrolled(rows, items.name[window], copies)
    run = rows if base is None else rows.take(base)
    share = len(window) / max(1, copies)
    at = 0
    while at < len(window):
        last = copies <= 1 or len(window) - at < _SLACK * share
        columns = window[at:] if last else _no_longer(run, items, window[at : at + int(_SLACK * share)])
        alignment = run.aligner.align(run.symbol, items.name[columns])
        hit = np.flatnonzero(alignment.first >= 0)
        if not _fits(items, run, columns, alignment.first[hit], hit):
            break
        sure = alignment.first[hit] == alignment.last[hit]
        if run.is_registered:
            sure &= ~_has_rival(run, hit, items.name[columns[alignment.first[hit]]])
        places = np.where(sure, _SURE, _UNSURE)
        found.add(columns[alignment.first[hit]], hit if base is None else base[hit], run.call[hit], places)
        for more, again in _more_slices(items, run, columns, alignment.first):
            found.add_to_last(more, again if base is None else base[again], run.call[again])
        if last:
            break
        at += int(alignment.first[hit].max()) + 1


def _has_rival(rows: _Rows, hit: Symbols, names: Symbols) -> npt.NDArray[np.bool_]:
    """Whether a module that was not found could stand in the place of one that was: either may be what never runs."""
    weights = rows.aligner.weights
    missing = np.zeros((len(weights), len(rows.symbol) + 1), np.int64)
    missing[rows.symbol, np.arange(1, len(rows.symbol) + 1)] = 1
    missing[:, hit + 1] = 0
    before = missing.cumsum(axis=1)
    between = before[:, np.append(hit[1:], len(rows.symbol))] - before[:, np.append(0, hit[:-1] + 1)]
    answer: npt.NDArray[np.bool_] = ((weights[:, names] > 0) & (between > 0)).any(axis=0)
    return answer


def _no_longer(rows: _Rows, items: _Items, columns: Symbols) -> Symbols:
    """As many of the columns as it takes to find as much, so that no module is found in the next run of the model."""
    if len(rows.symbol) * len(columns) > _SEARCHED:
        return columns

    def hits(length: int) -> int:
        return int(np.count_nonzero(rows.aligner.align(rows.symbol, items.name[columns[:length]]).first >= 0))

    most = hits(len(columns))
    low, high = most, len(columns)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if hits(middle) >= most else (middle + 1, high)
    return columns[:high]


def _unrolled(rows: _Rows, names: Symbols, copies: int) -> Symbols | None:
    """The rows with those of a recurrent loop as often as it runs, by number; None if there is no such loop.

    Modules listed once may be called for each step in time. That is only believed where one of them is a recurrent cell
    and all ops of modules with parameters are then explained: layers of a larger model repeat, too.
    """
    heavy = np.flatnonzero(rows.of_weight)
    columns = names[rows.looks_so[names]] if rows.is_cell.any() else names[:0]
    extra = len(columns) // copies - len(heavy)
    if extra <= 0 or len(columns) % copies:
        return None
    fits = rows.aligner.weights >= _MAIN
    for length in range(min(extra, len(heavy)), 0, -1):
        for first in range(len(heavy) - length + 1) if extra % length == 0 else ():
            border = heavy[first + length] if first + length < len(heavy) else heavy[-1] + 1
            block = np.arange(heavy[first], border)
            if not rows.is_cell[block].any():
                continue
            times = extra // length + 1
            taken = np.concatenate((np.arange(block[0]), np.tile(block, times), np.arange(border, len(rows.symbol))))
            symbols = np.tile(rows.symbol[taken][rows.of_weight[taken]], copies)
            if fits[symbols, columns].all():
                return taken
    return None


def _fits(items: _Items, rows: _Rows, columns: Symbols, places: Symbols, hit: Symbols) -> bool:
    heavy = int(np.count_nonzero(rows.of_weight))
    heavy_hit = int(np.count_nonzero(rows.of_weight[hit]))
    if len(hit) >= _LEAST * len(rows.symbol) and heavy_hit >= _LEAST_OF_WEIGHT * heavy:
        return True
    if not rows.is_registered:
        return False
    weighty = rows.weighty[items.name[columns]]
    explained = int(np.count_nonzero(weighty[places])) >= _EXPLAINED * int(np.count_nonzero(weighty))
    return explained and heavy_hit > 0 and heavy_hit >= _LEAST_REGISTERED * heavy


def _more_slices(items: _Items, rows: _Rows, columns: Symbols, first: Symbols) -> Iterator[tuple[Symbols, Symbols]]:
    """A module with parameters also gets what follows its op under the same name and is no other module's."""
    taken = np.zeros(len(columns) + 1, bool)
    taken[first[first >= 0]] = True
    names = np.append(items.name[columns], -1)
    ends = first.copy()
    while True:
        after = ends + 1
        again = np.flatnonzero((first >= 0) & rows.of_weight & ~taken[after] & (names[after] == names[ends]))
        if not len(again) or not rows.looks_so.any():
            return
        yield columns[after[again]], again
        taken[after[again]] = True
        ends[again] = after[again]


def _copies(rows: _Rows, names: Symbols) -> int:
    """How often the model runs in a stretch: as often as the ops of its rarest kind of module allow."""
    weights = rows.aligner.weights
    least = np.inf
    counts = np.bincount(names, minlength=weights.shape[1])
    for symbol in np.unique(rows.symbol):
        fitting = counts[weights[symbol] >= _MAIN].sum() if symbol < len(weights) else 0
        if fitting:
            least = min(least, fitting / np.count_nonzero(rows.symbol == symbol))
    return max(1, int(least + 0.2)) if np.isfinite(least) else 1


# --- what does not fit -----------------------------------------------------------------------------------------------


def _mismatch(model: Model, items: _Items, rows: _Rows, windows: list[Symbols]) -> ModelMismatchError:
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


def _check_left_over(model: Model, items: _Items, rows: _Rows, windows: list[Symbols], found: _Found) -> None:
    """A larger model contains a smaller one of its kind: see whether too many ops are left that look like modules."""
    taken = np.concatenate(found.items)
    matched = np.concatenate([window for window in windows if np.isin(window, taken).any()])
    alike = matched[rows.looks_so[items.name[matched]]]
    free = alike[~np.isin(alike, taken)]
    if len(free) > _LEFT_OVER * len(alike):
        first = free[np.argmin(items.start[free])]
        raise ModelMismatchError(
            f"{model.source} does not fit the trace: {len(free)} of {len(alike)} ops that look like its modules"
            f" belong to none; the first one is {items.names[items.name[first]]} (event {items.event[first]})",
            hint="Is it the model that was traced, or a smaller one?",
        )


# --- what has no op of its own ----------------------------------------------------------------------------------------


def _missing_calls(modules: int, rows: _Rows, found: _Found) -> pa.Array:
    calls, call_of_row = np.unique(rows.module * (int(rows.call.max()) + 1) + rows.call, return_inverse=True)
    number, row = (np.concatenate(part) for part in (found.passes, found.rows))
    met = np.unique(number * len(calls) + call_of_row[row]) % len(calls)
    missing = found.next_pass - np.bincount(met, minlength=len(calls))
    return pa.array(np.bincount(calls // (int(rows.call.max()) + 1), missing, modules).astype(np.int64))


def _fused(model: Model, items: _Items, rows: _Rows, found: _Found) -> pa.Table:
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
        missing = np.setdiff1d(np.arange(row[0], row[-1]), row)
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
    return pa.Table.from_pylist([candidate for candidate in candidates if len(candidate["word"]) > 2], schema)


# --- what is computed again ------------------------------------------------------------------------------------------


def _recomputed(connection: duckdb.DuckDBPyConnection, items: _Items, rows: _Rows, found: _Found) -> pa.Table:
    """Give ops that backward computes again (activation checkpointing) the module of their first computation.

    Such ops stand near the start of a node and repeat the forward ops one by one, and the op that created the node is
    among them.
    """
    every = (found.items, found.rows, found.calls, found.passes)
    position, row, call, number = (np.concatenate(part) for part in every)
    confidence = np.concatenate(found.confidence)
    parts: list[dict[str, Any]] = [
        {
            "event_id": items.event[position],
            "module_id": rows.module[row],
            "call": call,
            "pass_number": number,
            "confidence_pct": confidence,
        }
    ]
    row_of = np.full(len(items.event), -1, np.int64)
    row_of[position] = row
    call_of = np.zeros(len(items.event), np.int64)
    call_of[position] = call
    sure_of = np.zeros(len(items.event))
    sure_of[position] = confidence
    for inside, forward, origin, follows in _inside_nodes(connection, items):
        start, length, skipped = max(
            (
                (*_repeat(items.name[forward], items.name[inside[skipped:]], origin, follows), skipped)
                for skipped in range(min(_BEFORE, len(inside)))
            ),
            key=lambda repeat: repeat[1],
        )
        if length < _RECOMPUTED:
            continue
        inside = inside[skipped:]
        source = forward[start : start + length]
        known = np.flatnonzero(row_of[source] >= 0)
        again = row_of[source][known]
        parts.append(
            {
                "event_id": items.event[inside[:length][known]],
                "module_id": rows.module[again],
                "call": call_of[source][known],
                "pass_number": np.full(len(known), found.next_pass),
                "confidence_pct": sure_of[source][known],
            }
        )
        found.next_pass += 1
    return pa.concat_tables(pa.table(part, schema=_SCHEMA) for part in parts)


def _inside_nodes(connection: duckdb.DuckDBPyConnection, items: _Items) -> Iterator[tuple[Symbols, Symbols, int, bool]]:
    """For each node with enough ops in it: these, the forward ops of the thread that created it, and which it was.

    The op of a checkpoint itself is looked through and no item; it is then said that its ops follow the item named.
    """
    inner = np.flatnonzero(items.call >= 0)
    calls, counts = np.unique(items.call[inner], return_counts=True)
    busy = calls[counts >= _RECOMPUTED]
    if not len(busy):
        return
    connection.register("busy_call", pa.table({"event_id": busy}))
    origins = connection.sql(
        "select engine_call.event_id, nesting.start_ns, nesting.track_id from busy_call"
        " inner join engine_call on busy_call.event_id = engine_call.event_id"
        " inner join node on engine_call.event_id = node.event_id"
        " inner join nesting on node.forward_id = nesting.event_id"
        " order by engine_call.start_ns"
    ).fetchall()
    connection.unregister("busy_call")
    order = inner[np.argsort(items.call[inner], kind="stable")]
    sorted_calls = items.call[order]
    forward = {thread: np.flatnonzero((items.call < 0) & (items.track == thread)) for thread in np.unique(items.track)}
    for event_id, start_ns, thread in origins:
        low, high = np.searchsorted(sorted_calls, [event_id, event_id + 1])
        origin = int(np.searchsorted(items.start[forward[thread]], start_ns, side="right")) - 1
        if origin >= 0:
            follows = bool(items.end[forward[thread][origin]] <= start_ns)
            yield order[low:high], forward[thread], origin, follows


def _repeat(forward: Symbols, inside: Symbols, origin: int, follows: bool) -> tuple[int, int]:
    """Start and length of the longest stretch of forward around `origin`, or after it, that `inside` begins with."""
    best = 0, 0
    earliest = origin + 1 if follows else max(0, origin - len(inside) + 1)
    for start in range(earliest, min(earliest + 1 if follows else origin + 1, len(forward))):
        if forward[start] != inside[0]:
            continue
        window = forward[start : start + len(inside)]
        differs = np.flatnonzero(window != inside[: len(window)])
        length = int(differs[0]) if len(differs) else len(window)
        if start + length > origin and length > best[1] and len(np.unique(inside[:length])) > 1:
            best = start, length
    return best
