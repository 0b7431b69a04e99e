"""Raw tables of one rank → derived tables, by running the queries of `queries/annotate` in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import REGION, Model, watched_modules
from hotline_analysis.database import make_empty, make_table_of, no_rows, table_of
from hotline_analysis.errors import HotlineError, ModelMismatchError
from hotline_analysis.schema import TABLES


def _nothing(columns: Iterable[str], texts: Iterable[str]) -> pa.Table:
    """An empty table for a stage without results. Columns outside `texts` are integers."""
    kinds = dict.fromkeys(columns, pa.int64()) | dict.fromkeys(texts, pa.string())
    return no_rows(pa.schema(kinds))


# Input of `shared_kernel` without a placed model.
_NOTHING = _nothing(("event_id", "track_id", "start_ns", "end_ns", "module_id", "name", "word"), ("name", "word"))

# Input of `op_work` without a query of the user.
NO_WORK = _nothing(
    (
        *("shape_id", "dtype", "batch", "m", "n", "k", "matrix_flop", "model_flop", "dense_flop", "vector_flop"),
        *("bytes", "evidence"),
    ),
    ("dtype", "evidence"),
)

_CAPTURED = ("placed_root", "placed_call", "node_call", "captured_op")
_WORK = (
    *("op_argument", "op_shape", "op_call", "work_gemm", "work_convolution", "work_attention", "work_elementwise"),
    *("work_reduction", "work_gather", "work_rnn", "work_list", "work_pointers", "op_work", "op_claim"),
)
_MEMORY = ("memory_block", "estimated_memory")
_SQL_TYPES = {
    "int64": "BIGINT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "large_string": "VARCHAR",
}
_MORE_MEMORY = (1, 1.25, 1.5, 2, 4, 8, 16)  # factors on the memory limit
_MOST_CUTS = 10  # twenty random spans need five


@dataclass(frozen=True)
class Work:
    """Context of the stages: the database of one rank, the given or stored model, and the callback for notes."""

    connection: duckdb.DuckDBPyConnection
    model: Model | None
    on_note: Callable[[str], None]
    own_work: str | None = None
    """The user's SQL statement that counts the work of ops."""
    has_rows: dict[str, bool] = field(default_factory=dict)
    """Whether each table has rows, if known. Asking the database takes long relative to a small trace."""


@dataclass(frozen=True)
class Stage:
    """One stage of the annotation: its queries, and how to run them."""

    queries: tuple[str, ...]
    build: Callable[[Work], None]
    when: Callable[[Work], bool] | None = None
    """Whether the trace needs the stage; `None` means always."""
    condition: str = ""
    """The condition in words."""
    is_view: bool = False
    """Whether the stage makes a view, so that saving the table runs the query."""

    def run(self, work: Work) -> None:
        """Make the stage's tables, if the trace needs the stage."""
        if self.when is None or self.when(work):
            self.build(work)


def annotate(
    connection: duckdb.DuckDBPyConnection,
    on_progress: Callable[[float], None] | None = None,
    *,
    model: Model | None = None,
    own_work: str | None = None,
    on_note: Callable[[str], None] = lambda note: None,
    has_rows: Mapping[str, bool] | None = None,
    on_done: Callable[[str, bool], None] | None = None,
) -> None:
    """Derive the annotation of one rank.

    The connection must hold the tables of the file (`schema.READ_TABLES`) without a `rank` column, and the name rules
    (`install_rules`). The derived tables become temporary tables in the connection, together with intermediate tables.
    `on_done` is called for each table that a run keeps, with whether it has rows, as soon as no later stage changes or
    reads the table. The table is then dropped, like all tables no longer needed, to free memory. Without `on_done`, all
    tables stay.

    The `model` is placed on the ops if the trace has no `nn.Module` frames. Raises `ModelMismatchError` if a given
    model does not fit. If a model stored in the trace does not fit, it is ignored with a call of `on_note`. `own_work`
    is an SQL statement that counts the work of ops. `has_rows` maps tables of the file to whether they have rows, which
    avoids checking them.
    """
    work = begin(Work(connection, model, on_note, own_work, dict(has_rows or {})))
    for number, stage in enumerate(PIPELINE):
        stage.run(work)
        if on_done is not None:
            for name in _done_after()[number]:
                _let_go(work, name, on_done)
        if on_progress:
            on_progress((number + 1) / len(PIPELINE))


