"""The header of every shipped query says what it reads and what it returns, and DuckDB agrees."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import hotline_analysis
from hotline_analysis import Trace, catalog, load
from hotline_analysis.annotation.backward import match_backward
from hotline_analysis.annotation.model_file import parse_model, watched_modules
from hotline_analysis.annotation.model_shapes import parse_shapes
from hotline_analysis.annotation.pipeline import NO_WORK, PIPELINE, annotate
from hotline_analysis.annotation.placing.match import match_model
from hotline_analysis.catalog import Query
from hotline_analysis.database import install_macros, make_table
from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.run import some_ranks
from hotline_analysis.run.opened import OpenRun
from hotline_analysis.run.scope import check_scope
from hotline_analysis.schema import READ_TABLES, TABLES, derived_tables
from hotline_analysis.text.formats import one_of
from hotline_analysis.vocabulary import KERNEL_CLASSES, PHASES
from tests.derive.tables import database_of, every_table
from tests.nsight_whole import whole_export
from tests.query_arguments import REQUIRED, arguments, training
from tests.trace_builder import TraceBuilder

VIEWS = catalog.queries("views")
DERIVE = catalog.queries("annotate")
SORTED = catalog.queries("answers", "charts", "export", "whatif")
REPORTED = [*SORTED, *VIEWS]


# These compare ranks: one rank alone has no answer, and clocks are those of the whole run.
BETWEEN_RANKS = {"process_groups", "collectives", "stragglers", "straggler_causes", "uneven_kernels"}


# Nothing is in doubt where frames tell the modules.
IN_DOUBT = {"doubtful_modules"}

# Of a GPU whose peaks are known.
OF_KNOWN_GPU = {"kernel_limit"}
# Answers about what only Nsight Systems records.
OF_NSIGHT = {"idle_samples", "os_calls"}

# What keeps a trace from telling anything, of which an ordinary one has nothing.
OF_ODD_TRACES = {
    *("caveats", "compiled_regions", "pipeline_bubbles", "recompute", "recompute_groups"),
    *("unknown_spans", "unknown_tracks"),
}


def taking(name: str) -> list[Query]:
    return [
        query for query in SORTED if name in {param.name for param in query.params} and query.name not in BETWEEN_RANKS
    ]


def name_of(query: Query) -> str:
    return query.name


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return training().imported(tmp_path_factory.mktemp("contracts"))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("ranks")
    for rank in (0, 1):
        training(rank, late=20 * rank).write(folder / f"rank{rank}.json")
    return load(folder)


@pytest.fixture(scope="module")
def unlike_ranks(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two ranks whose events have the same ids, and are not the same; the second one also works longer on its CPU."""
    folder = tmp_path_factory.mktemp("unlike")
    training(0).write(folder / "rank0.json")
    training(1, late=20).on(1).op("aten::add", 645, 695).write(folder / "rank1.json")
    return load(folder)


