-- CPU events during idle time of the GPU, by short name, longest first.
--
-- An event counts with its self time on the thread the GPU waits for, within the parts of `idle_part` before the
-- launch. Time of the thread without events is left out.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param cause HOST_CAUSE = NULL     only idle time of this cause
-- :param limit BIGINT >= 0 or NULL = 20 so many names of each cause; NULL for all
-- :reads idle_part, cpu_event
-- :column rank RANK
-- :column cause HOST_CAUSE           cause of the idle time
-- :column category VARCHAR           category of the events
-- :column short_name VARCHAR         short name of the events
-- :column name VARCHAR               full name with the most time
-- :column count BIGINT               number of events
-- :column idle_ns BIGINT             self time of the events while the GPU had no work
-- :column idle_pct DOUBLE            share of the idle time of this cause
-- :column max_ns BIGINT              largest time of one event
-- :column event_id BIGINT            event with the largest time

-- one row per idle part of a thread
with part as (
    select distinct
        rank,
        track_id,
        start_ns,
        end_ns,
        cause
    from idle_part
    where
        cause in ('load_data', 'profiler', 'sync', 'other_ranks', 'other_thread', 'cpu_tensor', 'op', 'python')
        and is_asked($rank, rank)
        and is_asked($step, step)
        and is_asked($cause, cause)
),

thread as (
    select
        rank,
        track_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from part
    group by rank, track_id
),

-- one row per event of such a thread
thread_event as (
    select cpu_event.*
    from cpu_event
    inner join thread
        on
            cpu_event.rank = thread.rank
            and cpu_event.track_id = thread.track_id
            and cpu_event.start_ns < thread.end_ns
            and cpu_event.end_ns > thread.start_ns
    where cpu_event.end_ns > cpu_event.start_ns
),

-- Borders of events and idle parts on the threads, with the innermost event and the cause from the border on.
edge as (
    select
        rank,
        track_id,
        start_ns as at_ns,
        1 as opens,
        depth as in_order,
        {'event_id': event_id} as innermost,
        null::struct(cause varchar) as idle
    from thread_event
    union all
    select
        rank,
        track_id,
        end_ns,
        0,
        -depth,
        {'event_id': parent_id},
        null
    from thread_event
    union all
    select
        rank,
        track_id,
        start_ns,
        3,
        0,
        null,
        {'cause': cause}
    from part
    union all
    select
        rank,
        track_id,
        end_ns,
        2,
        0,
        null,
        {'cause': null}
    from part
),

-- one row per slice between two borders, with its event and cause
slice as (
    select
        rank,
        track_id,
        lead(at_ns) over in_order - at_ns as dur_ns,
        last_value(innermost ignore nulls) over so_far as inside,
        last_value(idle ignore nulls) over so_far as waiting
    from edge
    window
        in_order as (partition by rank, track_id order by at_ns, opens, in_order),
        so_far as (
            partition by rank, track_id order by at_ns, opens, in_order
            rows between unbounded preceding and current row
        )
),

event_time as (
    select
        rank,
        waiting.cause,
        inside.event_id,
        sum(dur_ns)::bigint as own_ns
    from slice
    where dur_ns > 0 and waiting.cause is not null and inside.event_id is not null
    group by rank, waiting.cause, inside.event_id
),

total as (
    select
        rank,
        cause,
        sum(end_ns - start_ns) as idle_ns
    from part
    group by rank, cause
),

-- one row per cause and short name, limited to the names with the most time
name_time as (
    select
        event_time.rank,
        event_time.cause,
        cpu_event.category,
        cpu_event.short_name,
        arg_max(cpu_event.name, (event_time.own_ns, -event_time.event_id)) as name,
        count(*) as count,
        sum(event_time.own_ns)::bigint as idle_ns,
        max(event_time.own_ns) as max_ns,
        arg_max(event_time.event_id, (event_time.own_ns, -event_time.event_id)) as event_id
    from event_time
    inner join cpu_event on event_time.rank = cpu_event.rank and event_time.event_id = cpu_event.event_id
    group by event_time.rank, event_time.cause, cpu_event.category, cpu_event.short_name
    qualify
        row_number() over (
            partition by event_time.rank, event_time.cause
            order by sum(event_time.own_ns) desc, cpu_event.category, cpu_event.short_name
        ) <= coalesce($limit, 9223372036854775807)
)

select
    name_time.rank,
    name_time.cause,
    name_time.category,
    name_time.short_name,
    name_time.name,
    name_time.count,
    name_time.idle_ns,
    100.0 * name_time.idle_ns / total.idle_ns as idle_pct,
    name_time.max_ns,
    name_time.event_id
from name_time
inner join total on name_time.rank = total.rank and name_time.cause = total.cause
order by
    name_time.rank, total.idle_ns desc, name_time.cause, name_time.idle_ns desc, name_time.category,
    name_time.short_name
