-- What each launching thread does at each moment, with running totals, so that any stretch can be summed up by two
-- look-ups.
--
-- Loading data counts before waiting in a synchronise, and that before being inside an op or a runtime call; what is
-- left is python (or time the profiler shows nothing of). A synchronise is a call that returns when the GPU is done,
-- blocking copies among them.
--
-- :reads cpu_span, name_class, nesting, launch, phase_span, main_track
with host as (
    select distinct nesting.track_id
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    union
    select track_id from main_track
),

outer_call as (
    select
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns
    from nesting
    inner join cpu_span on nesting.event_id = cpu_span.event_id
    where
        nesting.op_depth = 0
        and cpu_span.category in ('cpu_op', 'cuda_runtime', 'cuda_driver')
        and nesting.end_ns > nesting.start_ns
        and nesting.track_id in (select track_id from host)
),

reached as (
    select
        *,
        max(end_ns) over (partition by track_id order by start_ns, event_id rows unbounded preceding) as reached_ns
    from outer_call
),

compared as (
    select
        *,
        lag(reached_ns) over (partition by track_id order by start_ns, event_id) as covered_to_ns
    from reached
),

numbered as (
    select
        *,
        sum((covered_to_ns is null or start_ns > covered_to_ns)::integer) over (
            partition by track_id order by start_ns, event_id rows unbounded preceding
        ) as island
    from compared
),

span as (
    select
        track_id,
        'op' as kind,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from numbered
    group by track_id, island
    union all
    select
        nesting.track_id,
        'sync',
        nesting.start_ns,
        nesting.end_ns
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id and name_class.is_sync
    inner join nesting on cpu_span.event_id = nesting.event_id
    where nesting.end_ns > nesting.start_ns and nesting.track_id in (select track_id from host)
    union all
    select
        track_id,
        'load_data',
        start_ns,
        end_ns
    from phase_span
    where phase = 'load_data' and track_id in (select track_id from host)
),

border as (
    select
        track_id,
        start_ns as at_ns,
        (kind = 'op')::integer as op,
        (kind = 'sync')::integer as sync,
        (kind = 'load_data')::integer as load_data
    from span
    union all
    select
        track_id,
        end_ns,
        -(kind = 'op')::integer,
        -(kind = 'sync')::integer,
        -(kind = 'load_data')::integer
    from span
),

merged as (
    select
        track_id,
        at_ns,
        sum(op) as op,
        sum(sync) as sync,
        sum(load_data) as load_data
    from border
    group by track_id, at_ns
),

state as (
    select
        track_id,
        at_ns,
        lead(at_ns) over in_order - at_ns as dur_ns,
        case
            when sum(load_data) over in_order > 0 then 'load_data'
            when sum(sync) over in_order > 0 then 'sync'
            when sum(op) over in_order > 0 then 'op'
            else 'python'
        end as kind
    from merged
    window in_order as (partition by track_id order by at_ns rows unbounded preceding)
)

select
    track_id,
    at_ns,
    kind,
    coalesce(sum(case when kind = 'load_data' then dur_ns end) over before, 0)::bigint as load_data_before_ns,
    coalesce(sum(case when kind = 'sync' then dur_ns end) over before, 0)::bigint as sync_before_ns,
    coalesce(sum(case when kind = 'op' then dur_ns end) over before, 0)::bigint as op_before_ns
from state
window before as (partition by track_id order by at_ns rows between unbounded preceding and 1 preceding)
