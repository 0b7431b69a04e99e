"""Set the times of a file's events, and correct or remove impossible times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from hotline_analysis import catalog
from hotline_analysis.importer.tables import reading, save
from hotline_analysis.schema import TABLES
from hotline_analysis.text.formats import duration, listed

# Within these limits, `unlikely_time.sql` finds nothing: ten days, and three years of total duration.
_LONGEST_NS = 864_000 * 10**9
_MOST_NS = 10**17

# Queries that find times to change, in order, with the table needed for any result.
_RULES = (("unlikely_time", "event"), ("launch_order", "gpu_op"), ("stream_overlap", "gpu_op"))

# Events without a time, by rule: the phrase for one event and for several.
_TIMELESS = {
    "zero_time": ("with ts = dur = 0", "with ts = dur = 0"),
    "far_time": ("over ten days away from the others", "over ten days away from the others"),
    "long_time": ("lasting days or years", "lasting days or years"),
    "before_launch": ("starting before the launch", "starting before the launch"),
    "ends_first": ("with the end before the start", "with the end before the start"),
    "": ("without a valid start or duration", "without a valid start or duration"),
}


def settle_times(connection: duckdb.DuckDBPyConnection, folder: Path, tracks: pa.Table) -> list[str]:
    """Decide which events have a duration. Return notes with the number of changed times.

    Separate begin and end events are merged into a duration. Impossible times are removed, moved or cut by the queries
    of `_RULES`; the table `event_args` keeps the original durations and the rule. Asynchronous events get a duration if
    the file has no other durations. `tracks` has the track numbers.
    """
    connection.execute(f"create temp view event as from {reading(folder / 'event.parquet')}")
    connection.execute(f"create temp view gpu_op as from {reading(folder / 'gpu_op.parquet')}")
    connection.register("track_key", tracks)
    begins, asyncs, zeros, window_ns, total_ns = connection.execute(
        "select count(*) filter (where ph = 'B'), count(*) filter (where ph = 'b'),"
        " count(*) filter (where start_ns = 0 and (dur_ns = 0 or ph = 'B')),"
        " max(end_ns) - min(start_ns) filter (where dur_ns is not null), sum(dur_ns) from event"
    ).fetchall()[0]
    if begins:
        connection.execute(f"create temp table paired as {catalog.get('begin_end').sql}")
        _replace_times(connection, folder, "paired", {name: f"coalesce(event.{name}, paired.{name})" for name in _ENDS})
    if asyncs and not begins and total_ns is None:  # nothing else in the file has a duration
        connection.execute(f"create temp view event_args as from {reading(folder / 'event_args.parquet')}")
        connection.execute(f"create temp table spanned as {catalog.get('async_span').sql}")
        connection.execute("drop view event_args")
        ends = {name: f"coalesce(event.{name}, spanned.{name})" for name in _ENDS}
        _replace_times(connection, folder, "spanned", ends)
    connection.execute(
        "create temp table changed_time (event_id bigint, rule varchar, start_ns bigint, dur_ns bigint,"
        " given_dur_ns bigint, moved_ns bigint)"
    )
    # Paired events are also within the time range of the file.
    is_odd = begins or asyncs or zeros or (window_ns or 0) > _LONGEST_NS or (total_ns or 0) > _MOST_NS
    for rule, table in _RULES:
        if is_odd if table == "event" else pq.read_metadata(folder / f"{table}.parquet").num_rows:
            _change_times(connection, folder, rule)
    counts = dict(connection.execute("select rule, count(*) from changed_time group by rule").fetchall())
    if counts:
        _keep_given(connection, folder)
    notes = [*_timeless(connection, folder, counts), *_moved(connection), *_cut(connection, counts.get("overlap", 0))]
    connection.execute("drop table changed_time; drop view event; drop view gpu_op")
    connection.unregister("track_key")
    return notes


_ENDS = ("dur_ns", "end_ns")


def _change_times(connection: duckdb.DuckDBPyConnection, folder: Path, rule: str) -> None:
    """Change the times found by a rule."""
    connection.execute(f"create or replace temp table found_time as {catalog.get(rule).sql}")
    ((count,),) = connection.execute("select count(*) from found_time").fetchall()
    if count:
        expressions = {
            "start_ns": "coalesce(found_time.start_ns, event.start_ns)",
            "dur_ns": "case when found_time.event_id is null then event.dur_ns else found_time.dur_ns end",
            "end_ns": "case when found_time.event_id is null then event.end_ns"
            " else found_time.start_ns + found_time.dur_ns end",
        }
        connection.execute(
            "insert into changed_time select found_time.event_id, found_time.rule, found_time.start_ns,"
            " found_time.dur_ns, found_time.given_dur_ns, found_time.start_ns - event.start_ns"
            " from found_time inner join event on found_time.event_id = event.event_id"
        )
        if rule == "launch_order":
            _move_arrows(connection, folder)
        _replace_times(connection, folder, "found_time", expressions)
    connection.execute("drop table found_time")


def _replace_times(
    connection: duckdb.DuckDBPyConnection, folder: Path, other: str, chosen: Mapping[str, str], table: str = "event"
) -> None:
    """Rewrite a table with other times, from the expressions in `chosen`."""
    names = TABLES[table].arrow.names
    columns = ", ".join(f"{chosen[name]} as {name}" if name in chosen else f"{table}.{name}" for name in names)
    query = f"select {columns} from {table} left join {other} on {table}.event_id = {other}.event_id"  # noqa: S608
    save(connection, table, f"{query} order by {table}.event_id", folder, replace=True)


def _move_arrows(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Move the ends of launch arrows together with their moved GPU work."""
    connection.execute(f"create temp view flow as from {reading(folder / 'flow.parquet')}")
    connection.execute(
        "create temp table moved_arrow as select flow.event_id, flow.start_ns + moved.by_ns as start_ns from flow"
        " inner join (select event.track_id, any_value(found_time.start_ns - event.start_ns) as by_ns from found_time"
        " inner join event on found_time.event_id = event.event_id where found_time.rule = 'other_clock'"
        " group by event.track_id) as moved on flow.track_id = moved.track_id"
    )
    _replace_times(
        connection, folder, "moved_arrow", {"start_ns": "coalesce(moved_arrow.start_ns, flow.start_ns)"}, "flow"
    )
    connection.execute("drop table moved_arrow; drop view flow")


