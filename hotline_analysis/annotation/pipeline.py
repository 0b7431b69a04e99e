"""Raw tables of one rank → derived tables, by running the queries of `queries/annotate` in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import REGION, Model
from hotline_analysis.database import make_empty, make_table_of, no_rows, table_of
from hotline_analysis.errors import HotlineError, ModelMismatchError
from hotline_analysis.schema import TABLES


def _nothing(columns: Iterable[str], texts: Iterable[str]) -> pa.Table:
    """A table without rows, where a stage has none to give; columns that are no texts are integers."""
    kinds = dict.fromkeys(columns, pa.int64()) | dict.fromkeys(texts, pa.string())
    return no_rows(pa.schema(kinds))


# What `shared_kernel` reads where no model was placed.
_NOTHING = _nothing(("event_id", "track_id", "start_ns", "end_ns", "module_id", "name", "word"), ("name", "word"))

# What `op_work` reads where the user has no query.
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
_MORE_MEMORY = (1, 1.25, 1.5, 2, 4, 8, 16)  # times what is set
_MOST_CUTS = 10  # twenty spans at random need five


@dataclass(frozen=True)
class Work:
    """What the stages work on: the database of one rank, the model that was given or stored, and who hears of notes."""

    connection: duckdb.DuckDBPyConnection
    model: Model | None
    on_note: Callable[[str], None]
    own_work: str | None = None
    """A statement of the user's that counts the work of ops."""
    has_rows: dict[str, bool] = field(default_factory=dict)
    """Whether a table has rows, for those of which that is known: to ask takes long on a small trace."""


