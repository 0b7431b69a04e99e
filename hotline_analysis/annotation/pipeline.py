"""Raw tables of one rank → derived tables, by running the queries of `queries/annotate` in order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import duckdb
import pyarrow as pa

from hotline_analysis import catalog
from hotline_analysis.annotation.model_file import REGION, Model
from hotline_analysis.database import make_table
from hotline_analysis.errors import ModelMismatchError
from hotline_analysis.schema import derived_tables

# Each entry reads only what stands above it or comes from the file. `Query.writes` names the table it makes.
_ORDER = (
    "name_info",
    "name_class",
    "timed",
    "cpu_span",
    "nesting",
    "compiled_region",
    "launch",
    "step",
    "gpu_busy",
    "module_call",
    "model_op",
    "node",
    "closure_call",
    "frame_segment",
    "node_module",
    "module_segment",
    "module_span",
    "marker",
    "marker_segment",
    "main_track",
    "backward_burst",
    "phase_evidence",
    "phase_gap",
    "phase_span",
    "label_segment",
    "label",
    "shared_kernel",
    "module_time",
    "gpu_wait",
    "host_activity",
    "idle_part",
    "gpu_gap",
)

# Only where the trace does not say which forward op made a node, or which module an op belongs to.
_IN_DOUBT = ("engine_call", "engine_segment", "autograd_item", "node_fitted")
_WITH_MODEL = ("forward_item", "type_part", "type_evidence", "module_call_matched", "model_op_given")

# What `shared_kernel` reads where no model was placed.
_NOTHING = pa.table(
    {
        name: pa.array([], pa.string() if name in ("word", "name") else pa.int64())
        for name in ("event_id", "track_id", "start_ns", "end_ns", "module_id", "name", "word")
    }
)

_DOUBLINGS = 4
_MOST_CUTS = 10  # twenty spans at random need five


def annotate(
    connection: duckdb.DuckDBPyConnection,
    on_progress: Callable[[float], None] | None = None,
    *,
    model: Model | None = None,
    on_note: Callable[[str], None] = lambda note: None,
) -> list[str]:
    """Derive the annotation of one rank and return the names of the tables that make it up.

    The connection must hold the tables of the file (`schema.READ_TABLES`), without a `rank` column. The derived ones
    are left in it as temporary tables, together with those that only serve the next. The `model` is placed on the ops
    if the trace has no `nn.Module` frames. `ModelMismatchError` says that it does not fit; a model that stands in
    the trace itself is then left out, and `on_note` is told.
    """
    for name, rules in catalog.rules().items():
        _keep(connection, name, rules)
    _keep(connection, "forward_item", _NOTHING)
    _keep(connection, "fused_candidate", _NOTHING)
    _keep(connection, "compiled_part", _parts([]))
    for number, name in enumerate(_ORDER):
        if name == "nesting":
            derive_tree(connection)
        else:
            _derive(connection, name)
        if name == "node" and _one(connection, "select count(*) > 2 * count(forward_id) from node"):
            _fit_backward(connection)
        if name == "closure_call":
            _place(connection, model, on_note)
        if name == "main_track" and _one(connection, "select bool_and(evidence = 'whole_trace') from step"):
            _find_steps(connection)
        if on_progress:
            on_progress((number + 1) / len(_ORDER))
    return [table.name for table in derived_tables()]


def derive_tree(connection: duckdb.DuckDBPyConnection) -> None:
    """Make `nesting` from `cpu_span`. Spans that cross others get other borders in `cpu_span`, until all nest.

    Most traces need none of it. Those with stacks need other borders of annotations, which is known before; some that
    round times need one cut; only damage and clocks that jump need more. Threads that a few cuts do not settle get new
    ends.
    """
    has_frames = _one(connection, "select exists (select 1 from cpu_span where category = 'python_function')")
    if has_frames:
        _fit(connection, "crossing_annotation")
    _derive(connection, "nesting")
    if not _one(connection, "select coalesce(bool_or(overhangs), false) from nesting"):
        return
    if has_frames:
        _fit(connection, "crossing_span")
        _derive(connection, "nesting")
    if _fit(connection, "crossing_step", "cpu_span_shrunk"):
        _derive(connection, "nesting")
    crossing = (
        "select exists (select 1 from nesting inner join cpu_span on nesting.event_id = cpu_span.event_id"
        " where nesting.overhangs and nesting.end_ns < cpu_span.end_ns)"
    )
    for _ in range(_MOST_CUTS):
        if not _one(connection, crossing):
            return
        _derive(connection, "cpu_span_cut")
        _derive(connection, "nesting")
    if _one(connection, crossing):
        _derive(connection, "cpu_span_matched")
        _derive(connection, "nesting")


def _fit(connection: duckdb.DuckDBPyConnection, crossing: str, fitted: str = "cpu_span_fitted") -> bool:
    """Fit the spans that the query `crossing` names between the frames that cross them, or as `fitted` does."""
    _derive(connection, crossing)
    if is_any := _one(connection, "select exists (select 1 from crossing)"):
        _derive(connection, fitted)
    return is_any


def _fit_backward(connection: duckdb.DuckDBPyConnection) -> None:
    """Find by alignment the forward op of each node, where the trace does not say it."""
    from hotline_analysis.annotation.backward import match_backward

    _derive(connection, "engine_call")
    _derive(connection, "engine_segment")
    _derive(connection, "autograd_item")
    _keep(connection, "autograd_match", match_backward(connection))
    _derive(connection, "node_fitted")


def _place(connection: duckdb.DuckDBPyConnection, model: Model | None, on_note: Callable[[str], None]) -> None:
    """Find by alignment the module of each op, where the trace does not say it."""
    lacks_modules = model is not None and _one(connection, "select count(*) = 0 from module_call")
    if model is not None and not lacks_modules and not model.stored:
        on_note(f"has nn.Module frames, which say more than {model.source}; the modules are named after them")
    if model is not None and lacks_modules:
        from hotline_analysis.annotation.placing.match import match_model
        from hotline_analysis.annotation.placing.misfit import ORDER_HINT

        if model.note:
            on_note(model.note)
        _derive(connection, "engine_call")
        _derive(connection, "engine_segment")
        _keep(connection, "compiled_part", _parts([module_id for name, module_id, _ in model.ops if name == REGION]))
        _derive(connection, "forward_item")
        try:
            placed = match_model(connection, model)
        except ModelMismatchError as error:
            if not model.stored:
                raise
            on_note(error.message)
            return
        if placed.note and not model.stored:
            on_note(f"{placed.note}. The places of all modules are called doubtful. {ORDER_HINT}")
        _keep(connection, "model_given", model.modules.append_column("missing_call_count", placed.missing))
        _keep(connection, "module_match", placed.matches)
        _keep(connection, "fused_candidate", placed.fused)
        _derive(connection, "module_call_matched")
        _derive(connection, "model_op_given")


def _parts(modules: list[int]) -> pa.Table:
    return pa.table({"module_id": pa.array(modules, pa.int64())})


def _find_steps(connection: duckdb.DuckDBPyConnection) -> None:
    """Put steps that only repetition shows in the place of the single one of the whole trace."""
    from hotline_analysis.annotation.steps import infer_steps

    steps = infer_steps(connection)
    if steps is not None:
        _keep(connection, "step", steps)


def _keep(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("given", table)
    connection.execute(f"create or replace temp table {name} as from given")
    connection.unregister("given")


def _derive(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Build the table that a query writes; its steps are tables only meanwhile."""
    query = catalog.get(name)
    assert query.writes is not None
    for step in query.steps:
        _with_memory(connection, partial(make_table, connection, step.name, step.sql))
    # A table that is read gets replaced only when the new one is complete.
    made = "derived" if query.writes in query.reads else query.writes
    _with_memory(connection, partial(make_table, connection, made, query.sql))
    if made != query.writes:
        connection.execute(f"drop table {query.writes}")
        connection.execute(f"alter table {made} rename to {query.writes}")
    for step in query.steps:
        connection.execute(f"drop table {step.name}")


def _with_memory(connection: duckdb.DuckDBPyConnection, make: Callable[[], None]) -> None:
    """Make a table in the memory that is set; where that does not do for a huge trace, allow it twice as much."""
    limit = connection.execute("select current_setting('memory_limit')").fetchall()[0][0]
    value, unit = limit.split()
    for doublings in range(_DOUBLINGS + 1):
        try:
            make()
            break
        except duckdb.OutOfMemoryException:
            if doublings == _DOUBLINGS:
                raise
            connection.execute(f"set memory_limit = '{2 ** (doublings + 1) * float(value)}{unit}'")
    if doublings:
        with suppress(duckdb.OutOfMemoryException):  # the result alone is larger
            connection.execute(f"set memory_limit = '{limit}'")


def _one(connection: duckdb.DuckDBPyConnection, question: str) -> bool:
    return bool(connection.execute(question).fetchall()[0][0])
