-- Dependency graph of a window of one rank: edges between points in time on the CPU and the GPU.
--
-- Nodes are points in time: each start and end of an event on a thread, the start and the end of GPU work, and the two
-- ends of the window (nodes 0 and 1). An edge means that `to_id` happens at least `weight_ns` after `from_id`. No edge
-- is longer than the observed time between its nodes. Exactly one edge into each node has the full observed length and
-- `binds`: its source is the event the node waited for. The longest path therefore has the length of the window.
--
-- Kinds of edges on threads:
--   host      the thread runs from one point to the next
--   handoff   the main thread hands over to autograd's own thread, or continues after its end
--   return    from the end of GPU work to the end of a call waiting for the work. The awaited work comes from the
--             trace's synchronisation records. Without a record, device synchronisation and free wait for all earlier
--             launches, and other calls wait for the work that ended last during the call. Pageable copies and blocking
--             copies wait for themselves (for their start, if the call returns before their end). A launch into a
--             stream with `most_pending()` pending launches waits for the work that ended last
--   full      from the start of the work whose queue slot a launch needs, to the end of the launching call. Edges of
--             this kind never bind, and only one call in fifty has an edge
-- Kinds of edges on the GPU:
--   work      GPU work runs
--   launch    from the start of the launching call to the start of the work. The edge binds if the call, cut at the
--             usual duration of a launching call, ends after the earlier work
--   queue     from the end of the previous work on the same stream
--   event     from the end of the work the stream waited for, by a CUDA event in the synchronisation records
--   wait      from the end of the work the stream waited for, by a call, in a trace without such records: the next
--             launch of the thread waits for the latest launch on another stream, unless the times contradict this
--   inferred  from the end of another stream's work, if that end is less than 50 us before the start and all other
--             causes ended more than 10 us before
--   shared    from the start of another stream's work that still runs, if all other causes ended more than 10 us before
--   stall     from a launching call that returned more than 50 us before the start, without another cause of the wait
--   untraced  the cause of the start is unknown
-- Edges of kind `end` lead to the end of the window.
--
-- With `until = 'host'` the window is `[start_ns, end_ns)`. With `work`, both ends move to the time at which all GPU
-- work launched before them is done. Windows of successive steps then never overlap, even if the GPU lags the CPU. With
-- `launched`, the window has `[start_ns, end_ns)` on the CPU and all GPU work launched in this time, whenever the work
-- runs: exactly the work of a step. An edge from earlier work then starts at the start of the window (node 0).
-- `previous_*` identify this earlier work, assuming that the previous steps were like this step: the node of the work
-- at the same position from the end of its stream, and the number of steps back.
--
-- :param rank BIGINT       the process rank
-- :param start_ns BIGINT   start of the window on the CPU
-- :param end_ns BIGINT     end of the window on the CPU
-- :param until VARCHAR in (host, work, launched) = 'work'
--                          extent of the window
-- :param frames BOOLEAN = true
--                          split a thread's time by python frames too; false gives fewer edges
-- :reads collective_use, event, gpu_event, host_activity, label_segment, model_op, path_edge, rank_work, thread_wait
-- :column rank RANK
-- :column to_id BIGINT                the later node
-- :column from_id BIGINT              the earlier node
-- :column kind VARCHAR                kind of the edge, see above
-- :column binds BOOLEAN               the later node waited for this edge
-- :column start_ns BIGINT             observed time of the earlier node
-- :column end_ns BIGINT               observed time of the later node
-- :column weight_ns BIGINT            least time between the nodes
-- :column event_id BIGINT             event of this time: the innermost event on a thread, the GPU work, the waiting
--                                     call, or the awaited work of another thread; NULL if the profiler shows no event
-- :column track_id BIGINT             thread, or track of the GPU work; NULL for edges to the end of the window
-- :column category VARCHAR            category of the event; NULL without an event
-- :column name VARCHAR                name of the event; NULL without an event
-- :column bound_by VARCHAR            cpu, data_loading, gpu_compute, communication, other_stage (sends and receives of
--                                     a pipeline), copy, launch, kernel_gap, unobserved (launched work waits for no
--                                     reason visible in the file) or unknown
-- :column activity VARCHAR            activity of the thread in this time, as in `host_activity`; NULL for edges of the
--                                     GPU and of threads outside the training loop
-- :column step STEP                   of the thread or of the launching call; NULL outside every step
-- :column phase PHASE                 of the thread or of the launching call
-- :column module_id BIGINT            module of the thread or of the launching call; NULL if unknown
-- :column module_path VARCHAR         path of the module
-- :column previous_id BIGINT          with `launched`, the node for the awaited work of an earlier step; NULL without
--                                     earlier work
-- :column previous_count BIGINT       number of steps back
-- :column previous_ns BIGINT          least time after this earlier node

-- one row per edge, with a number
with numbered_edge as materialized (
    select
        *,
        row_number() over () as number,
        kind in ('host', 'handoff', 'return', 'full') as is_host
    from path_edge
),