@dataclass(frozen=True)
class Stage:
    """One stage of the annotation: the queries that it runs, and how."""

    queries: tuple[str, ...]
    build: Callable[[Work], None]
    when: Callable[[Work], bool] | None = None
    """Whether the trace needs it; always, if None."""
    condition: str = ""
    """The same in words."""


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

    The connection must hold the tables of the file (`schema.READ_TABLES`), without a `rank` column, and the rules of
    names (`install_rules`). The derived ones become temporary tables in it, together with those that only serve others.
    `on_done` is told of each table that a run keeps, and whether it has rows, once nothing changes or reads it any
    more. Then it is dropped, like all that serve no longer, so that memory is left for the others; without `on_done`,
    all of them stay.

    The `model` is placed on the ops if the trace has no `nn.Module` frames. `ModelMismatchError` says that it does not
    fit; a model that stands in the trace itself is then left out, and `on_note` is told. `own_work` is a statement that
    counts the work of ops, and `has_rows` says of tables of the file whether they have any, so that they need not be
    looked at.
    """
    work = Work(connection, model, on_note, own_work, dict(has_rows or {}))
    _keep(work, "forward_item", _NOTHING)
    _keep(work, "fused_candidate", _NOTHING)
    _keep(work, "compiled_part", _parts([]))
    _keep(work, "whole_op", _names([]))
    _keep(work, "captured_op", no_rows(TABLES["captured_op"].arrow))
    for number, stage in enumerate(PIPELINE):
        if stage.when is None or stage.when(work):
            stage.build(work)
        if on_done is not None:
            for name in _done_after()[number]:
                _let_go(work, name, on_done)
        if on_progress:
            on_progress((number + 1) / len(PIPELINE))


@cache
def _done_after() -> list[list[str]]:
    """For each stage, the tables of the annotation that nothing behind it makes or reads.

    What a stage does in Python reads tables that the stage makes, or that a query of a later one reads, too.
    """
    last: dict[str, int] = {}
    for number, stage in enumerate(PIPELINE):
        queries = [catalog.get(name) for name in stage.queries]
        last |= dict.fromkeys((str(query.writes) for query in queries), number)
        last |= dict.fromkeys((name for query in queries for name in query.tables if name in last), number)
    done: list[list[str]] = [[] for _ in PIPELINE]
    for name, number in last.items():
        done[number].append(name)
    return done


def _let_go(work: Work, name: str, on_done: Callable[[str, bool], None]) -> None:
    """Say that a table is done if a run keeps it, and drop it."""
    if name in TABLES and TABLES[name].kind == "derived":
        on_done(name, work.has_rows[name])
    if work.has_rows.get(name):
        work.connection.execute(f"drop table {name}")


def derive_tree(work: Work) -> None:
    """Make `nesting` from `cpu_span`. Spans that cross others get other borders in `cpu_span`, until all nest.

    Most traces need none of it. Those with stacks need other borders of annotations, which is known before; some that
    round times need one cut; only damage and clocks that jump need more. Threads that a few cuts do not settle get new
    ends.
    """
    has_frames = _one(work.connection, "select exists (select 1 from cpu_span where category = 'python_function')")
    if has_frames:
        _fit(work, "crossing_annotation")
    _derive(work, "nesting")
    if not _one(work.connection, "select coalesce(bool_or(overhangs), false) from nesting"):
        return
    if has_frames:
        _fit(work, "crossing_span")
        _derive(work, "nesting")
    if _fit(work, "crossing_step", "cpu_span_shrunk"):
        _derive(work, "nesting")
    crossing = (
        "select exists (select 1 from nesting inner join cpu_span on nesting.event_id = cpu_span.event_id"
        " where nesting.overhangs and nesting.end_ns < cpu_span.end_ns)"
    )
    for _ in range(_MOST_CUTS):
        if not _one(work.connection, crossing):
            return
        _derive(work, "cpu_span_cut")
        _derive(work, "nesting")
    if _one(work.connection, crossing):
        _derive(work, "cpu_span_matched")
        _derive(work, "nesting")


def _fit(work: Work, crossing: str, fitted: str = "cpu_span_fitted") -> bool:
    """Fit the spans that the query `crossing` names between the frames that cross them, or as `fitted` does."""
    _derive(work, crossing)
    if is_any := _one(work.connection, "select exists (select 1 from crossing)"):
        _derive(work, fitted)
    return is_any


def _lacks_forward_ops(work: Work) -> bool:
    return _one(work.connection, "select count(*) > 2 * count(forward_id) from node")


def _fit_backward(work: Work) -> None:
    """Find by alignment the forward op of each node, where the trace does not say it."""
    from hotline_analysis.annotation.backward import match_backward

    _derive(work, "engine_call")
    _derive(work, "engine_segment")
    _derive(work, "autograd_item")
    _keep(work, "autograd_match", match_backward(work.connection))
    _derive(work, "node_fitted")


def _place(work: Work) -> None:
    """Find by alignment the module of each op, where the trace does not say it."""
    model, on_note = work.model, work.on_note
    lacks_modules = model is not None and _one(work.connection, "select count(*) = 0 from module_call")
    if model is not None and not lacks_modules and not model.stored:
        on_note(f"has nn.Module frames, which say more than {model.source}; the modules are named after them")
    if model is not None and lacks_modules:
        from hotline_analysis.annotation.placing.match import match_model
        from hotline_analysis.annotation.placing.misfit import ORDER_HINT

        if model.note:
            on_note(model.note)
        _derive(work, "engine_call")
        _derive(work, "engine_segment")
        _keep(work, "compiled_part", _parts([module_id for name, module_id, _ in model.ops if name == REGION]))
        functions = {name for name, _, _ in model.ops if "::" not in name and name != REGION}
        _keep(work, "whole_op", _names(sorted(functions)))
        _derive(work, "forward_item")
        try:
            placed = match_model(work.connection, model)
        except ModelMismatchError as error:
            if not model.stored:
                raise
            on_note(error.message)
            return
        if placed.note and not model.stored:
            on_note(f"{placed.note}. The places of all modules are called doubtful. {ORDER_HINT}")
        _keep(work, "model_given", model.modules.append_column("missing_call_count", placed.missing))
        _keep(work, "module_match", placed.matches)
        _keep(work, "fused_candidate", placed.fused)
        _derive(work, "module_call_matched")
        _derive(work, "model_op_given")
        if model.shapes and not _has_shapes(work):
            for name, table in model.shapes.items():
                _keep(work, name, table)
            for name in _CAPTURED:
                _derive(work, name)


def _name_modules(work: Work) -> None:
    """Give the modules that frames show the names that a capture stored."""
    if work.model is not None and work.has_rows["model_op"]:
        _keep(work, "stored_module", work.model.modules)
        _derive(work, "model_op_named")


def _parts(modules: list[int]) -> pa.Table:
    return table_of([{"module_id": module} for module in modules], pa.schema({"module_id": pa.int64()}))


def _names(names: list[str]) -> pa.Table:
    return table_of([{"name": name} for name in names], pa.schema({"name": pa.string()}))


def _lacks_steps(work: Work) -> bool:
    return _one(work.connection, "select bool_and(evidence = 'whole_trace') from step")


def _find_steps(work: Work) -> None:
    """Put steps that only repetition shows in the place of the single one of the whole trace."""
    from hotline_analysis.annotation.steps import infer_steps

    steps = infer_steps(work.connection)
    if steps is not None:
        _keep(work, "step", steps)


def _has_shapes(work: Work) -> bool:
    return _one(work.connection, "select exists (select 1 from op where input_dims is not null)")


def _count_work(work: Work) -> None:
    """Count what ops compute and move, by the shapes of their arguments; without any there is nothing to count."""
    if _has_shapes(work) or work.has_rows["captured_op"]:
        for name in _WORK:
            if name == "op_work":
                _count_own_work(work)
            _derive(work, name)
    else:
        for name in ("op_work", "op_claim"):
            _keep(work, name, no_rows(TABLES[name].arrow))


def _count_own_work(work: Work) -> None:
    """Count what the user's own query knows, with one row for a shape."""
    if work.own_work is None:
        _keep(work, "own_work", NO_WORK)
        return
    try:
        work.connection.execute(f"create or replace temp table own_work as {work.own_work}")
    except duckdb.Error as error:
        what = str(error).partition("\n")[0]
        raise HotlineError(
            f"the query for the work of ops fails: {what}", hint="Mend the file of --op-work."
        ) from error
    if _one(work.connection, "select count(*) > count(distinct shape_id) from own_work"):
        raise HotlineError("the query for the work of ops has two rows for a shape", hint="Mend the file of --op-work.")