@pytest.fixture(scope="module")
def by_nsight(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return load(whole_export(tmp_path_factory.mktemp("nsight") / "report.sqlite"))


@pytest.fixture(scope="module")
def on_a100(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    built = training()
    built.top["deviceProperties"] = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]
    return built.load(tmp_path_factory.mktemp("a100"))


@pytest.fixture(scope="module")
def in_doubt(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Two linears placed on three, and an activation that did not run."""
    trace = TraceBuilder(rank=0).step(0, 0, 100)
    trace.top["hotline_model"] = [
        {"name": name, "type": name[:-1]} for name in ("Linear1", "Linear2", "GELU1", "ReLU1")
    ]
    for number, name in enumerate(("linear", "relu", "linear", "relu", "linear", "relu")):
        trace.op(f"aten::{name}", 10 * number, 10 * number + 8)
    return trace.load(tmp_path_factory.mktemp("doubt"))


@pytest.fixture(scope="module")
def database(trace: Trace) -> Iterator[duckdb.DuckDBPyConnection]:
    """Every table that a derive query reads, as it stands when the annotation of the trace is done."""
    with every_table(trace) as connection:
        # What the importer gives to the queries that it runs itself.
        _create_from(connection, "track_key", trace.sql("select track_id, pid, tid from track"))
        _create_from(connection, "document", pl.DataFrame({"number": [0, 1], "first_id": [-1, 5]}))
        connection.execute(f"create table process_track as {catalog.get('process_track').sql}")
        place_model(connection)
        yield connection


def place_model(connection: duckdb.DuckDBPyConnection) -> None:
    """The tables of the alignment, which a trace with frames and sequence numbers can do without."""
    model = parse_model([{"name": "linear", "type": "Linear"}, {"name": "relu", "type": "ReLU"}], "the test")
    _create_from(connection, "compiled_part", pl.DataFrame(schema={"module_id": pl.Int64}))
    _create_from(connection, "whole_op", pl.DataFrame(schema={"name": pl.String}))
    for name in ("engine_call", "engine_segment", "autograd_item", "forward_item"):
        connection.execute(f"drop table if exists {name}")
        connection.execute(f"create table {name} as {catalog.get(name).sql}")
    placed = match_model(connection, model)
    arguments = [[[8], [4, 16], [16, 8]], ["float"] * 3, [[1], [16, 1], [8, 1]], [""] * 3]
    learned = {"names": ["aten::addmm"], "arguments": [arguments], "trees": [[0, 0]], "ops": [0], "nodes": [[0, 0, 0]]}
    shapes = parse_shapes(learned, [("aten::addmm", 0, 0)])
    assert shapes is not None
    for name, table in (
        ("autograd_match", match_backward(connection)),
        ("model_given", model.modules.append_column("missing_call_count", placed.missing)),
        ("module_match", placed.matches),
        ("stored_module", watched_modules(model)),
        ("fused_candidate", placed.fused),
        ("leaf_type", pa.table({"type": ["Linear", "ReLU"]})),
        ("module_type", pa.table({"type": ["Linear", "Sequential"], "has_children": [False, True]})),
        ("own_work", NO_WORK),
        *shapes.items(),
    ):
        connection.register("given", table)
        connection.execute(f"create table {name} as from given")
        connection.unregister("given")
    for name in ("pass_level", "placed_root", "placed_call", "node_call"):
        connection.execute(f"create table {name} as {catalog.get(name).sql}")


def _create_from(connection: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame) -> None:
    connection.register("given", frame.to_arrow())
    connection.execute(f"create or replace temp table {name} as from given")
    connection.unregister("given")


@functools.cache
def _with_macros() -> duckdb.DuckDBPyConnection:
    """A database of this process that has all macros and no table."""
    # A variable of this file is no table.
    connection = duckdb.connect(config={"python_enable_replacements": False})
    install_macros(connection)
    return connection


def with_tables(
    source: duckdb.DuckDBPyConnection | None, names: tuple[str, ...], *, filled: bool = True
) -> duckdb.DuckDBPyConnection:
    """A connection that sees these tables alone: copies from `source`, or else empty ones as the schema has them.

    Unless they are to be `filled`, the copies are empty as well.
    """
    connection = _with_macros().cursor()
    for name in names:
        if source is None:
            connection.execute(TABLES[name].ddl.replace("create table", "create temp table", 1))
        else:
            _create_from(connection, name, source.sql(f"from {name}{'' if filled else ' limit 0'}").pl())
    return connection


def result(connection: duckdb.DuckDBPyConnection, query: Query, **given: object) -> duckdb.DuckDBPyRelation:
    """What a query finds, after its steps were made."""
    values = arguments(query, **given)
    for step in query.steps:
        make_table(connection, step.name, step.sql, {name: values[name] for name in step.takes})
    used = {name: values[name] for name in query.uses}
    return connection.sql(query.sql, params=used) if used else connection.sql(query.sql)


def unchecked(trace: Trace, query: Query, **given: object) -> pl.DataFrame:
    """What a query finds in a trace that need not have what is asked for."""
    return trace._answer(query, arguments(query, **given))


def step_result(connection: duckdb.DuckDBPyConnection, query: Query, step: Query) -> duckdb.DuckDBPyRelation:
    """What one step returns, or the statement after them, of the tables that are there."""
    values = arguments(query)
    used = {name: values[name] for name in (step.takes if step in query.steps else query.uses)}
    return connection.sql(step.sql, params=used) if used else connection.sql(step.sql)


def with_empty(query: Query, names: Collection[str]) -> duckdb.DuckDBPyConnection:
    """A database with these tables and steps of a query, all empty; those of the annotation have no rank."""
    made = {str(each.writes): each for each in catalog.queries("annotate")} | {step.name: step for step in query.steps}
    of_annotation = query.kind == "annotate"
    known = {name for name in names if name in made and (of_annotation or name not in TABLES)}
    connection = with_tables(None, tuple(name for name in names if name in TABLES and name not in known))
    for name in known:
        columns = ", ".join(f'"{column.name}" {column.type}' for column in made[name].columns)
        connection.execute(f"create temp table {name} ({columns})")
    for name in names:
        if name in catalog.rules():
            _create_from(connection, name, pl.DataFrame(catalog.rules()[name]).clear())
    if of_annotation:
        for table in READ_TABLES:
            if table.name in names and table.name not in known:
                connection.execute(f"alter table {table.name} drop rank")
    return connection


def words(sql: str) -> set[str]:
    """The words of a statement outside comments and texts; macros are given the names of tables as texts."""
    calls = re.findall(r"(\w+)\(\s*((?:'\w+'[,\s]*)+)", sql)
    given = {name for macro, names in calls if macro in catalog.macros() for name in re.findall(r"\w+", names)}
    return given | set(re.findall(r"\w+", re.sub(r"--[^\n]*|'(?:[^']|'')*'", " ", sql)))


@pytest.mark.parametrize("query", REPORTED, ids=name_of)
def test_a_run_without_events_has_the_columns_of_the_header(query: Query) -> None:
    """The tables of the header are enough for it, and of an answer it has no rows."""
    declared = [(column.name, column.type) for column in query.columns]
    with with_tables(None, query.tables) as empty:
        found = result(empty, query)
        assert list(zip(found.columns, map(str, found.types), strict=True)) == declared
        rows = found.fetchall()
    assert query not in SORTED or rows == []


MOST_LINES, MOST_CTES = 300, 10
CTE = re.compile(r"^(?:with |with recursive )?(\w+) as (?:not )?(?:materialized )?\(", re.MULTILINE)
EVERY_FILE = [each for query in catalog.queries() for each in (*query.steps, query)]


def test_no_query_is_longer_than_can_be_read() -> None:
    long = {}
    for query in EVERY_FILE:
        lines = len(query.sql.splitlines())
        heads = re.findall(
            r"^(?:with |with recursive )?(\w+) as (?:not )?(?:materialized )?\(", query.sql, re.MULTILINE
        )
        if lines > MOST_LINES or len(heads) > MOST_CTES:
            long[query.file] = f"{lines} lines, {len(heads)} CTEs"
    assert long == {}


def test_a_header_names_each_table_once_and_the_statement_names_it() -> None:
    assert [query.file for query in EVERY_FILE if len(set(query.reads)) != len(query.reads)] == []
    unnamed = {query.file: set(query.reads) - words(query.sql) for query in catalog.queries()}
    assert {file: names for file, names in unnamed.items() if names} == {}


@pytest.mark.parametrize("query", DERIVE, ids=name_of)
def test_derived_tables_have_the_columns_of_the_header(query: Query, database: duckdb.DuckDBPyConnection) -> None:
    found = result(database, query)
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    declared = {column.name: column.type for column in query.columns}
    # What the importer saves may have more, which only the next query reads.
    assert set(declared) <= set(types) if query.writes in TABLES else list(declared) == list(types)
    for name, kind in declared.items():
        # NULL literals and sums in windows may be of another integer type; the importer casts them when it saves.
        same = {"BIGINT": {"BIGINT", "INTEGER", "HUGEINT", '"NULL"'}, "JSON": {"JSON", "VARCHAR"}}
        assert types[name] in same.get(kind, {kind}), name


def test_a_test_names_every_query_and_step() -> None:
    """Beside those that go through all of them."""
    files = [file for file in Path(__file__).parent.rglob("*.py") if file != Path(__file__)]
    texts = [f"{file.stem.removeprefix('test_')} {file.read_text()}" for file in files]
    named = {word for text in texts for word in re.findall(r"\w+", text)}
    assert {query.name for query in EVERY_FILE} - named == set()


def test_every_column_has_a_meaning() -> None:
    assert [
        f"{query.file}: {column.name}"
        for query in catalog.queries()
        for each in (*query.steps, query)
        for column in each.columns
        if len(column.description) < 3 or "TODO" in column.description
    ] == []


def test_only_the_annotation_reads_what_is_not_kept() -> None:
    kept = {query.file: set(query.tables) - set(TABLES) for query in catalog.queries() if query.kind != "annotate"}
    assert {file: names for file, names in kept.items() if names} == {}


@pytest.mark.parametrize("query", DERIVE, ids=name_of)
def test_derive_queries_read_what_the_header_says(query: Query, database: duckdb.DuckDBPyConnection) -> None:
    with with_tables(database, query.tables) as reduced:
        assert len(result(reduced, query).columns) > 0


@pytest.mark.parametrize("query", catalog.queries(), ids=name_of)
def test_no_table_of_the_header_can_be_left_out(query: Query, database: duckdb.DuckDBPyConnection) -> None:
    """Without any one of them DuckDB cannot bind the statement, or a step, so each is read and not only mentioned."""
    for each in (*query.steps, query):
        is_step = each is not query
        with with_empty(query, each.reads) if is_step else empty_for(query, database) as reduced:
            for missing in each.reads:
                reduced.execute(f"alter table {missing} rename to hidden")
                with pytest.raises(duckdb.Error, match=f"{missing} does not exist"):
                    step_result(reduced, query, each)
                reduced.execute(f"alter table hidden rename to {missing}")
            found = step_result(reduced, query, each)
            if is_step:
                declared = [(column.name, column.type) for column in each.columns]
                assert list(zip(found.columns, map(str, found.types), strict=True)) == declared


def empty_for(query: Query, database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """What the last statement of a query reads, all empty; tables of the annotation are as it makes them."""
    if query.kind != "annotate":
        return with_empty(query, query.reads)
    steps = {step.name: step for step in query.steps}
    connection = with_tables(database, tuple(name for name in query.reads if name not in steps), filled=False)
    for name in steps.keys() & set(query.reads):
        columns = ", ".join(f'"{column.name}" {column.type}' for column in steps[name].columns)
        connection.execute(f"create temp table {name} ({columns})")
    return connection


@functools.cache
def whole(trace: Trace, table: str) -> pl.DataFrame:
    """A whole table or view, which many queries read."""
    return trace.table(table)


@pytest.mark.parametrize("query", SORTED, ids=name_of)
def test_the_order_does_not_depend_on_the_order_of_the_rows(
    query: Query, trace: Trace, two_ranks: Trace, in_doubt: Trace, on_a100: Trace, by_nsight: Trace
) -> None:
    trace = two_ranks if query.name in BETWEEN_RANKS else in_doubt if query.name in IN_DOUBT else trace
    trace = on_a100 if query.name in OF_KNOWN_GPU else by_nsight if query.name in OF_NSIGHT else trace
    first = trace.query(query.name, **arguments(query))
    assert first.height > 0 or query.name in OF_ODD_TRACES, "the test's own trace should have an answer"
    for seed in range(2):
        with with_tables(None, ()) as shuffled:
            for name in query.tables:
                _create_from(shuffled, name, whole(trace, name).sample(fraction=1, shuffle=True, seed=seed))
            again = result(shuffled, query).pl()
        assert again.equals(first)


@pytest.mark.parametrize("query", SORTED, ids=name_of)
def test_the_last_order_by_is_total(query: Query, trace: Trace, two_ranks: Trace) -> None:
    """No two rows of an answer are the same in its key: its text columns and numbers of rank, step and so on."""
    trace = two_ranks if query.name in BETWEEN_RANKS else trace
    frame = trace.query(query.name, **arguments(query))
    key = [name for name, kind in frame.schema.items() if kind == pl.String or not name.endswith(("_ns", "_pct"))]
    assert frame.select(pl.struct(key).is_duplicated().any()).item() is False


@pytest.mark.parametrize("query", taking("rank"), ids=name_of)
def test_a_rank_that_is_not_there_has_no_rows(query: Query, trace: Trace) -> None:
    assert unchecked(trace, query, rank=99).is_empty()
    with pytest.raises(QueryParameterError, match="no rank 99"):
        trace.query(query.name, **arguments(query, rank=99))
    with_rank = trace.query(query.name, **arguments(query, rank=0))
    assert with_rank.equals(trace.query(query.name, **arguments(query)))


# The chart of memory is of one rank, the lowest if none is named.
OF_RANKS = [query for query in taking("rank") if query.columns[0].name == "rank" and query.name != "memory_by_category"]


@pytest.mark.parametrize("query", OF_RANKS, ids=name_of)
def test_what_is_said_of_a_rank_follows_from_that_rank_alone(query: Query, unlike_ranks: Trace) -> None:
    """The rows of all ranks are those of each, but for those about all together."""
    limit = {"limit": 100_000} if "limit" in {param.name for param in query.params} else {}
    asked = {param.name: REQUIRED[param.name] for param in query.params if param.required} | limit
    if "rank" in asked:
        return  # it is only asked of one
    together = unlike_ranks.query(query.name, **asked).filter(pl.col("rank").is_not_null())
    apart = pl.concat([unlike_ranks.query(query.name, **asked, rank=rank) for rank in unlike_ranks.ranks])
    if not catalog.goes_rank_by_rank(query.name):
        key = [name for name, kind in together.schema.items() if not isinstance(kind, pl.List | pl.Struct)]
        together, apart = together.sort(key), apart.sort(key)
    assert_frame_equal(together, apart, rel_tol=1e-9)


@pytest.mark.parametrize("query", [query for query in OF_RANKS if catalog.goes_rank_by_rank(query.name)], ids=name_of)
def test_a_large_job_is_asked_of_some_ranks_at_a_time(
    query: Query, unlike_ranks: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = arguments(query) | ({"rank": None} if "rank" in arguments(query) else {})
    together = unlike_ranks._run.answer(query, query.bind(**asked))
    monkeypatch.setattr(some_ranks, "_EVENTS_AT_A_TIME", 1)
    asked_of: list[tuple[int, int]] = []

    def show_some(connection: duckdb.DuckDBPyConnection, names: tuple[str, ...], first: int, last: int) -> None:
        asked_of.append((first, last))
        some_ranks.show_some(connection, names, first, last)

    monkeypatch.setattr("hotline_analysis.run.routing.show_some", show_some)
    with load(unlike_ranks.path) as trace:
        assert_frame_equal(trace.query(query.name, **asked), together, rel_tol=1e-9)
    assert asked_of == [(0, 0), (1, 1)]


def test_some_ranks_are_those_that_have_not_too_many_events_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(some_ranks, "_EVENTS_AT_A_TIME", 10)
    counts = {0: 4, 2: 6, 3: 1, 5: 20, 6: 5, 7: 5, 9: 1}
    parts = [{"rank": rank, "event_count": count} for rank, count in reversed(counts.items())]
    assert some_ranks.groups_of_ranks(parts) == [(0, 2), (3, 3), (5, 5), (6, 7), (9, 9)]


def test_what_compares_ranks_is_asked_of_all_together() -> None:
    for name in (*BETWEEN_RANKS, "ranks", "slowest_kernels", "device_use"):
        assert not catalog.goes_rank_by_rank(name)


NAMED = [each for query in REPORTED for each in (*query.steps, query) if "join name_info" in each.sql]


def test_names_are_joined_by_one_key() -> None:
    """Joined by three conditions, the database may pair everything of a rank with all of its names first."""
    assert NAMED
    otherwise = []
    for query in NAMED:
        joined = re.findall(
            r"join name_info(?: as (\w+))?\s+on \(.*\) = \((\w+)\.rank, \2\.category, \2\.name\)", query.sql
        )
        of_all = len(re.findall(r"^ *\w+ join name_info", query.sql, re.MULTILINE))
        by_key = [alias or "name_info" for alias, _ in joined] == [name for _, name in joined]
        if not by_key or not len(joined) == of_all > 0:
            otherwise.append(query.file)
    assert otherwise == []


# Windows in wall time, and what lies between two steps is in none; tests/answer/test_device_time.py adds them up. The
# throughput of a run is that of its median step, what goes over the network a mean over backward passes, and nodes are
# those of one step. Samples of the CPU divide idle time by their number.
WINDOWS = (
    *("temporal_breakdown", "memory_breakdown", "memory_by_category", "memory_peak", "recompute", "throughput"),
    *("recompute_groups", "utilisation", "network_by_module", "backward_node", "pipeline_bubbles", "idle_samples"),
)
STATISTIC = re.compile(r"(^|_)(min|mean|max|std|median|p\d\d)(_|$)")


@pytest.mark.parametrize("query", [query for query in taking("step") if query.name not in WINDOWS], ids=name_of)
def test_steps_add_up_to_the_run(query: Query, trace: Trace) -> None:
    """Every sum of nanoseconds over step 0 and step 1 is that of the whole run, in which nothing is outside steps."""
    options = {"limit": 1000} if "limit" in {param.name for param in query.params} else {}
    whole = trace.query(query.name, **arguments(query, **options))
    parts = [trace.query(query.name, **arguments(query, step=step, **options)) for step in (0, 1)]
    assert all(part.height > 0 for part in parts)
    for column in (name for name in whole.columns if name.endswith("_ns") and not STATISTIC.search(name)):
        assert sum(part[column].sum() for part in parts) == whole[column].sum(), column


def sums(frame: pl.DataFrame) -> dict[str, int]:
    """Of the columns that add up: nanoseconds and bytes but for statistics, and counts."""
    names = [name for name in frame.columns if name.endswith(("_ns", "_bytes", "_count")) or name in ("bytes", "count")]
    return {name: int(frame[name].sum()) for name in names if not STATISTIC.search(name)}


# Of the time that modules and phases share, that more than one row of a phase counts, or that lies between two steps;
# or the rows are marks in time.
NOT_ADDITIVE = {
    "comm_comp_overlap": ("hideable_ns",),
    "queue_length": ("end_ns",),
    "slowest_ops": ("cpu_total_ns", "gpu_total_ns"),
    "memory_peak": ("largest_bytes", "peak_bytes", "peak_start_ns"),
    "memory_timeline": ("allocated_bytes", "reserved_bytes"),
    "memory_bandwidth_summary": ("copy_count",),
    "utilisation": ("wall_ns",),
}


@pytest.mark.parametrize(
    "query",
    [*taking("phase"), *(catalog.get(name) for name in sorted(BETWEEN_RANKS - {"process_groups", "uneven_kernels"}))],
    ids=name_of,
)
def test_phases_add_up_to_the_run(query: Query, trace: Trace, two_ranks: Trace) -> None:
    """Every sum over the phases is that of the whole run, in which nothing is outside steps."""
    trace = two_ranks if query.name in BETWEEN_RANKS else trace
    options = {"limit": 1000} if "limit" in {param.name for param in query.params} else {}
    frame = trace.query(query.name, **arguments(query, **options))
    if query.name in ("memory_peak", "straggler_causes"):  # what is older than the trace, or between two steps
        frame = frame.filter(pl.col("phase").is_not_null())
    whole = sums(frame)
    phases = trace.sql("select distinct phase from label where phase is not null")["phase"]
    assert len(phases) > 5
    parts = [sums(trace.query(query.name, **arguments(query, phase=phase, **options))) for phase in phases]
    for name in set(whole) - set(NOT_ADDITIVE.get(query.name, ())):
        assert sum(part[name] for part in parts) == whole[name], name


@pytest.mark.parametrize(("scope", "there"), [("step", "0 to 1"), ("device", "0"), ("stream", "7 to 9")])
def test_what_is_not_there_is_an_error(scope: str, there: str, trace: Trace) -> None:
    asked = [query for query in SORTED if scope in {param.name for param in query.params}]
    assert len(asked) > 5
    for query in asked:
        with pytest.raises(QueryParameterError, match=f"no (memory events of )?{scope} 99 Hint: Available: {there}"):
            trace.query(query.name, **arguments(query, **{scope: 99}))


def test_devices_of_memory_are_those_of_its_events(tmp_path: Path) -> None:
    """-1 is the CPU where memory is asked for, and a GPU without a name elsewhere."""
    built = TraceBuilder(rank=0).op("aten::add", 0, 9).launches("add", 20, 30, at=2)
    trace = built.memory(512, 5, total=512).load(tmp_path)
    assert hotline_analysis.memory_timeline(trace, device=-1).height == 1
    with pytest.raises(QueryParameterError, match="the trace has no device -1 Hint: Available: 0"):
        hotline_analysis.kernel_breakdown(trace, device=-1)
    with pytest.raises(QueryParameterError, match="the trace has no memory events of device 0 Hint: Available: -1"):
        hotline_analysis.memory_timeline(trace, device=0)


def test_a_stream_is_one_of_the_device(trace: Trace) -> None:
    with pytest.raises(QueryParameterError, match="device 0 of the trace has no stream 99 Hint: Available: 7 to 9"):
        hotline_analysis.queue_length(trace, rank=0, device=0, stream=99)


def test_an_op_that_is_not_there_is_an_error_with_those_that_may_be_meant(tmp_path: Path) -> None:
    built = TraceBuilder(rank=0).op("aten::linear", 0, 9).launches("gemm", 20, 30, at=2).op("mine", 40, 50)
    trace = built.load(tmp_path)
    for answer, op, hint in (
        (hotline_analysis.op_delays, "linear", "Did you mean aten::linear?"),
        (hotline_analysis.op_delays, "mime", "Did you mean mine?"),
        (hotline_analysis.frequent_kernel_patterns, "gemm", "The answer `slowest_ops` lists all ops."),
    ):
        with pytest.raises(QueryParameterError, match=re.escape(f"the trace has no op {op!r} Hint: {hint}")):
            answer(trace, op=op)
    kernels = TraceBuilder(rank=0).kernel("gemm", 0, 9).load(tmp_path, name="kernels.json")
    with pytest.raises(QueryParameterError, match="the trace has no op 'mm' Hint: Available: none"):
        hotline_analysis.op_delays(kernels, op="mm")


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"step": "1"}, "step must be a whole number, not '1'"),
        ({"rank": True}, "rank must be a whole number, not True"),
        ({"device": 0.0}, "device must be a whole number, not 0.0"),
        ({"stream": "7"}, "stream must be a whole number, not '7'"),
        ({"module": 3}, "module must be text, not 3"),
        ({"op": 3}, "op must be text, not 3"),
    ],
)
def test_a_scope_of_another_type_is_no_scope_that_is_missing(
    asked: dict[str, object], complaint: str, trace: Trace
) -> None:
    with pytest.raises(QueryParameterError, match=complaint):
        check_scope(trace, asked)


def test_numbers_of_numpy_are_numbers(trace: Trace) -> None:
    rank, step = np.int64(0), np.int64(1)
    assert trace.sql("select $rank as rank, $half as half", rank=rank, half=np.float64(0.5)).row(0) == (0, 0.5)
    frame = hotline_analysis.critical_path(trace, rank=rank, step=step)  # type: ignore[arg-type]
    assert frame.equals(hotline_analysis.critical_path(trace, rank=0, step=1))


def test_a_closed_trace_says_so(trace: Trace) -> None:
    fresh = load(trace.path)
    fresh.close()
    with pytest.raises(HotlineError, match="the trace is closed"):
        hotline_analysis.steps(fresh)


def test_a_defect_of_the_database_is_told_in_one_line(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> pl.DataFrame:
        raise duckdb.InternalException("INTERNAL Error: a join went wrong\n\nStack Trace:\n\n_duckdb.so(+0x1)")

    monkeypatch.setattr(OpenRun, "select", fail)
    with pytest.raises(HotlineError) as raised:
        trace.sql("select 1")
    assert raised.value.message == "the database failed: INTERNAL Error: a join went wrong"
    assert str(raised.value.hint).startswith("Load the trace again.")


@pytest.mark.parametrize("query", taking("module"), ids=name_of)
def test_a_module_is_those_in_it(query: Query, trace: Trace) -> None:
    """The root has what its children have, as it launches nothing itself; other modules have nothing."""

    most = {"limit": 1000} if any(param.name == "limit" and not param.or_null for param in query.params) else {}

    def ask(module: str) -> pl.DataFrame:
        return trace.query(query.name, **arguments(query, module=module, **most))

    whole = trace.query(query.name, **arguments(query, **most))
    beside = "Net_0.Linear"  # the beginning of a name is no name
    assert unchecked(trace, query, module=beside).is_empty()
    with pytest.raises(QueryParameterError, match=r"no module 'Net_0\.Linear' Hint: .* Net_0\.Linear_0"):
        ask(beside)
    root, children = ask("Net_0"), [ask("Net_0.Linear_0"), ask("Net_0.ReLU_0")]
    if "module_path" in whole.columns and query.name != "cpu_parts":
        assert root.equals(whole.filter(pl.col("module_path").str.starts_with("Net_0")))
    for name in set(sums(whole)) - set(NOT_ADDITIVE.get(query.name, ())):
        if query.name != "cpu_parts":
            assert sums(root)[name] == sum(sums(child)[name] for child in children), name
        else:
            assert sums(root)[name] <= sums(whole)[name], name


@pytest.mark.parametrize("query", taking("stream"), ids=name_of)
def test_streams_add_up_to_the_device(query: Query, trace: Trace) -> None:
    """Every sum over the streams is that of the whole run; of idle time, that of all streams alone."""
    by = {"by": "stream"} if query.name.startswith("idle") else {}
    limit = {"limit": 1000} if "limit" in {param.name for param in query.params} else {}
    whole = sums(trace.query(query.name, **arguments(query, **by, **limit)))
    parts = [sums(trace.query(query.name, **arguments(query, stream=stream, **limit))) for stream in (7, 8, 9)]
    for name in set(whole) - {"start_ns", "end_ns", "rank_count"}:
        assert sum(part[name] for part in parts) == whole[name] >= 0, name


SCOPES: Mapping[str, object] = {"rank": 0, "device": 0, "stream": 7, "step": 1, "phase": "forward", "module": "Net_0"}


@pytest.mark.parametrize("query", catalog.queries("answers"), ids=name_of)
def test_functions_take_what_their_queries_take(query: Query, trace: Trace) -> None:
    """Each scope of a query is an argument of the function of the same name, and gives the same rows."""
    function = getattr(hotline_analysis, query.name, None)
    scopes = {param.name for param in query.params if not param.required} & set(SCOPES)
    if function is None or query.name == "gpu_or_cpu_bound":  # a query behind another answer, or one that judges
        return
    for scope in scopes:
        given = {scope: SCOPES[scope]}
        sort = {"sort": "gpu_self"} if query.name == "slowest_ops" else {}
        assert function(trace, **given, **sort).equals(trace.query(query.name, **given, **sort)), scope


WORDS = [(query, param) for query in SORTED for param in query.params if param.words]
# What a trace names can be any text; everything else that is text is one of a few words, which the header says.
NAMES = {"annotation", "kernel", "module", "op"}


def test_texts_are_names_or_declared_words() -> None:
    texts = {
        (query.name, param.name)
        for query in catalog.queries()
        for param in query.params
        if param.type == "VARCHAR" and not param.words
    }
    assert {(query, param) for query, param in texts if param not in NAMES} == set()


@pytest.mark.parametrize(("query", "param"), WORDS, ids=lambda each: each.name)
def test_words_are_refused_or_understood(query: Query, param: catalog.Param, trace: Trace) -> None:
    """The query runs with each of them, other words are errors, and the function of this name declares the same."""
    for word in param.words:
        trace.query(query.name, **arguments(query, **{param.name: word}))
    with pytest.raises(QueryParameterError, match=f"{param.name} of query {query.name} must be {param.allowed}, not"):
        trace.query(query.name, **arguments(query, **{param.name: "foo"}))
    function = getattr(hotline_analysis, query.name, None)
    if function is not None:
        hints = get_type_hints(function)
        hint = hints["kernel_class" if param.name == "class" else param.name]
        declared = {word for each in (hint, *get_args(hint)) for word in get_args(each) if isinstance(word, str)}
        assert declared == set(param.words)


@pytest.mark.parametrize(("name", "words"), [("kernel_class", KERNEL_CLASSES), ("phase", PHASES)])
def test_words_are_those_of_the_schema(name: str, words: tuple[str, ...]) -> None:
    assert {param.words for _, param in WORDS if param.name == name} == {words}


def test_the_annotation_knows_the_phases_of_the_schema(database: duckdb.DuckDBPyConnection) -> None:
    """No rule names another phase, and the docs of the columns name them all."""
    rules = database.sql("select strong_phase, weak_phase from name_class").fetchall()
    assert {phase for rule in rules for phase in rule if phase} <= set(PHASES)
    docs = [column.description for table in TABLES.values() for column in table.columns]
    assert any(one_of(PHASES) in doc for doc in docs)
    assert all(one_of(PHASES) in doc for doc in docs if "load_data, forward" in doc)


# What Python gives to a stage: the model and the matches of an alignment, and the spans that cross others.
GIVEN = {"autograd_match", "compiled_part", "crossing", "fused_candidate", "leaf_type", "model_given", "module_match"}
GIVEN |= {"whole_op", "module_type", "forward_item", "given_op", "given_call", "given_argument", "given_node"}
GIVEN |= {"own_work", "stored_module"}


def test_the_annotation_runs_in_an_order_that_works() -> None:
    """Each query is run after those that write what it reads. The file's tables are there from the start."""
    known = {table.name for table in READ_TABLES} | catalog.rules().keys() | GIVEN
    for stage in PIPELINE:
        for name in stage.queries:
            query = catalog.get(name)
            assert set(query.tables) <= known, name
            known.add(str(query.writes))
    assert {table.name for table in TABLES.values() if table.kind == "derived"} <= known


def test_tables_are_let_go_when_nothing_needs_them(trace: Trace) -> None:
    """A table that a run keeps is told of once, complete, and what stays in the database has no rows."""
    told: dict[str, int | None] = {}
    with database_of(trace) as connection:

        def note(name: str, has_rows: bool) -> None:
            assert name not in told
            [rows] = connection.sql(f"select count(*) from {name}").fetchall()[0]
            assert (rows > 0) == has_rows, name
            told[name] = rows

        annotate(connection, on_done=note)
        left = [name for (name,) in connection.sql("select table_name from duckdb_tables() where temporary").fetchall()]
        filled = [name for name in left if connection.sql(f"select count(*) from {name}").fetchall() != [(0,)]]
    assert told == {table.name: trace.table(table.name).height for table in derived_tables()}
    assert filled == []


def test_every_query_of_the_annotation_is_in_the_pipeline() -> None:
    """Once, if it always runs. The importer runs those of the file itself."""
    listed = [name for stage in PIPELINE for name in stage.queries]
    assert {query.name for query in DERIVE if query.folder.split("/")[1] != "file"} == set(listed)
    always = [name for stage in PIPELINE if stage.when is None for name in stage.queries]
    assert len(always) == len(set(always))
    assert all(stage.condition for stage in PIPELINE if stage.when is not None)


@pytest.mark.parametrize("query", VIEWS, ids=name_of)
def test_a_view_can_be_the_first_that_a_run_is_asked_for(trace: Trace, query: Query) -> None:
    """The views that it is made of become known with it, in whichever order they stand in the schema."""
    with load(trace.path) as fresh:
        assert fresh.table(query.name).columns == ["rank", *(column.name for column in TABLES[query.name].columns)]