def begin(work: Work) -> Work:
    """Create empty versions of the tables that later stages read but not every trace needs."""
    _keep(work, "forward_item", _NOTHING)
    _keep(work, "fused_candidate", _NOTHING)
    _keep(work, "compiled_part", _parts([]))
    _keep(work, "whole_op", _names([]))
    _keep(work, "captured_op", no_rows(TABLES["captured_op"].arrow))
    return work


@cache
def _done_after() -> list[list[str]]:
    """For each stage, the annotation tables that no later stage makes or reads.

    The Python part of a stage reads only tables made by the stage, or also read by a query of a later stage.
    """
    last: dict[str, int] = {}
    for number, stage in enumerate(PIPELINE):
        queries = [catalog.get(name) for name in stage.queries]
        last |= dict.fromkeys((str(query.writes) for query in queries), number)
        last |= dict.fromkeys((name for query in queries for name in query.tables if name in last), number)
    tables: list[list[str]] = [[] for _ in PIPELINE]
    for name, number in last.items():
        # A view is saved before its sources are dropped.
        tables[number].insert(0 if name in _views() else len(tables[number]), name)
    return tables


@cache
def _views() -> frozenset[str]:
    return frozenset(name for stage in PIPELINE if stage.is_view for name in stage.queries)


def _let_go(work: Work, name: str, on_done: Callable[[str, bool], None]) -> None:
    """Report a finished table if a run keeps it, and drop it."""
    if name in TABLES and TABLES[name].kind == "derived":
        _with_memory(work.connection, lambda: on_done(name, work.has_rows[name]))
    if work.has_rows.get(name):
        kind = "view" if name in _views() else "table"
        work.connection.execute(f"drop {kind} {name}")


def derive_tree(work: Work) -> None:
    """Make `nesting` from `cpu_span`. Spans that cross others get new borders in `cpu_span`, until all spans nest.

    Most traces need no change. Traces with stacks need new borders of annotations, which is known in advance. Some
    traces with rounded times need one cut. Only damaged files and clock jumps need more. Threads that still cross after
    a few cuts get new ends.
    """
    has_frames = _one(work.connection, "select exists (select 1 from cpu_span where category = 'python_function')")
    if has_frames:
        _fit(work, "crossing_annotation")
    _derive(work, "nesting_of_span")
    if not _one(work.connection, "select coalesce(bool_or(overhangs), false) from nesting"):
        return
    if has_frames:
        _fit(work, "crossing_span")
        _derive(work, "nesting_of_span")
    if _fit(work, "crossing_step", "cpu_span_shrunk"):
        _derive(work, "nesting_of_span")
    crossing = (
        "select exists (select 1 from nesting inner join cpu_span on nesting.event_id = cpu_span.event_id"
        " where nesting.overhangs and nesting.end_ns < cpu_span.end_ns)"
    )
    for _ in range(_MOST_CUTS):
        if not _one(work.connection, crossing):
            return
        _derive(work, "cpu_span_cut")
        _derive(work, "nesting_of_span")
    if _one(work.connection, crossing):
        _derive(work, "cpu_span_matched")
        _derive(work, "nesting_of_span")


def _fit(work: Work, crossing: str, fitted: str = "cpu_span_fitted") -> bool:
    """Fit the spans listed by the query `crossing` between the frames that cross them, or by the query `fitted`."""
    _derive(work, crossing)
    if is_any := _one(work.connection, "select exists (select 1 from crossing)"):
        _derive(work, fitted)
    return is_any


