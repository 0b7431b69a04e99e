-- One row per edge of the graph, with the numbers of its nodes.
--
-- Node 0 is the start of the window, and node 1 the end. The points of threads follow, and then the start and the end
-- of each work, in order of place. Earlier work has no nodes: an edge from earlier work starts at the start of the
-- window instead. `previous_id` is the node of its substitute, which is the work of the window at the same position
-- from the end of its stream.
--
-- :reads end_edge, gpu_edge, path_window, queue_place, thread_edge, thread_point, window_work
-- :column to_id BIGINT           the later node
-- :column from_id BIGINT         the earlier node
-- :column kind VARCHAR           kind of the edge
-- :column binds BOOLEAN          the later node waited for this edge
-- :column start_ns BIGINT        observed time of the earlier node
-- :column end_ns BIGINT          observed time of the later node
-- :column since_ns BIGINT        equal to `start_ns`, except for earlier work (its actual time) and for `full` (the
--                                end)
-- :column weight_ns BIGINT       least time between the nodes
-- :column event_id BIGINT        event of this time; NULL if the profiler shows no event
-- :column track_id BIGINT        thread, or track of the work; NULL for edges to the end of the window
-- :column previous_id BIGINT     node of the substitute; NULL without earlier work
-- :column previous_count BIGINT  number of steps back
-- :column previous_ns BIGINT     least time after this earlier node
-- :column is_copying BOOLEAN     the edge comes from the start of a copy whose call returns during the copy

-- one row per edge, with places of work instead of node numbers
with edge as (
    select
        to_id,
        null::bigint as to_place,
        null::boolean as to_end,
        from_id,
        from_place,
        from_end,
        kind,
        binds,
        start_ns,
        end_ns,
        weight_ns,
        event_id,
        track_id,
        false as is_before
    from thread_edge
    union all
    select
        null,
        to_place,
        to_end,
        from_id,
        from_place,
        from_end,
        kind,
        binds,
        start_ns,
        end_ns,
        weight_ns,
        event_id,
        track_id,
        false
    from gpu_edge
    union all
    select
        to_id,
        null,
        null,
        null,
        from_place,
        false,
        'full',
        false,
        start_ns,
        end_ns,
        0,
        event_id,
        track_id,
        is_before
    from queue_place
    union all
    select
        1,
        null,
        null,
        from_id,
        from_place,
        from_place is not null,
        'end',
        binds,
        start_ns,
        end_ns,
        weight_ns,
        null,
        null,
        false
    from end_edge
),

-- The first node of GPU work.
first_node as (
    select count(*) + 2 as node_id
    from thread_point
),

-- One row per stream of the window.
stream as (
    select
        device,
        stream,
        count(*) as work_count
    from window_work
    where not is_earlier
    group by device, stream
),

-- One row per earlier work. The substitute is NULL if the stream has no work in the window.
earlier_work as (
    select
        earlier_work.place,
        own.place as own_place,
        case when own.place is not null then 1 + (earlier_work.from_last - 1) // stream.work_count end as previous_count
    from (select * from window_work where is_earlier) as earlier_work
    left join stream on earlier_work.device = stream.device and earlier_work.stream = stream.stream
    left join (select * from window_work where not is_earlier) as own
        on
            earlier_work.device = own.device
            and earlier_work.stream = own.stream
            and own.from_last = 1 + (earlier_work.from_last - 1) % stream.work_count
)

select
    coalesce(edge.to_id, first_node.node_id + 2 * edge.to_place + edge.to_end::integer) as to_id,
    case
        when earlier_work.place is not null or edge.is_before then 0
        else coalesce(edge.from_id, first_node.node_id + 2 * edge.from_place + edge.from_end::integer)
    end as from_id,
    edge.kind,
    edge.binds,
    case when earlier_work.place is null and not edge.is_before then edge.start_ns else path_window.start_ns end
        as start_ns,
    edge.end_ns,
    case when edge.kind = 'full' then edge.end_ns else edge.start_ns end as since_ns,
    edge.weight_ns
    + case when earlier_work.place is null then 0 else greatest(edge.start_ns - path_window.start_ns, 0) end
        as weight_ns,
    edge.event_id,
    edge.track_id,
    first_node.node_id
    + 2 * case when edge.is_before then edge.from_place else earlier_work.own_place end
    + edge.from_end::integer as previous_id,
    case when edge.is_before then 1 else earlier_work.previous_count end as previous_count,
    case when edge.is_before or earlier_work.own_place is not null then edge.weight_ns end as previous_ns,
    edge.kind = 'return' and not edge.from_end as is_copying
from edge
cross join path_window
cross join first_node
left join earlier_work on edge.from_place = earlier_work.place
