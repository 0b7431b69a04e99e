"""Find the SQL files under `queries/` and read their headers.

The first folder is the query's kind, which determines its purpose and when it runs. The second folder is its subject:

    annotate/   builds one table of one rank during import; tables in a folder `private` are not stored
    views/      a view over the tables of all ranks, created when a run is opened
    answers/    answers one question about a run
    advice/     finds avoidable time in one step
    whatif/     returns the rows that a prediction changes
    charts/     returns the rows of one chart
    export/     returns the rows of one exporter

Each query is one file, and its leading comment is its contract:

    -- GPU idle time inside each training step.        the summary: the first paragraph
    --
    -- Idle is the time in which no kernel runs.       the description: further paragraphs
    --
    -- :param step BIGINT = NULL     only this step    without `=` the parameter is required
    -- :param by VARCHAR in (op, step) = 'op'  rows    the allowed words
    -- :param limit BIGINT >= 0 = 10 so many rows      the minimum; a maximum follows as `<= 99`
    -- :param n BIGINT >= 0 or NULL = 10 rows          NULL is allowed, although it is not the default
    -- :param phase PHASE = NULL     only this phase   a type with a meaning; its words are in `vocabulary`
    -- :reads gpu_busy, step                           the required tables, views and steps
    -- :writes step_idle                               annotate only; default: the query's own name
    -- :only_with kernel or copy                       annotate, advice, steps; no rows if both are empty
    -- :only_with event where dur_ns > 0               no rows if no event has a duration
    -- :kept                                           views only; an in-memory table after the first use
    -- :column rank RANK                               a type with a description; see `vocabulary.COLUMN_TYPES`
    -- :column step STEP             NULL outside every step      the shared description, and its end
    -- :column idle_ns BIGINT        GPU idle time     in the order of the result

Prose consists of paragraphs. An indented line with a word and two spaces is a list item:

    -- A gap is                                        indented lines continue an item
    --   load_data  before a forward pass
    --   other      everything else

A query too long for one statement is a folder of its name, `idle/`, with the query itself, `idle/idle.sql`, and its
steps. A step is a table that exists while the query runs and is visible only to the query. Its header lists the query's
parameters that it uses (`:takes step, phase`). `:reads` determines the order.

The queries of `advice/` all have the same parameters and columns (`RULE_PARAMS`, `RULE_COLUMNS`). Their headers declare
the finding and the remedy instead:

    -- :finding small kernels                          count and time follow; `{name}` is the name with the most time
    -- :remedy fuse them                               a sentence
    -- :scenario compile                               optional; predicts the gain of the remedy

A directive may continue on lines with more indentation. The file name is the query's name, unique among all queries. A
header that breaks these rules is a defect of this package, and raises ValueError.

Code shared by many queries is a macro. `macros/<subject>.sql` begins with a comment on the subject, and contains one or
more macros, each after a comment on its result:

    -- Whether a value is the one that is asked for.
    create or replace macro is_asked(asked, value) as
    asked is null or value = asked;

`rules/<table>.csv` contains rules stored as data: the meaning of event and module names. The annotation has a table for
each file, with the columns of the file. An empty field is NULL. `position` is the number of the rule, because in most
tables the first matching rule counts. `why` explains a rule, or a rule and the following ones; no table contains it.
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
from hotline_analysis.catalog.header import COMMENT as COMMENT
from hotline_analysis.catalog.query import KINDS as KINDS
from hotline_analysis.catalog.query import PARAM_TYPES as PARAM_TYPES
from hotline_analysis.catalog.query import PRIVATE as PRIVATE
from hotline_analysis.catalog.query import RANK_COLUMN as RANK_COLUMN
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
    "gpu_balance",
    "gpu_efficiency",
    "gpu_or_cpu_bound",
    "optimizer_bottleneck",
    "slowest_places",
    "step_limits",
    "tensor_core_use",
)
"""Answers computed by a function over queries instead of an SQL file; see `hotline_analysis.answers.named`."""


@functools.cache
def shipped_folder() -> Traversable:
    """The folder of the SQL files: `queries` inside the installed package, or next to the package in a checkout.

    Python started in a checkout imports the package from there, whether or not another version is installed.
    """
    package = resources.files("hotline_analysis")
    package_folder = package / "queries"
    return package_folder if package_folder.is_dir() or not isinstance(package, Path) else package.parent / "queries"


def queries(*kinds: Kind, root: Traversable | None = None) -> list[Query]:
    """Return the queries of some kinds, or all, sorted by name. `root` replaces the shipped folder."""
    by_name = _shipped() if root is None else read_queries(root)
    return [query for query in by_name.values() if query.kind in (kinds or KINDS)]


def get(name: str, *, root: Traversable | None = None) -> Query:
    """Return a query by name, of any kind. Raises `QueryNotFoundError`."""
    by_name = _shipped() if root is None else read_queries(root)
    if name in COMPUTED:
        raise QueryNotFoundError(
            f"{name} is a function over several queries, not a query.",
            hint=f"Call hotline_analysis.{name}, or ask `hotline query {name}`.",
        )
    if name not in by_name:
        suggestions = difflib.get_close_matches(name, [*by_name, *COMPUTED], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(suggestions)}?" if suggestions else "`hotline queries` lists all of them."
        raise QueryNotFoundError(f"There is no query named {name!r}.", hint=hint)
    return by_name[name]


def asked_of_a_run(name: str) -> Query:
    """Return a query by name if it runs on an open run. Raises `QueryNotFoundError`, also for a query of the import."""
    query = get(name)
    if query.kind == "annotate":
        is_stored = not query.is_private
        raise QueryNotFoundError(
            f"{name} builds a table during import and cannot be asked of a run.",
            hint=f'Read the table: `hotline sql "from {query.writes}" TRACE`.'
            if is_stored
            else "Runs do not store the table.",
        )
    return query


def macros(*, root: Traversable | None = None) -> Mapping[str, Macro]:
    """The shared macros by name, in dependency order. `root` replaces the shipped folder."""
    return _shipped_macros() if root is None else read_macros(root)


@functools.cache
def rules() -> Mapping[str, pa.Table]:
    """The rules stored as data, a table for each file of `queries/rules`.

    Polars reads the files, because importing Arrow's reader takes 50 ms, five times as long as reading them.
    """
    import polars as pl

    types = {"weight": pl.Int32, "has_children": pl.Boolean, "roles": pl.String, "is_float": pl.Boolean}
    tables = {}
    for file in shipped_folder().joinpath("rules").iterdir():
        if file.name.endswith(".csv"):
            # Any row may determine the type of a column.
            rules = pl.read_csv(file.read_bytes(), infer_schema_length=None)
            rules = rules.cast({name: kind for name, kind in types.items() if name in rules.columns})
            position = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("position")
            tables[file.name.removesuffix(".csv")] = rules.drop("why", strict=False).with_columns(position).to_arrow()
    return tables


@functools.cache
def compares_ranks(name: str) -> bool:
    """Whether a shipped query needs all ranks even for a question about one rank, because it compares collectives."""
    by_name = _shipped()
    views = [table for table in by_name[name].tables if table in by_name and by_name[table].kind == "views"]
    return "collective_match" in views or any(map(compares_ranks, views))


def goes_rank_by_rank(name: str) -> bool:
    """Whether a shipped query's result is ordered by rank and each row depends on a single rank."""
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
    """Parse a statement made of shipped SQL, once. On a small trace, parsing takes as long as running the statement.

    Any connection works, and an open one always exists. Without a connection, duckdb would start a database just for
    parsing.
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
