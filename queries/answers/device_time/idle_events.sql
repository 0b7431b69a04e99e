-- What the CPU does while the GPU has no work, by short name: the events that hold it up, most time first.
--
-- Counted is the time of an event of its own (without what is inside it) on the thread that the GPU waits for, in the
-- parts of `idle_part` until the launch. Time in which the thread shows no event is left out.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param cause HOST_CAUSE = NULL     only idle time of this cause
-- :param limit BIGINT >= 0 or NULL = 20 so many names of each cause; NULL for all
-- :reads idle_part, nesting, event, name_info
-- :column rank BIGINT                process rank
-- :column cause HOST_CAUSE           why the GPU had no work
-- :column category VARCHAR           category of the events
-- :column short_name VARCHAR         their short name
-- :column name VARCHAR               full name of the one with the most time
-- :column count BIGINT               events
-- :column idle_ns BIGINT             their own time while the GPU had no work
-- :column idle_pct DOUBLE            share of the idle time of this cause
-- :column max_ns BIGINT              the most of one event
-- :column event_id BIGINT            that event
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

around as (
    select nesting.*
    from nesting
    inner join thread
        on
            nesting.rank = thread.rank
            and nesting.track_id = thread.track_id
            and nesting.start_ns < thread.end_ns
            and nesting.end_ns > thread.start_ns
    where nesting.end_ns > nesting.start_ns
),

-- The threads' time, cut where an event or a part begins or ends, with the innermost event and the cause from there on.
edge as (
    select
        rank,
        track_id,
        start_ns as at_ns,
        1 as opens,
        depth as in_order,
        {'event_id': event_id} as innermost,
        null::struct(cause varchar) as idle
    from around
    union all
    select
        rank,
        track_id,
        end_ns,
        0,
        -depth,
        {'event_id': parent_id},
        null
    from around
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

spent as (
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

named as (
    select
        spent.rank,
        spent.cause,
        event.category,
        coalesce(name_info.short_name, event.name) as short_name,
        arg_max(event.name, (spent.own_ns, -spent.event_id)) as name,
        count(*) as count,
        sum(spent.own_ns)::bigint as idle_ns,
        max(spent.own_ns) as max_ns,
        arg_max(spent.event_id, (spent.own_ns, -spent.event_id)) as event_id
    from spent
    inner join event on spent.rank = event.rank and spent.event_id = event.event_id
    left join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    group by spent.rank, spent.cause, event.category, coalesce(name_info.short_name, event.name)
    qualify
        row_number() over (
            partition by spent.rank, spent.cause
            order by sum(spent.own_ns) desc, event.category, coalesce(name_info.short_name, event.name)
        ) <= coalesce($limit, 9223372036854775807)
)

select
    named.rank,
    named.cause,
    named.category,
    named.short_name,
    named.name,
    named.count,
    named.idle_ns,
    100.0 * named.idle_ns / total.idle_ns as idle_pct,
    named.max_ns,
    named.event_id
from named
inner join total on named.rank = total.rank and named.cause = total.cause
order by named.rank, total.idle_ns desc, named.cause, named.idle_ns desc, named.category, named.short_name