def _lacks_forward_ops(work: Work) -> bool:
    return _one(work.connection, "select count(*) > 2 * count(forward_id) from node")


def _fit_backward(work: Work) -> None:
    """Find the forward op of each autograd node by alignment if the trace does not record it."""
    from hotline_analysis.annotation.backward import match_backward

    _derive(work, "engine_call")
    _derive(work, "engine_segment")
    _derive(work, "autograd_item")
    _keep(work, "autograd_match", match_backward(work.connection))
    _derive(work, "node_fitted")


def _place(work: Work) -> None:
    """Find the module of each op by alignment if the trace does not record it."""
    model, on_note = work.model, work.on_note
    lacks_modules = model is not None and _one(work.connection, "select count(*) = 0 from module_call")
    if model is not None and not lacks_modules and not model.stored:
        on_note(f"has nn.Module frames, which are used instead of {model.source}")
    if model is not None and lacks_modules:
        from hotline_analysis.annotation.placing.match import match_model
        from hotline_analysis.annotation.placing.misfit import ORDER_HINT
        from hotline_analysis.annotation.placing.several import match_models

        if model.note:
            on_note(model.note)
        _derive(work, "engine_call")
        _derive(work, "engine_segment")
        _keep(work, "compiled_part", _parts([module_id for name, module_id, _ in model.ops if name == REGION]))
        functions = {name for name, _, _ in model.ops if "::" not in name and name != REGION}
        _keep(work, "whole_op", _names(sorted(functions)))
        _derive(work, "forward_item")
        try:
            placement = (match_models if model.roots else match_model)(work.connection, model)
        except ModelMismatchError as error:
            if not model.stored:
                raise
            on_note(error.message)
            return
        if placement.note and not model.stored:
            on_note(f"{placement.note}. The places of all modules are doubtful. {ORDER_HINT}")
        _keep(work, "model_given", model.modules.append_column("missing_call_count", placement.missing))
        _keep(work, "module_match", placement.matches)
        _keep(work, "fused_candidate", placement.fused)
        _derive(work, "pass_level")
        _derive(work, "module_call_matched")
        _derive(work, "model_op_given")
        if model.shapes and not _has_shapes(work):
            for name, table in model.shapes.items():
                _keep(work, name, table)
            for name in _CAPTURED:
                _derive(work, name)


def _name_modules(work: Work) -> None:
    """Name the modules of the frames after the modules stored by a capture."""
    if work.model is not None and work.has_rows["model_op"]:
        _keep(work, "stored_module", watched_modules(work.model))
        _derive(work, "model_op_named")


def _parts(modules: list[int]) -> pa.Table:
    return table_of([{"module_id": module} for module in modules], pa.schema({"module_id": pa.int64()}))


def _names(names: list[str]) -> pa.Table:
    return table_of([{"name": name} for name in names], pa.schema({"name": pa.string()}))


def _lacks_steps(work: Work) -> bool:
    return _one(work.connection, "select bool_and(evidence = 'whole_trace') from step")


def _find_steps(work: Work) -> None:
    """Replace the single step of the whole trace by steps inferred from repetition."""
    from hotline_analysis.annotation.steps import infer_steps

    steps = infer_steps(work.connection)
    if steps is not None:
        _keep(work, "step", steps)


def _has_shapes(work: Work) -> bool:
    return _one(work.connection, "select exists (select 1 from op where input_dims is not null)")


def _count_work(work: Work) -> None:
    """Count FLOP and bytes of ops from the shapes of their arguments. Without shapes, the tables are empty."""
    if _has_shapes(work) or work.has_rows["captured_op"]:
        for name in _WORK:
            if name == "op_work":
                _count_own_work(work)
            _derive(work, name)
    else:
        for name in ("op_work", "op_claim"):
            _keep(work, name, no_rows(TABLES[name].arrow))


