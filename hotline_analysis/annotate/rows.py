"""What is compared when a model is placed on a trace: the parts of the model, the rows, and the ops, the columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotate.align import Aligner, Symbols
from hotline_analysis.annotate.model import Model

Flags = npt.NDArray[np.bool_]

SURE = 100.0
UNSURE = 50.0  # another place in the same stretch is as good
MAIN = 8  # weight of the op that a module is made of, see `type_evidence`
_OF_WEIGHT = re.compile("conv|linear|dense|norm|embed|lstm|gru|rnn", re.IGNORECASE)


@dataclass(frozen=True)
class Items:
    """The ops of `forward_item`, as columns."""

    event: Symbols
    track: Symbols
    start: Symbols
    end: Symbols
    call: Symbols  # the engine's call around the op, -1 for none
    name: Symbols  # number of the name
    names: list[str]


@dataclass
class Rows:
    """What is to be found: the module of each row, which call of it, and the symbol that the weights know."""

    module: Symbols
    call: Symbols
    parent: Symbols  # by module: the one around it, -1 for none
    aligner: Aligner
    symbol: Symbols
    of_weight: Flags  # by row: a module with parameters
    looks_so: Flags  # by name of an op: what modules with parameters are made of
    weighty: Flags  # by name of an op: made of parameters, whoever's
    is_cell: Flags  # by row: a recurrent cell, which runs once for each step in time
    is_learned: bool
    is_registered: bool

    def take(self, chosen: Symbols) -> Rows:
        """Some of the rows, each as the call of its module that it is among them."""
        order = np.argsort(chosen, kind="stable")
        call = np.empty(len(chosen), np.int64)
        call[order] = np.arange(len(chosen)) - np.searchsorted(chosen[order], chosen[order])
        picked = {name: getattr(self, name)[chosen] for name in ("module", "symbol", "of_weight", "is_cell")}
        return replace(self, call=call, **picked)


@dataclass
class Found:
    """Matches as positions in the items and in the rows, and the number of the pass."""

    items: list[Symbols] = field(default_factory=list)
    rows: list[Symbols] = field(default_factory=list)
    calls: list[Symbols] = field(default_factory=list)
    passes: list[Symbols] = field(default_factory=list)
    confidence: list[npt.NDArray[np.float64]] = field(default_factory=list)
    expected: list[Symbols] = field(default_factory=list)  # by pass: the rows that should have been found
    next_pass: int = 0

    def add(
        self,
        items: Symbols,
        rows: Symbols,
        calls: Symbols,
        confidence: npt.NDArray[np.float64],
        expected: Symbols,
    ) -> None:
        """What was found in one pass of the model."""
        self.items.append(items)
        self.rows.append(rows)
        self.calls.append(calls)
        self.confidence.append(confidence)
        self.passes.append(np.full(len(items), self.next_pass))
        self.expected.append(expected)
        self.next_pass += 1

    def add_to_last(self, items: Symbols, rows: Symbols, calls: Symbols) -> None:
        """More ops of the same pass. Which module they belong to is a guess."""
        self.items.append(items)
        self.rows.append(rows)
        self.calls.append(calls)
        self.confidence.append(np.full(len(items), UNSURE))
        self.passes.append(np.full(len(items), self.next_pass - 1))


def read_items(connection: duckdb.DuckDBPyConnection) -> Items:
    """The ops of `forward_item` in order of time."""
    table = connection.sql(
        "select event_id, track_id, start_ns, end_ns, coalesce(call_id, -1) as call_id, name"
        " from forward_item order by start_ns, event_id"
    ).to_arrow_table()
    coded = table.column("name").combine_chunks().dictionary_encode()
    numbers = ("event_id", "track_id", "start_ns", "end_ns", "call_id")
    event, track, start, end, call = (table.column(name).to_numpy().astype(np.int64) for name in numbers)
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Items(event, track, start, end, call, codes, coded.dictionary.to_pylist())


def learned_rows(model: Model, items: Items) -> Rows:
    """The ops that the capture has seen. Only equal names match."""
    number = {name: code for code, name in enumerate(items.names)}
    unknown = len(items.names)
    symbol = np.array([number.get(name, unknown) for name, _, _ in model.ops], np.int64)
    weights = np.zeros((unknown + 1, unknown), np.int32)
    np.fill_diagonal(weights, MAIN)
    module = np.array([module for _, module, _ in model.ops], np.int64)
    call = np.array([call for _, _, call in model.ops], np.int64)
    nothing = np.zeros(unknown, bool)
    every = np.ones(len(symbol), bool)
    known = (module, call, _parents(model), Aligner(weights), symbol, every, nothing, nothing, ~every)
    return Rows(*known, is_learned=True, is_registered=False)


def typed_rows(connection: duckdb.DuckDBPyConnection, model: Model, items: Items) -> Rows:
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
    looks_so = (weights[heavy] >= MAIN).any(axis=0)
    weighty = np.array([_OF_WEIGHT.search(name) is not None for name in items.names], bool)
    call = np.zeros(len(leaves), np.int64)
    aligner = Aligner(weights)
    is_cell = np.array([kind.lower().endswith("cell") for _, kind in leaves], bool)
    return Rows(
        module,
        call,
        _parents(model),
        aligner,
        symbol,
        heavy[symbol],
        looks_so,
        weighty,
        is_cell,
        False,
        model.registered,
    )


def _parents(model: Model) -> Symbols:
    parents: Symbols = model.modules.column("parent_id").fill_null(-1).to_numpy().astype(np.int64)
    return parents
