-- What each launching thread does at each moment, with running totals, so that any stretch can be summed up by two
-- look-ups.
--
-- Loading data counts before waiting in a synchronise, and that before being inside an op or a runtime call; what is
-- left is python (or time the profiler shows nothing of). A synchronise is a call that returns when the GPU is done,
-- blocking copies among them.
--
-- The sums run over all threads, each of which begins where all that the one before has begun has ended. They are taken
-- over the rows in the order of an inner query, which a window without `order by` keeps, and needs no memory for.
--
-- :reads cpu_span, name_class, nesting, launch, phase_span, main_track
with host as (
    select distinct nesting.track_id
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    union
    select track_id from main_track
),

span as (
    select
        nesting.track_id,
        'op' as kind,
        nesting.start_ns,
        nesting.end_ns
    from nesting
    inner join cpu_span on nesting.event_id = cpu_span.event_id
    where
        nesting.op_depth = 0
        and cpu_span.category in ('cpu_op', 'cuda_runtime', 'cuda_driver')
        and nesting.end_ns > nesting.start_ns
        and nesting.track_id in (select track_id from host)
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
        (kind = 'op')::tinyint as op,
        (kind = 'sync')::tinyint as sync,
        (kind = 'load_data')::tinyint as load_data
    from span
    union all
    select
        track_id,
        end_ns,
        -(kind = 'op')::tinyint,
        -(kind = 'sync')::tinyint,
        -(kind = 'load_data')::tinyint
    from span
),

in_order as (
    select * from border
    order by track_id, at_ns
),

moment as (
    select
        track_id,
        at_ns,
        case
            when sum(load_data) over so_far > 0 then 'load_data'
            when sum(sync) over so_far > 0 then 'sync'
            when sum(op) over so_far > 0 then 'op'
            else 'python'
        end as kind,
        -- of several borders at one time, the last says what begins
        coalesce(lead(track_id) over () != track_id or lead(at_ns) over () > at_ns, true) as is_last
    from in_order
    window so_far as (rows unbounded preceding) -- noqa: PRS
),

known as (
    select
        track_id,
        at_ns,
        kind,
        coalesce(lag(track_id) over () != track_id or lag(kind) over () != kind, true) as is_change
    from moment
    where is_last
),

state as (
    select
        track_id,
        at_ns,
        kind,
        case when lead(track_id) over () = track_id then lead(at_ns) over () - at_ns else 0 end as dur_ns
    from known
    where is_change
),

total as (
    select
        track_id,
        at_ns,
        kind,
        sum(case when kind = 'load_data' then dur_ns else 0 end) over so_far
        - case when kind = 'load_data' then dur_ns else 0 end as load_data_before_ns,
        sum(case when kind = 'sync' then dur_ns else 0 end) over so_far
        - case when kind = 'sync' then dur_ns else 0 end as sync_before_ns,
        sum(case when kind = 'op' then dur_ns else 0 end) over so_far
        - case when kind = 'op' then dur_ns else 0 end as op_before_ns
    from state
    window so_far as (rows unbounded preceding) -- noqa: PRS
),

-- what the threads before have added up
earlier as (
    select
        track_id,
        min(load_data_before_ns) as load_data_ns,
        min(sync_before_ns) as sync_ns,
        min(op_before_ns) as op_ns
    from total
    group by track_id
)

select
    total.track_id,
    total.at_ns,
    total.kind,
    (total.load_data_before_ns - earlier.load_data_ns)::bigint as load_data_before_ns,
    (total.sync_before_ns - earlier.sync_ns)::bigint as sync_before_ns,
    (total.op_before_ns - earlier.op_ns)::bigint as op_before_ns
from total
inner join earlier on total.track_id = earlier.track_id