def _count_own_work(work: Work) -> None:
    """Count work by the user's own query, which must return at most one row per shape."""
    if work.own_work is None:
        _keep(work, "own_work", NO_WORK)
        return
    try:
        work.connection.execute(f"create or replace temp table own_work as {work.own_work}")
    except duckdb.Error as error:
        message = str(error).partition("\n")[0]
        raise HotlineError(
            f"the query for the work of ops failed: {message}", hint="Fix the file of --op-work."
        ) from error
    if _one(work.connection, "select count(*) > count(distinct shape_id) from own_work"):
        raise HotlineError("the query for the work of ops has two rows for a shape", hint="Fix the file of --op-work.")


def _follow_memory(work: Work) -> None:
    """Attribute memory by recorded allocations, or else by the shapes of ops."""
    for name in _MEMORY:
        _keep(work, name, no_rows(TABLES[name].arrow))
    if _one(work.connection, "select exists (select 1 from memory_event)"):
        query = "memory_block"
    elif _has_shapes(work):
        query = "estimated_memory"
    else:
        return
    for name in ("engine_call", "engine_segment", query):
        _derive(work, name)


def _keep(work: Work, name: str, table: pa.Table) -> None:
    """Create a table from rows in Python."""
    work.has_rows[name] = table.num_rows > 0
    if not table.num_rows:
        make_empty(work.connection, name, {field.name: _SQL_TYPES[str(field.type)] for field in table.schema})
        return
    work.connection.register("given", table)
    work.connection.execute(f"create or replace temp table {name} as from given")
    work.connection.unregister("given")


def _derive(work: Work, name: str) -> None:
    """Build the table written by a query. The query's steps are temporary tables."""
    query = catalog.get(name)
    assert query.writes is not None

    def make(each: catalog.Query, table: str) -> None:
        work.has_rows[table] = make_table_of(work.connection, each, table, has_rows=work.has_rows)

    for step in query.steps:
        _with_memory(work.connection, partial(make, step, step.name))
    # A query may read the table it replaces, so the old table is dropped only after the new one is complete.
    new_table = "derived" if query.writes in query.reads else query.writes
    _with_memory(work.connection, partial(make, query, new_table))
    if new_table != query.writes:
        work.connection.execute(f"drop table {query.writes}")
        work.connection.execute(f"alter table {new_table} rename to {query.writes}")
        work.has_rows[query.writes] = work.has_rows.pop(new_table)
    for step in query.steps:
        work.connection.execute(f"drop table {step.name}")
        del work.has_rows[step.name]


def _with_memory(connection: duckdb.DuckDBPyConnection, make: Callable[[], object]) -> None:
    """Make a table within the memory limit.

    If a huge trace exceeds the limit, retry in one thread, because each thread has its own buffers, and then with more
    memory, step by step.
    """
    try:
        make()
        return
    except duckdb.OutOfMemoryException:
        sql = "select current_setting('threads'), current_setting('memory_limit')"
        ((threads, limit),) = connection.execute(sql).fetchall()
    value, unit = limit.split()
    for factor in _MORE_MEMORY:
        connection.execute(
            f"set threads = {1 if factor == 1 else threads}; set memory_limit = '{factor * float(value)}{unit}'"
        )
        try:
            make()
            break
        except duckdb.OutOfMemoryException:
            if factor == _MORE_MEMORY[-1]:
                raise
    connection.execute(f"set threads = {threads}")
    with suppress(duckdb.OutOfMemoryException):  # the result alone is larger than the limit
        connection.execute(f"set memory_limit = '{limit}'")


def _one(connection: duckdb.DuckDBPyConnection, question: str) -> bool:
    return bool(connection.execute(catalog.parsed(connection, question)).fetchall()[0][0])


def _table(name: str) -> Stage:
    """A stage with a single query."""
    return Stage((name,), lambda work: _derive(work, name))