def _follow_memory(work: Work) -> None:
    """Find out what memory holds: by where it is allocated and released, or else by the shapes of ops."""
    for name in _MEMORY:
        _keep(work, name, no_rows(TABLES[name].arrow))
    if _one(work.connection, "select exists (select 1 from memory_event)"):
        told = "memory_block"
    elif _has_shapes(work):
        told = "estimated_memory"
    else:
        return
    for name in ("engine_call", "engine_segment", told):
        _derive(work, name)


def _keep(work: Work, name: str, table: pa.Table) -> None:
    """Make a table of rows that Python has."""
    work.has_rows[name] = table.num_rows > 0
    if not table.num_rows:
        make_empty(work.connection, name, {field.name: _SQL_TYPES[str(field.type)] for field in table.schema})
        return
    work.connection.register("given", table)
    work.connection.execute(f"create or replace temp table {name} as from given")
    work.connection.unregister("given")


def _derive(work: Work, name: str) -> None:
    """Build the table that a query writes; its steps are tables only meanwhile."""
    query = catalog.get(name)
    assert query.writes is not None

    def make(each: catalog.Query, table: str) -> None:
        work.has_rows[table] = make_table_of(work.connection, each, table, has_rows=work.has_rows)

    for step in query.steps:
        _with_memory(work.connection, partial(make, step, step.name))
    # A table that is read gets replaced only when the new one is complete.
    made = "derived" if query.writes in query.reads else query.writes
    _with_memory(work.connection, partial(make, query, made))
    if made != query.writes:
        work.connection.execute(f"drop table {query.writes}")
        work.connection.execute(f"alter table {made} rename to {query.writes}")
        work.has_rows[query.writes] = work.has_rows.pop(made)
    for step in query.steps:
        work.connection.execute(f"drop table {step.name}")
        del work.has_rows[step.name]


def _with_memory(connection: duckdb.DuckDBPyConnection, make: Callable[[], object]) -> None:
    """Make a table in the memory that is set.

    Where that does not do for a huge trace, try it in one thread, as each has memory of its own, and then with more
    memory, step by step.
    """
    try:
        make()
        return
    except duckdb.OutOfMemoryException:
        asked = "select current_setting('threads'), current_setting('memory_limit')"
        ((threads, limit),) = connection.execute(asked).fetchall()
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
    with suppress(duckdb.OutOfMemoryException):  # the result alone is larger
        connection.execute(f"set memory_limit = '{limit}'")


def _one(connection: duckdb.DuckDBPyConnection, question: str) -> bool:
    return bool(connection.execute(catalog.parsed(connection, question)).fetchall()[0][0])


def _table(name: str) -> Stage:
    """A stage that is one query."""
    return Stage((name,), lambda work: _derive(work, name))


# Each stage reads only what stands above it or comes from the file. `Query.writes` names the table that a query makes.
PIPELINE = (
    _table("name_info"),
    _table("name_class"),
    _table("sampled_frame"),
    _table("timed"),
    _table("cpu_span"),
    Stage(
        (
            *("crossing_annotation", "cpu_span_fitted", "nesting", "crossing_span", "crossing_step"),
            *("cpu_span_shrunk", "cpu_span_cut", "cpu_span_matched"),
        ),
        derive_tree,
        condition="all but `nesting` only where spans of a thread cross each other",
    ),
    _table("compiled_region"),
    _table("launch"),
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
            *("module_call_matched", "model_op_given", *_CAPTURED),
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
    _table("label_segment"),
    _table("thread_wait"),
    _table("host_activity"),
    _table("label"),
    _table("shared_kernel"),
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
"""The stages in their order."""
