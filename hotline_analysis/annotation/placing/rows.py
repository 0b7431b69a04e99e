"""The two sides of the alignment of a model with a trace: rows (parts of the model) and columns (ops)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from hotline_analysis import catalog
from hotline_analysis.annotation.align import Aligner
from hotline_analysis.annotation.model_file import Model
from hotline_analysis.annotation.placing.indices import (
    CallNumbers,
    EventIds,
    Integers,
    ItemIndices,
    ModuleId,
    ModuleIds,
    NameCodes,
    PassNumbers,
    RowIndex,
    RowIndices,
    Symbols,
    Times,
)

Flags = npt.NDArray[np.bool_]

SURE = 100.0
UNSURE = 50.0  # another place in the same stretch is as good
MAIN = 8  # weight of a module's main op, see `type_evidence`
# The first does nothing, the second only holds the weights of an attention.
_NEVER_CALLED = {"Identity", "NonDynamicallyQuantizableLinear"}
_TORCH = re.compile(
    r"(Conv(Transpose)?[123]d|Linear|Bilinear|(Sync)?BatchNorm([123]d)?|LayerNorm|GroupNorm|InstanceNorm[123]d"
    r"|Embedding(Bag)?|LSTM|GRU|RNN|LSTMCell|GRUCell|RNNCell)"
)
_USES_PARAMETERS = re.compile("conv|linear|dense|norm|embed|lstm|gru|rnn", re.IGNORECASE)


@dataclass(frozen=True)
class Items:
    """The ops of `forward_item`, as columns."""

    event: EventIds
    track: Integers
    start: Times
    end: Times
    call: EventIds  # the engine's call around the op, or -1
    name: NameCodes  # number of the name
    names: list[str]


_FLAGS = ("is_heavy", "has_parameters", "is_unseen", "is_cell", "in_sequence", "is_optional", "is_whole")


@dataclass
class Rows:
    """The parts of a model to find: module and call of each row, and the row's symbol in the table of weights."""

    module: ModuleIds
    call: CallNumbers
    parent: ModuleIds  # by module: the parent module, or -1
    aligner: Aligner
    symbol: Symbols
    is_heavy: Flags  # by row: a module with parameters
    has_parameters: Flags  # by row: the same, or an op with parameters
    is_unseen: Flags  # by row: a torch module with parameters whose op does not occur in the trace
    looks_heavy: Flags  # by op name: an op of modules with parameters
    uses_parameters: Flags  # by op name: uses parameters, in this model or elsewhere
    is_cell: Flags  # by row: a recurrent cell, which runs once per time step
    in_sequence: Flags  # by row: child of a `Sequential`, which runs nothing between its modules
    is_optional: Flags  # by row: not in every call
    is_whole: Flags  # by row: an op that may replace all other ops of its module and submodules
    is_learned: bool
    is_registered: bool

    def take(self, chosen: RowIndices) -> Rows:
        """A subset of the rows, with call numbers counted within the subset.

        Rows that may run as a whole are assumed to do so, and count as rows with parameters, as their submodules would.
        """
        order = np.argsort(chosen, kind="stable")
        call = np.empty(len(chosen), np.int64)
        call[order] = np.arange(len(chosen)) - np.searchsorted(chosen[order], chosen[order])
        fields = {name: getattr(self, name)[chosen] for name in ("module", "symbol", *_FLAGS)}
        fields["is_heavy"] |= fields["is_whole"]
        fields["is_optional"] &= ~fields["is_whole"]
        return replace(self, call=call, **fields)

    def part(self, begin: RowIndex, end: RowIndex) -> Rows:
        """The rows from `begin` to before `end`, with unchanged call numbers."""
        return replace(self, **{name: getattr(self, name)[begin:end] for name in ("module", "symbol", "call", *_FLAGS)})

    def replaced(self, whole: Flags) -> Flags:
        """By row: whether the row's module, or a module around it, runs as a whole in one of the `whole` rows."""
        covers = np.zeros(len(self.parent), bool)
        covers[self.module[whole]] = True
        is_covered = np.zeros(len(self.parent), bool)
        for module, parent in enumerate(self.parent.tolist()):  # parents come before children
            is_covered[module] = parent >= 0 and (covers[parent] or is_covered[parent])
        answer: Flags = is_covered[self.module] | (covers[self.module] & ~self.is_whole)
        return answer

    def is_written_out(self) -> Flags:
        """By row: whether it is part of a hand-written module, made of several ops that any module may run."""
        module, call = (
            np.unique(key, return_inverse=True)[1].reshape(-1)
            for key in (self.module, self.module * (int(self.call.max(initial=0)) + 1) + self.call)
        )
        answer: Flags = (np.bincount(call) > 1)[call] & (np.bincount(module, self.is_heavy) == 0)[module]
        return answer & (not self.is_learned)

    def is_inside(self, before: ModuleId, after: ModuleId, module: ModuleId) -> bool:
        """Whether a module is in the innermost module around two others."""
        enclosing = set(self.upwards(after))
        common = next((outer for outer in self.upwards(ModuleId(int(self.parent[before]))) if outer in enclosing), -1)
        return common < 0 or common in self.upwards(module)

    def upwards(self, module: ModuleId) -> list[ModuleId]:
        """A module and the modules around it, the innermost first."""
        chain = []
        while module >= 0:
            chain.append(module)
            module = ModuleId(int(self.parent[module]))
        return chain


