"""Hide what a trace says of its modules, annotate it again with the model alone, and compare.

The truth is what the `nn.Module` frames, sequence numbers and flows of the trace say. The model is what a capture would
have learned: the modules, and the ops that the first forward pass of the trace runs in each.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import duckdb

from hotline_analysis import Trace, catalog
from hotline_analysis.annotation.model_file import METADATA_KEY, Model, parse_model
from hotline_analysis.annotation.pipeline import annotate
from hotline_analysis.database import SETTINGS, install_macros, install_rules
from hotline_analysis.schema import READ_TABLES

SIDES = ("engine_call", "engine_segment", "forward_item")


@dataclass(frozen=True)
class Share:
    """CPU self time and GPU time of events in modules, and how much of it has the right module, in nanoseconds."""

    cpu_ns: int
    cpu_right_ns: int
    gpu_ns: int
    gpu_right_ns: int

    @property
    def cpu_pct(self) -> float:
        """Share of CPU op time with the right module; 100 without any."""
        return 100.0 * self.cpu_right_ns / self.cpu_ns if self.cpu_ns else 100.0

    @property
    def gpu_pct(self) -> float:
        """Share of GPU time with the right module; 100 without any."""
        return 100.0 * self.gpu_right_ns / self.gpu_ns if self.gpu_ns else 100.0


def tables_of(trace: Trace, *, hide: bool = False) -> duckdb.DuckDBPyConnection:
    """The tables that were read from the file, in a database of their own; without frames, numbers and flows."""
    connection = duckdb.connect(config=dict(SETTINGS))
    install_macros(connection)
    install_rules(connection)
    for table in READ_TABLES:
        connection.register("given", trace.table(table.name).drop("rank").to_arrow())
        connection.execute(f"create table {table.name} as from given")
        connection.unregister("given")
    if hide:
        connection.execute("delete from event where category = 'python_function'")
        connection.execute("delete from python_call")
        connection.execute("update op set sequence_number = null, forward_thread = null, module_hierarchy = null")
        connection.execute("delete from flow where kind = 'fwdbwd'")
        connection.execute("delete from event where category = 'fwdbwd'")
    return connection


def learned_model(connection: duckdb.DuckDBPyConnection) -> Model:
    """The model as a capture would have stored it, from an annotated trace with frames."""
    for name in SIDES:
        connection.execute(f"create or replace temp table {name} as {catalog.get(name).sql}")
    modules = connection.sql("select * exclude (module_key) from model_op order by module_id").to_arrow_table()
    ops = connection.sql(
        """
        with pass as (
            -- the first call of the root that takes longest: the model, and not its loss
            select track_id, start_ns, end_ns from module_span
            where pass = 'forward' and depth = 0 order by module_id != (
                select module_id from module_span where pass = 'forward' and depth = 0
                group by module_id order by sum(end_ns - start_ns) desc, module_id limit 1
            ), start_ns limit 1
        ),
        leaf as (
            select forward_item.*, label.module_id
            from forward_item
            inner join label on forward_item.event_id = label.event_id
            inner join pass on forward_item.track_id = pass.track_id
                and forward_item.start_ns >= pass.start_ns and forward_item.start_ns < pass.end_ns
            where label.module_id is not null and label.pass = 'forward'
        )
        select leaf.name, leaf.module_id, coalesce(module_span.call, 0)
        from leaf
        asof left join module_span
            on leaf.track_id = module_span.track_id and leaf.module_id = module_span.module_id
            and leaf.start_ns >= module_span.start_ns
        order by leaf.start_ns
        """
    ).fetchall()
    return Model(modules, ops, "the trace")


def captured_model(trace: Trace) -> Model:
    """The model that the capture has stored in a trace."""
    metadata = json.loads(trace.sql("select metadata from rank_info").item())
    return parse_model(metadata[METADATA_KEY], "the capture")


def compare(trace: Trace, model: Model | None = None) -> dict[str, Share]:
    """Annotate with all that the trace says and with the model alone; compare each pass.

    Without a `model`, it is learned from the frames. Modules of a captured model and of the frames are the same if they
    have the same place in the order of execution; their types must agree.
    """
    truth = tables_of(trace)
    annotate(truth)
    if model is None:
        model = learned_model(truth)
    else:
        ours = model.modules.column("type").to_pylist()
        theirs = [row[0] for row in truth.sql("select type from model_op order by module_id").fetchall()]
        assert theirs[: len(ours)] == ours[: len(theirs)], "not the same modules"
    found = tables_of(trace, hide=True)
    annotate(found, model=model)
    found.register("truth", truth.sql("select * from label").to_arrow_table())
    rows = found.sql(
        """
        select
            truth.pass,
            sum(case when event.category = 'cpu_op' then nesting.self_ns else 0 end)::bigint,
            sum(case when event.category = 'cpu_op' and found.module_id = truth.module_id
                then nesting.self_ns else 0 end)::bigint,
            sum(case when launch.event_id is not null then event.dur_ns else 0 end)::bigint,
            sum(case when launch.event_id is not null and found.module_id = truth.module_id
                then event.dur_ns else 0 end)::bigint
        from truth
        inner join event on truth.event_id = event.event_id
        left join label as found on truth.event_id = found.event_id
        left join nesting on truth.event_id = nesting.event_id
        left join launch on truth.event_id = launch.event_id
        where truth.module_id is not null
        group by truth.pass
        """
    ).fetchall()
    return {row[0]: Share(*row[1:]) for row in rows}