def _file(name: str) -> Stage:
    """A stage whose table no later stage reads: a view, so that saving the table runs the query.

    Making a table first takes as long as the query itself.
    """

    def define(work: Work) -> None:
        query = catalog.get(name)
        work.has_rows[name] = make_table_of(work.connection, query, name, has_rows=work.has_rows, as_view=True)

    return Stage((name,), define, is_view=True)


# Each stage reads only tables of earlier stages or of the file. `Query.writes` is the table made by a query.
PIPELINE = (
    _table("name_info"),
    _table("unknown_track"),
    _table("name_class"),
    _table("timed"),
    _table("cpu_span"),
    Stage(
        (
            *("crossing_annotation", "cpu_span_fitted", "nesting_of_span", "crossing_span", "crossing_step"),
            *("cpu_span_shrunk", "cpu_span_cut", "cpu_span_matched"),
        ),
        derive_tree,
        condition="all but `nesting_of_span` only where spans of a thread cross each other",
    ),
    _table("compiled_region"),
    _table("launch_of_work"),
    _table("step"),
    _table("gpu_busy"),
    _table("gpu_wait"),
    _table("module_call"),
    _table("model_op"),
    Stage(
        ("model_op_named",),
        _name_modules,
        when=lambda work: work.model is not None and work.model.stored and not work.model.registered,
        condition="where a capture stored the model and the trace has `nn.Module` frames",
    ),
    _table("node"),
    Stage(
        ("engine_call", "engine_segment", "autograd_item", "node_fitted"),
        _fit_backward,
        when=_lacks_forward_ops,
        condition="where most autograd nodes have no forward op: the trace has no sequence numbers",
    ),
    _table("closure_call"),
    Stage(
        (
            *("engine_call", "engine_segment", "forward_item", "first_use", "type_part", "type_evidence"),
            *("pass_level", "module_call_matched", "model_op_given", *_CAPTURED),
        ),
        _place,
        when=lambda work: work.model is not None,
        condition="where a model is given, or stored by a capture, and the trace has no `nn.Module` frames; the"
        " last four where the capture saw shapes and the trace has none",
    ),
    _table("frame_segment"),
    _table("node_module"),
    _table("module_segment"),
    _table("module_span"),
    _table("marker"),
    _table("marker_segment"),
    _table("main_track"),
    Stage(
        ("step_unit", "step_item"),
        _find_steps,
        when=_lacks_steps,
        condition="where nothing marks the steps",
    ),
    _table("backward_burst"),
    _table("gradient_part"),
    _table("phase_evidence"),
    _table("phase_gap"),
    _table("phase_span"),
    _table("cpu_sample"),
    _table("gpu_metric"),
    _table("sampled_frame"),
    _table("label_segment"),
    _table("thread_wait"),
    _table("host_activity"),
    _table("label_of_event"),
    _table("compiled_span"),
    _table("python_function"),
    _table("code_frame"),
    _table("module_source"),
    _table("labelled_span"),
    _file("cpu_event"),
    _file("gpu_event"),
    _table("lone_event"),
    _table("shared_kernel"),
    _table("nccl_call"),
    _table("collective_call"),
    _table("module_time"),
    _table("idle_part"),
    _table("rank_summary"),
    _table("start_up_call"),
    _table("step_activity"),
    _table("step_length"),
    _table("kernel_summary"),
    _table("gpu_gap"),
    _table("gpu_match"),
    _table("gpu_model"),
    _table("device_peak"),
    Stage(
        ("engine_call", "engine_segment", *_MEMORY),
        _follow_memory,
        condition="`memory_block` where allocations were recorded, else `estimated_memory` where shapes were; what is"
        " not made has no rows",
    ),
    Stage(
        _WORK,
        _count_work,
        condition="where shapes were recorded or captured; else the two tables that are kept have no rows",
    ),
)
"""The stages in order."""