@dataclass
class Found:
    """Matches as positions in the items and in the rows, and the number of the pass."""

    items: list[ItemIndices] = field(default_factory=list)
    rows: list[RowIndices] = field(default_factory=list)
    calls: list[CallNumbers] = field(default_factory=list)
    passes: list[PassNumbers] = field(default_factory=list)
    confidence: list[npt.NDArray[np.float64]] = field(default_factory=list)
    expected: list[RowIndices] = field(default_factory=list)  # by pass: the expected rows
    roots: dict[int, ModuleId] = field(default_factory=dict)  # by pass of several models: the root module
    first_pass: int = 0
    next_pass: int = 0

    def take(self, other: Found, number: int) -> None:
        """Add a pass from another search, keeping its number."""
        for index, numbers in enumerate(other.passes):
            if len(numbers) and numbers[0] == number:
                for name in ("items", "rows", "calls", "passes", "confidence"):
                    getattr(self, name).append(getattr(other, name)[index])
        self.expected.append(other.expected[number - other.first_pass])
        self.next_pass = max(self.next_pass, number + 1)

    def add(
        self,
        items: ItemIndices,
        rows: RowIndices,
        calls: CallNumbers,
        confidence: npt.NDArray[np.float64],
        expected: RowIndices,
    ) -> None:
        """Add the matches of one pass of the model."""
        self.items.append(items)
        self.rows.append(rows)
        self.calls.append(calls)
        self.confidence.append(confidence)
        self.passes.append(np.full(len(items), self.next_pass))
        self.expected.append(expected)
        self.next_pass += 1

    def add_to_last(self, items: ItemIndices, rows: RowIndices, calls: CallNumbers) -> None:
        """Add more ops with guessed modules to the last pass."""
        self.items.append(items)
        self.rows.append(rows)
        self.calls.append(calls)
        self.confidence.append(np.full(len(items), UNSURE))
        self.passes.append(np.full(len(items), self.next_pass - 1))

    def doubt(self, matches: Flags) -> None:
        """Mark matches that could belong to another module."""
        borders = np.cumsum([len(part) for part in self.items])[:-1]
        parts = zip(self.confidence, np.split(matches, borders), strict=True)
        self.confidence = [np.where(doubtful, UNSURE, confidence) for confidence, doubtful in parts]


def read_items(connection: duckdb.DuckDBPyConnection) -> Items:
    """The ops of `forward_item` in time order."""
    table = connection.sql(
        "select event_id, track_id, start_ns, end_ns, coalesce(call_id, -1) as call_id, name"
        " from forward_item order by start_ns, event_id"
    ).pl()
    names = table["name"].unique(maintain_order=True)
    numbers = ("event_id", "track_id", "start_ns", "end_ns", "call_id")
    event, track, start, end, call = (table[name].to_numpy().astype(np.int64) for name in numbers)
    codes = table["name"].cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return Items(event, track, start, end, call, codes, names.to_list())


def learned_rows(model: Model, items: Items) -> Rows:
    """The ops recorded during capture. Only equal names match."""
    number = {name: code for code, name in enumerate(items.names)}
    unknown = len(items.names)
    symbol = np.array([number.get(name, unknown) for name, _, _ in model.ops], np.int64)
    weights = np.zeros((unknown + 1, unknown), np.int32)
    np.fill_diagonal(weights, MAIN)
    none = np.zeros(len(symbol), bool)
    return Rows(
        module=np.array([module for _, module, _ in model.ops], np.int64),
        call=np.array([call for _, _, call in model.ops], np.int64),
        parent=_parents(model),
        aligner=Aligner(weights),
        symbol=symbol,
        is_heavy=~none,
        has_parameters=np.array([_USES_PARAMETERS.search(name) is not None for name, _, _ in model.ops], bool),
        is_unseen=none,
        looks_heavy=np.zeros(unknown, bool),
        uses_parameters=_uses_parameters(items),
        is_cell=none,
        in_sequence=none,
        is_optional=none,
        is_whole=none,
        is_learned=True,
        is_registered=False,
    )


