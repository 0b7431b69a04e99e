-- Stretches in which autograd runs on a thread of its own, for this thread and for the waiting main thread.
--
-- A stretch ends where the main thread shows another phase. The row for the main thread is the weakest evidence of all:
-- any marker on the main thread itself counts more.
--
-- :reads node, nesting, marker_segment, main_track, step
-- :only_with node
-- :column track_id BIGINT  autograd's thread, or the main thread for the same stretch
-- :column start_ns BIGINT  start of the first node of the stretch
-- :column end_ns BIGINT    end of the thread's activity after the last node, at most the start of the next stretch
-- :column event_id BIGINT  the first node
with own_thread_node as (
    -- Autograd nodes on threads other than the main thread.
    select node.*
    from node
    where node.track_id not in (select track_id from main_track)
),

-- Times at which the main thread shows another phase, or a step starts.
border as (
    select start_ns
    from marker_segment
    where
        track_id in (select track_id from main_track)
        and family in ('strong', 'weak')
        and label != 'backward'
    union
    select start_ns from step
),

-- Borders, numbered in order of time.
numbered_border as (
    select
        start_ns,
        row_number() over (order by start_ns) as number
    from border
),

-- Nodes, with the number of the last border before each.
node_of_burst as (
    select
        own_thread_node.track_id,
        own_thread_node.event_id,
        own_thread_node.start_ns,
        own_thread_node.end_ns,
        coalesce(numbered_border.number, 0) as number
    from own_thread_node
    asof left join numbered_border on own_thread_node.start_ns >= numbered_border.start_ns
),

-- Nodes of one thread between two borders.
burst as (
    select
        track_id,
        min(start_ns) as start_ns,
        arg_min(event_id, (start_ns, event_id)) as event_id
    from node_of_burst
    group by track_id, number
),

-- Bursts, with the start of the thread's next burst.
burst_start as (
    select
        track_id,
        start_ns,
        event_id,
        lead(start_ns) over (partition by track_id order by start_ns) as next_ns
    from burst
),

-- Stretches of autograd's own threads. Activity after the last node (hooks, callbacks) still belongs to the backward
-- pass.
own_stretch as (
    select
        burst_start.track_id,
        burst_start.start_ns,
        max(least(nesting.end_ns, coalesce(burst_start.next_ns, nesting.end_ns))) as end_ns,
        any_value(burst_start.event_id) as event_id
    from nesting
    asof inner join burst_start on nesting.track_id = burst_start.track_id and nesting.start_ns >= burst_start.start_ns
    where nesting.depth = 0
    group by burst_start.track_id, burst_start.start_ns
)

select * from own_stretch
union all
select
    main_track.track_id,
    own_stretch.start_ns,
    own_stretch.end_ns,
    own_stretch.event_id
from own_stretch
cross join main_track
