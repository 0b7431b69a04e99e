"""Find the SQL files under `queries/` and read their headers.

The first folder says what a query is for and when it runs (its kind), the second one its subject:

    annotate/   builds one table of one rank during import; those in a folder `private` are not kept
    views/      a view over the tables of all ranks, made when a run is opened
    answers/    answers one question about a run
    advice/     finds time of one step that is spent for nothing
    whatif/     gives predictions the rows that they change
    charts/     gives one chart its rows
    export/     gives one exporter its rows

Each query is one file, and its leading comment is its contract:

    -- GPU idle time inside each training step.        the summary: the first paragraph
    --
    -- Idle is the time in which no kernel runs.       the description: further paragraphs
    --
    -- :param step BIGINT = NULL     only this step    without `=` the parameter is required
    -- :param by VARCHAR in (op, step) = 'op'  rows    the words that it can be
    -- :param limit BIGINT >= 0 = 10 so many rows      the least number that it can be; the most follows as `<= 99`
    -- :param n BIGINT >= 0 or NULL = 10 rows          NULL may be given, although it is not the default
    -- :param phase PHASE = NULL     only this phase   a type with a meaning, whose words stand in `vocabulary`
    -- :reads gpu_busy, step                           the tables, views and steps it needs
    -- :writes step_idle                               annotate only; the query's own name if left out
    -- :only_with kernel or copy                       no answers or views; no row where both of these have none
    -- :only_with event where dur_ns > 0               no row where no event has a duration
    -- :kept                                           views only; a table in memory, once it has been asked for
    -- :column idle_ns BIGINT        GPU idle time     in the order of the result

Prose is paragraphs. What is indented and begins with a word and two spaces is an item of a list:

    -- A gap is                                        the item goes on in lines that are indented
    --   load_data  before a forward pass
    --   other      everything else

A query that is too long for one statement is a folder of its name, `idle/`, with the query itself, `idle/idle.sql`, and
its steps beside it. A step is a table that exists while the query runs, and nothing else may read it. Its header names
the query's parameters that it uses (`:takes step, phase`). `:reads` gives the order.

The queries of `advice/` all have the same parameters and columns (`RULE_PARAMS`, `RULE_COLUMNS`), so they declare none,
but what they find and what to do about it:

    -- :what small kernels                             how many and their time follow; `{name}` is the one with most
    -- :do fuse them                                   a sentence
    -- :scenario compile                               what predicts the gain of doing so; may be left out

A directive may go on in lines that are indented further. The file name is the query's name, unique among all. A header
that breaks these rules is a mistake in this package, and raises ValueError.

What many queries have in common is a macro. `macros/<subject>.sql` begins with a comment on the subject, and holds one
or more of them, each after a comment that says what it gives:

    -- Whether a value is the one that is asked for.
    create or replace macro is_asked(asked, value) as
    asked is null or value = asked;

`rules/<table>.csv` holds rules that are data: what names of events and of modules say. The annotation has a table of
each, with the columns of the file; an empty field is NULL, and `position` is the number of the rule, as in most of them
the first one that matches counts. `why` says more about a rule, or about it and those that follow; no table has it.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from hotline_analysis.catalog.folder import read_macros, read_queries
from hotline_analysis.catalog.query import KINDS as KINDS
from hotline_analysis.catalog.query import PARAM_TYPES as PARAM_TYPES
from hotline_analysis.catalog.query import PRIVATE as PRIVATE
from hotline_analysis.catalog.query import RULE_COLUMNS as RULE_COLUMNS
from hotline_analysis.catalog.query import RULE_PARAMS as RULE_PARAMS
from hotline_analysis.catalog.query import Column as Column
from hotline_analysis.catalog.query import Kind as Kind
from hotline_analysis.catalog.query import Macro as Macro
from hotline_analysis.catalog.query import Param as Param
from hotline_analysis.catalog.query import ParamType as ParamType
from hotline_analysis.catalog.query import Query as Query
from hotline_analysis.catalog.query import Value as Value
from hotline_analysis.errors import QueryNotFoundError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import duckdb
    import pyarrow as pa

COMPUTED = (
    "advice",
    "critical_path",
    "critical_path_breakdown",
    "detail_size",
    "diff",
    "encodings_total",
    "frequent_kernel_patterns",
    "gpu_efficiency",
    "gpu_or_cpu_bound",
    "optimizer_bottleneck",
    "slowest_places",
    "step_limits",
    "tensor_core_use",
)
"""Answers that are no SQL file but a function over queries, which `hotline_analysis.answers.named` has."""


@functools.cache
def shipped_folder() -> Traversable:
    """The folder of the SQL files: `queries` inside the installed package, or next to the package in a checkout.

    Python that starts in a checkout imports the package from there, whatever is installed.
    """
    package = resources.files("hotline_analysis")
    installed = package / "queries"
    return installed if installed.is_dir() or not isinstance(package, Path) else package.parent / "queries"


def queries(*kinds: Kind, root: Traversable | None = None) -> list[Query]:
    """Return the queries of some kinds, or all, sorted by name. `root` replaces the shipped folder."""
    found = _shipped() if root is None else read_queries(root)
    return [query for query in found.values() if query.kind in (kinds or KINDS)]


def get(name: str, *, root: Traversable | None = None) -> Query:
    """Return the query of that name, whatever its kind. Raises `QueryNotFoundError`."""
    found = _shipped() if root is None else read_queries(root)
    if name in COMPUTED:
        raise QueryNotFoundError(
            f"{name} is a function over several queries, and no query.",
            hint=f"Call hotline_analysis.{name}, or ask `hotline query {name}`.",
        )
    if name not in found:
        close = difflib.get_close_matches(name, [*found, *COMPUTED], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`hotline queries` lists all of them."
        raise QueryNotFoundError(f"There is no query named {name!r}.", hint=hint)
    return found[name]


def asked_of_a_run(name: str) -> Query:
    """Return the query of that name if runs are asked it. Raises `QueryNotFoundError`, also for one of the import."""
    query = get(name)
    if query.kind == "annotate":
        held = not query.is_private
        raise QueryNotFoundError(
            f"{name} builds a table when a trace is imported; a run is not asked it.",
            hint=f'Read the table: `hotline sql "from {query.writes}" TRACE`.' if held else "No run holds its table.",
        )
    return query


def macros(*, root: Traversable | None = None) -> Mapping[str, Macro]:
    """The macros that queries share, by name, each after those that it uses. `root` replaces the shipped folder."""
    return _shipped_macros() if root is None else read_macros(root)


@functools.cache
def rules() -> Mapping[str, pa.Table]:
    """The rules that are data, a table for each file of `queries/rules`.

    Polars reads them: to load the reader of Arrow takes 50 ms, five times as long as to read them.
    """
    import polars as pl

    types = {"weight": pl.Int32, "has_children": pl.Boolean, "roles": pl.String, "is_float": pl.Boolean}
    tables = {}
    for file in shipped_folder().joinpath("rules").iterdir():
        if file.name.endswith(".csv"):
            # Whatever row tells the type of a column.
            rules = pl.read_csv(file.read_bytes(), infer_schema_length=None)
            rules = rules.cast({name: kind for name, kind in types.items() if name in rules.columns})
            position = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("position")
            tables[file.name.removesuffix(".csv")] = rules.drop("why", strict=False).with_columns(position).to_arrow()
    return tables


@functools.cache
def compares_ranks(name: str) -> bool:
    """Whether a shipped query takes all ranks also if it is about one: those of whose collectives are known."""
    shipped = _shipped()
    views = [table for table in shipped[name].tables if table in shipped and shipped[table].kind == "views"]
    return "collective_match" in views or any(map(compares_ranks, views))


def goes_rank_by_rank(name: str) -> bool:
    """Whether the answer of a shipped query is in order of ranks, and each of its rows follows from one rank alone."""
    query = _shipped()[name]
    orders = _LAST_ORDER.findall(query.sql)
    return (
        query.columns[0].name == "rank"
        and "rank" in {param.name for param in query.params}
        and bool(orders)
        and orders[-1].rpartition(".")[2] == "rank"
        and not compares_ranks(name)
    )


def parsed(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """Parse a statement made of shipped SQL. On a small trace that takes as long as to run it, so it is done once.

    Any connection does, and there always is one: without, duckdb would start a database only for this.
    """
    if statement not in _PARSED:
        _PARSED[statement] = connection.extract_statements(statement)[0]
    return _PARSED[statement]


_PARSED: dict[str, duckdb.Statement] = {}
_LAST_ORDER = re.compile(r"^order by ([\w.]+)", re.MULTILINE)


@functools.cache
def _shipped() -> dict[str, Query]:
    return read_queries(shipped_folder())


@functools.cache
def _shipped_macros() -> Mapping[str, Macro]:
    return read_macros(shipped_folder())