def typed_rows(connection: duckdb.DuckDBPyConnection, model: Model, items: Items) -> Rows:
    """The parts computed by each module itself, matched by type evidence."""
    parts = _parts(connection, model)
    kinds = sorted({kind for _, kind in parts})
    types = {kind: kind.rstrip("?!") for kind in kinds}
    connection.register(
        "leaf_type", pl.DataFrame({"type": sorted(set(types.values()))}, {"type": pl.String}).to_arrow()
    )
    evidence: dict[str, list[tuple[str, int]]] = {}
    for kind, name, weight in connection.sql(catalog.get("type_evidence").sql).fetchall():
        evidence.setdefault(kind, []).append((name, weight))
    connection.unregister("leaf_type")
    number = {name: code for code, name in enumerate(items.names)}
    of_kind = {kind: code for code, kind in enumerate(kinds)}
    is_optional = np.array([kind != types[kind] for kind in kinds], bool)
    is_whole = np.array([kind.endswith("!") for kind in kinds], bool)
    weights = np.zeros((len(kinds), max(1, len(items.names))), np.int32)
    for code, kind in enumerate(kinds):
        for name, weight in evidence.get(types[kind], []):
            weights[code, number[name]] = weight - int(is_optional[code] and not is_whole[code])
    module = np.array([module_id for module_id, _ in parts], np.int64)
    symbol = np.array([of_kind[kind] for _, kind in parts], np.int64)
    # A hand-written module may run no op of its type. A missing op is therefore no evidence against the model.
    is_seen = weights.any(axis=1) | model.registered
    is_heavy = np.array([_USES_PARAMETERS.search(kind) is not None for kind in kinds], bool) & ~is_optional & is_seen
    is_cell = np.array([kind.lower().endswith("cell") for kind in kinds], bool)
    return Rows(
        module=module,
        call=np.zeros(len(parts), np.int64),
        parent=_parents(model),
        aligner=Aligner(weights),
        symbol=symbol,
        is_heavy=is_heavy[symbol],
        has_parameters=is_heavy[symbol],
        is_unseen=(~weights.any(axis=1) & np.array([_TORCH.fullmatch(kind) is not None for kind in kinds], bool))[
            symbol
        ],
        looks_heavy=(weights[is_heavy | is_whole] >= MAIN).any(axis=0),
        uses_parameters=_uses_parameters(items),
        is_cell=is_cell[symbol],
        in_sequence=_in_sequence(model)[module],
        is_optional=is_optional[symbol],
        is_whole=is_whole[symbol],
        is_learned=False,
        is_registered=model.registered,
    )


def _uses_parameters(items: Items) -> Flags:
    return np.array([_USES_PARAMETERS.search(name) is not None for name in items.names], bool)


def _parts(connection: duckdb.DuckDBPyConnection, model: Model) -> list[tuple[int, str]]:
    """The modules that compute something themselves, with their type or `type_part`s, in execution order.

    A module with children computes its own parts after its children.
    """
    numbers, above, types = (model.modules.column(name).to_pylist() for name in ("module_id", "parent_id", "type"))
    runs = [kind not in _NEVER_CALLED for kind in types]
    parents = {parent for parent, is_run in zip(above, runs, strict=True) if is_run}
    has_children = [number in parents for number in numbers]
    kinds = sorted(set(zip(types, has_children, strict=True)))
    schema = {"type": pl.String, "has_children": pl.Boolean}
    connection.register("module_type", pl.DataFrame(kinds, schema, orient="row").to_arrow())
    parts_of: dict[tuple[str, bool], list[str]] = {}
    for kind, has_any, _, part in connection.sql(catalog.get("type_part").sql).fetchall():
        parts_of.setdefault((kind, has_any), []).append(part)
    connection.unregister("module_type")
    module_parts: list[tuple[int, str]] = []
    open_modules: list[tuple[int, list[str]]] = []
    for number, parent, kind, has_any, is_run in zip(numbers, above, types, has_children, runs, strict=True):
        while open_modules and open_modules[-1][0] != parent:
            module, parts = open_modules.pop()
            module_parts += [(module, part) for part in parts]
        open_modules.append((number, parts_of.get((kind, has_any), []) if is_run else []))
    while open_modules:
        module, parts = open_modules.pop()
        module_parts += [(module, part) for part in parts]
    return module_parts


def _parents(model: Model) -> ModuleIds:
    parents: ModuleIds = pl.Series(model.modules.column("parent_id")).fill_null(-1).to_numpy().astype(np.int64)
    return parents


def _in_sequence(model: Model) -> Flags:
    """By module: whether it is a child of a plain `Sequential`."""
    parents = _parents(model)
    is_sequence = np.array([kind == "Sequential" for kind in model.modules.column("type").to_pylist()], bool)
    answer: Flags = (parents >= 0) & is_sequence[parents]
    return answer