-- One row per edge of a thread, for looking up its labels. Few columns, since a join by time sorts all of them.
host_edge as (
    select
        number,
        track_id,
        since_ns,
        kind
    from numbered_edge
    where is_host
),

-- One row per edge waiting for another thread, with the awaited work. Only edges before the last wait are looked up.
waiting_edge as (
    select
        host_edge.number,
        thread_wait.event_id,
        thread_wait.kind
    from (
        select host_edge.*
        from host_edge
        inner join (
            select
                track_id,
                max(end_ns) as last_ns
            from thread_wait
            where rank = $rank
            group by track_id
        ) as reach on host_edge.track_id = reach.track_id
        where host_edge.since_ns < reach.last_ns
    ) as host_edge
    asof inner join (select * from thread_wait where rank = $rank) as thread_wait
        on host_edge.track_id = thread_wait.track_id and host_edge.since_ns >= thread_wait.start_ns
    where host_edge.kind = 'host' and host_edge.since_ns < thread_wait.end_ns
),

-- one row per edge of a thread, with the step, phase, module and activity of the thread
host_label as (
    select
        host_edge.number,
        label_segment.step,
        label_segment.phase,
        label_segment.module_id,
        host_activity.kind as activity
    from host_edge
    asof left join (select * from label_segment where rank = $rank) as label_segment
        on host_edge.track_id = label_segment.track_id and host_edge.since_ns >= label_segment.start_ns
    asof left join (select * from host_activity where rank = $rank) as host_activity
        on host_edge.track_id = host_activity.track_id and host_edge.since_ns >= host_activity.start_ns
),

-- one row per edge, with its event or the awaited work of another thread
edge as (
    select
        numbered_edge.* replace (
            case when waiting_edge.number is null then numbered_edge.event_id else waiting_edge.event_id end as event_id
        ),
        waiting_edge.kind as wait_kind
    from numbered_edge
    left join waiting_edge on numbered_edge.number = waiting_edge.number
),

-- one row per edge, with its event, activity, step, phase and module
labelled_edge as (
    select
        edge.*,
        event.category,
        event.name,
        linked.event_id is not null as is_linked,
        of_stage.event_id is not null as is_of_stage,
        host_label.activity,
        case when edge.is_host then host_label.step else gpu_event.step end as step,
        case when edge.is_host then host_label.phase else gpu_event.phase end as phase,
        case when edge.is_host then host_label.module_id else gpu_event.module_id end as module_id,
        case gpu_event.class
            when 'computation' then 'gpu_compute'
            when 'memory' then 'copy'
            else gpu_event.class
        end as class
    from edge
    left join host_label on edge.number = host_label.number
    left join event on event.rank = $rank and edge.event_id = event.event_id
    left join gpu_event on gpu_event.rank = $rank and edge.event_id = gpu_event.event_id
    left join (select event_id from collective_use where rank = $rank and use = 'stages') as of_stage
        on edge.event_id = of_stage.event_id
    left join (select event_id from rank_work where call_ns is not null) as linked
        on edge.event_id = linked.event_id
)

select
    $rank::bigint as rank,
    labelled_edge.to_id::bigint as to_id,
    labelled_edge.from_id::bigint as from_id,
    labelled_edge.kind,
    labelled_edge.binds,
    labelled_edge.start_ns,
    labelled_edge.end_ns,
    labelled_edge.weight_ns,
    labelled_edge.event_id,
    labelled_edge.track_id,
    labelled_edge.category,
    labelled_edge.name,
    case
        when labelled_edge.is_copying then 'copy'
        when
            labelled_edge.is_of_stage
            and (labelled_edge.wait_kind is not null or labelled_edge.kind in ('work', 'shared'))
            then 'other_stage'
        when labelled_edge.wait_kind = 'other_ranks' then 'communication'
        when labelled_edge.kind = 'host' and labelled_edge.phase = 'load_data' then 'data_loading'
        when labelled_edge.is_host then 'cpu'
        when labelled_edge.kind in ('work', 'shared') then labelled_edge.class
        when labelled_edge.kind = 'launch' then 'launch'
        -- Launched work that still waits 50 us after all known causes ended, as in idle_part.
        when labelled_edge.kind = 'stall' then 'unobserved'
        when labelled_edge.kind = 'queue' and labelled_edge.binds and labelled_edge.weight_ns > launch_effect_ns()
            then case when labelled_edge.is_linked then 'unobserved' else 'unknown' end
        when labelled_edge.kind in ('queue', 'event', 'wait', 'inferred') then 'kernel_gap'
        else 'unknown'
    end as bound_by,
    labelled_edge.activity,
    labelled_edge.step,
    labelled_edge.phase,
    labelled_edge.module_id,
    model_op.path as module_path,
    labelled_edge.previous_id::bigint as previous_id,
    labelled_edge.previous_count::bigint as previous_count,
    labelled_edge.previous_ns::bigint as previous_ns
from labelled_edge
left join model_op on model_op.rank = $rank and labelled_edge.module_id = model_op.module_id
order by labelled_edge.to_id, labelled_edge.from_id, labelled_edge.kind, labelled_edge.event_id
