-- Stretches in which autograd runs on a thread of its own, for that thread and for the main thread, which waits.
--
-- A stretch ends where the main thread shows another phase. The main thread's share is the weakest evidence of all: any
-- marker on the main thread itself counts more.
--
-- :reads node, nesting, marker_segment, main_track, step
-- :column track_id BIGINT  autograd's thread, or the main thread for the same stretch
-- :column start_ns BIGINT  start of the first node of the stretch
-- :column end_ns BIGINT    end of what autograd's thread does after the last node, at most the start of its next
--                          stretch
-- :column event_id BIGINT  the first node
with elsewhere as (
    select node.*
    from node
    where node.track_id not in (select track_id from main_track)
),

sign as (
    select start_ns
    from marker_segment
    where
        track_id in (select track_id from main_track)
        and family in ('strong', 'weak')
        and label != 'backward'
    union
    select start_ns from step
),

counted as (
    select
        start_ns,
        row_number() over (order by start_ns) as number
    from sign
),

grouped as (
    select
        elsewhere.track_id,
        elsewhere.event_id,
        elsewhere.start_ns,
        elsewhere.end_ns,
        coalesce(counted.number, 0) as number
    from elsewhere
    asof left join counted on elsewhere.start_ns >= counted.start_ns
),

burst as (
    select
        track_id,
        min(start_ns) as start_ns,
        arg_min(event_id, (start_ns, event_id)) as event_id
    from grouped
    group by track_id, number
),

started as (
    select
        track_id,
        start_ns,
        event_id,
        lead(start_ns) over (partition by track_id order by start_ns) as next_ns
    from burst
),

-- What autograd's thread does after its last node (hooks, callbacks) still belongs to the backward pass.
apart as (
    select
        started.track_id,
        started.start_ns,
        max(least(nesting.end_ns, coalesce(started.next_ns, nesting.end_ns))) as end_ns,
        any_value(started.event_id) as event_id
    from nesting
    asof inner join started on nesting.track_id = started.track_id and nesting.start_ns >= started.start_ns
    where nesting.depth = 0
    group by started.track_id, started.start_ns
)

select * from apart
union all
select
    main_track.track_id,
    apart.start_ns,
    apart.end_ns,
    apart.event_id
from apart
cross join main_track
