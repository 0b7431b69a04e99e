-- What each launching thread does at each moment, with running totals, so that any stretch can be summed up by two look-ups.
--
-- Loading data counts before waiting in a synchronise, and that before being inside an op or a runtime call; what is left
-- is python (or time the profiler shows nothing of). A synchronise is a call that returns when the GPU is done,
-- blocking copies among them.
--
-- :reads event, nesting, launch, phase_span, main_track
with host as (
    select distinct nesting.track_id
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    union
    select track_id from main_track
),

call as (
    select
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        event.category in ('cuda_runtime', 'cuda_driver')
        and (
            regexp_matches(event.name, 'Synchronize$|^(cuda|hip)Free$')
            or (regexp_matches(event.name, '^(cuda|hip)Memcpy') and not regexp_matches(event.name, 'Async'))
        ) as is_sync
    from nesting
    inner join event on nesting.event_id = event.event_id
    where
        event.category in ('cpu_op', 'cuda_runtime', 'cuda_driver')
        and nesting.end_ns > nesting.start_ns
        and nesting.track_id in (select track_id from host)
),

reached as (
    select
        *,
        max(end_ns) over (partition by track_id order by start_ns, event_id rows unbounded preceding) as reached_ns
    from call
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
        track_id,
        'sync',
        start_ns,
        end_ns
    from call
    where is_sync
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