def _keep_given(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Store the original durations and the rules that changed them in `event_args`."""
    table = reading(folder / "event_args.parquet")
    query = (
        "select coalesce(kept.event_id, changed.event_id) as event_id, kept.args, case when changed.event_id is null"  # noqa: S608
        " then kept.fields else json_merge_patch(coalesce(nullif(kept.fields, 'null'), '{}'), changed.fields) end"
        f" as fields from {table} as kept full join (select event_id, json_object('dur', arg_min(given_dur_ns, step)"
        " / 1000, 'time_rule', arg_max(rule, step)) as fields from (select *, rowid as step from changed_time)"
        " group by event_id) as changed on kept.event_id = changed.event_id order by event_id"
    )
    save(connection, "event_args", query, folder, replace=True)


def _timeless(connection: duckdb.DuckDBPyConnection, folder: Path, counts: Mapping[str, int]) -> list[str]:
    """Return a note on events without a time that should have one."""
    timeless, gpu = connection.execute(
        "select count(*), count(*) filter (where category in ('kernel', 'gpu_memcpy', 'gpu_memset')) from event"
        " where dur_ns is null and category is distinct from 'hotline' and (ph = 'X'"
        " or category in ('kernel', 'gpu_memcpy', 'gpu_memset') and ph is distinct from 'E')"
    ).fetchall()[0]
    if not timeless:
        return []
    ((negative,),) = connection.execute(
        "select count(*) from event inner join"  # noqa: S608
        f" {reading(folder / 'event_args.parquet')} as given on event.event_id = given.event_id"
        " where event.ph = 'X' and event.dur_ns is null and json_valid(given.fields)"
        " and try_cast(json_extract_string(given.fields, '$.dur') as double) < 0"
    ).fetchall()
    counts_by_rule = {rule: counts.get(rule, 0) for rule in _TIMELESS} | {"ends_first": negative}
    counts_by_rule[""] = timeless - sum(counts_by_rule.values())
    kinds = [f"{count:,} {_TIMELESS[rule][count > 1]}" for rule, count in counts_by_rule.items() if count > 0]
    sentence = f"{timeless:,} events ({listed(kinds)})"
    if len(kinds) == 1:
        count, _, words = kinds[0].partition(" ")
        sentence = f"{count} event{'s' if timeless > 1 else ''} {words}"
    return [f"results exclude {sentence}" + (f", {gpu:,} of them GPU work" if gpu else "")]


def _moved(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a note on devices whose clock differs from the CPU clock."""
    rows: Sequence[tuple[int, int]] = connection.execute(
        "select moved_ns, count(*) from changed_time where rule = 'other_clock' group by moved_ns order by moved_ns"
    ).fetchall()
    return [
        f"the GPU clock is {duration(abs(shift))} {'behind' if shift > 0 else 'ahead of'} the CPU clock:"
        f" {count:,} event{'s are' if count > 1 else ' is'} moved by this difference"
        for shift, count in rows
    ]


def _cut(connection: duckdb.DuckDBPyConnection, count: int) -> list[str]:
    """Return a note on GPU work that overlapped the next work of its stream."""
    if not count:
        return []
    ((kept_ns, cut_ns),) = connection.execute(
        "select (select sum(dur_ns) from event where category in ('kernel', 'gpu_memcpy', 'gpu_memset')),"
        " (select sum(given_dur_ns - dur_ns) from changed_time where rule = 'overlap')"
    ).fetchall()
    subject = f"{count:,} kernels or copies overlap the next work of the stream and are"
    if count == 1:
        subject = "1 kernel or copy overlaps the next work of the stream and is"
    return [f"{subject} cut at the next start (GPU time {duration(kept_ns)} instead of {duration(kept_ns + cut_ns)})"]
