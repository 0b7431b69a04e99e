-- What waits for what in a window of one rank: the edges of its dependency graph, on the CPU and the GPU.
--
-- Nodes are points of time: on each thread, wherever an event starts or ends; for GPU work, its start and its end; and
-- the two ends of the window (nodes 0 and 1). An edge says that `to_id` comes at the earliest `weight_ns` after
-- `from_id`. No edge is longer than the time observed between its nodes, and into each node leads one edge that is
-- exactly as long and `binds`: what the node waited for. So the longest path is as long as the window.
--
-- Kinds of edges on threads:
--   host      the thread runs from one point to the next,
--   handoff   the main thread hands over to autograd's own thread, and goes on when that is done,
--   return    from the end of GPU work to the end of a call that waited for it. The call waits for what the trace's
--             synchronisation records say, else for all work launched before it (device synchronise, free), else for
--             the work that ended last during the call; a copy from or to pageable memory and a blocking copy wait
--             for themselves (from the copy's start, if the call returns before its end), and a launch into a stream
--             with `most_pending()` launches pending waits for the work that ended last,
--   full      from the start of the work whose place in the stream's queue a launch needs to the end of its call; no
--             edge of this kind binds, and one call in fifty has one.
-- Kinds of edges on the GPU:
--   work      GPU work runs,
--   launch    from the start of the launch call to the start of the work. It binds if the call, or as much of it as
--             launch calls usually take, reaches beyond the end of what ran before,
--   queue     from the end of the work before on the same stream,
--   event     from the end of the work that the stream waited for, by a CUDA event in the synchronisation records,
--   wait      likewise, by a call of a trace without such records: what was launched last before it on another stream
--             is waited for by the next launch of its thread, unless times contradict,
--   inferred  from the end of another stream's work: what the above explains was over more than 10 us before the start,
--             and this less than 50 us,
--   shared    likewise, but the other work still ran: from its start,
--   stall     from a launch call that had returned more than 50 us before the start; nothing else explains the wait,
--   untraced  nothing shows why the work started when it did.
-- Edges of kind `end` lead to the window's end.
--
-- With `until = 'host'` the window is `[start_ns, end_ns)`. With `work`, both ends move to when all GPU work launched
-- before them is done: windows of successive steps then share no time, also where the GPU runs behind the CPU. With
-- `launched`, it is `[start_ns, end_ns)` on the CPU and all GPU work launched in it, whenever that runs: what a step
-- does, all of it and nothing else. What waits for earlier work then waits for the window's start (node 0), and
-- `previous_*` say for what, if the step before was like this one: the node of the work at the same place from the end
-- of its stream, so many steps ago.
--
-- :param rank BIGINT       the process rank
-- :param start_ns BIGINT   start of the window on the CPU
-- :param end_ns BIGINT     end of the window on the CPU
-- :param until VARCHAR in (host, work, launched) = 'work'
--                          what belongs to the window
-- :param frames BOOLEAN = true   python frames cut a thread's time, too; without them there are fewer edges
-- :reads collective_use, event, host_activity, label, label_segment, model_op, name_info, path_edge, rank_work,
--        thread_wait
-- :column rank BIGINT                 process rank
-- :column to_id BIGINT                the node that comes later
-- :column from_id BIGINT              the node that comes first
-- :column kind VARCHAR                what the edge is, see above
-- :column binds BOOLEAN               the edge is what the later node waited for
-- :column start_ns BIGINT             when the first node was observed
-- :column end_ns BIGINT               when the later node was observed
-- :column weight_ns BIGINT            the least time between the nodes
-- :column event_id BIGINT             the event that takes the time: innermost on a thread, the GPU work, the call
--                                     that waits, or the other thread's work that is waited for; NULL where the
--                                     profiler shows none
-- :column track_id BIGINT             the thread, or the GPU work's track; NULL for edges to the window's end
-- :column category VARCHAR            the event's category; NULL without one
-- :column name VARCHAR                the event's name; NULL without one
-- :column bound_by VARCHAR            cpu, data_loading, gpu_compute, communication, other_stage (sends and receives of
--     a pipeline), copy, launch, kernel_gap, unobserved (launched work waits, and nothing in the file explains it) or
--     unknown
-- :column activity VARCHAR            what the thread does meanwhile, as in `host_activity`; NULL for edges of the GPU,
--     and of threads outside the training loop
-- :column step BIGINT                 the step: of the thread then, or of the call that launched the work; NULL outside
-- :column phase VARCHAR               the phase, likewise
-- :column module_id BIGINT            the module, likewise; NULL where none is known
-- :column module_path VARCHAR         its path
-- :column previous_id BIGINT          with `launched`, the node that stands for what the edge waits for in an earlier
--                                     step; NULL where it waits for nothing earlier
-- :column previous_count BIGINT       how many steps earlier
-- :column previous_ns BIGINT          the least time after that node
with waiting_edge as (
    -- One row per edge, with the work of another thread that its thread waits for.
    select
        path_edge.* replace (
            case when path_edge.since_ns < thread_wait.end_ns then thread_wait.event_id else path_edge.event_id end
                as event_id
        ),
        case when path_edge.since_ns < thread_wait.end_ns then thread_wait.kind end as wait_kind
    from path_edge
    asof left join (select * from thread_wait where rank = $rank) as thread_wait
        on
            path_edge.track_id = thread_wait.track_id
            and path_edge.since_ns >= thread_wait.start_ns
            and path_edge.kind = 'host'
),

labelled as (
    select
        path_edge.*,
        event.category,
        event.name,
        path_edge.kind in ('host', 'handoff', 'return', 'full') as is_host,
        linked.event_id is not null as is_linked,
        of_stage.event_id is not null as is_of_stage,
        case when is_host then host_activity.kind end as activity,
        case when is_host then label_segment.step else label.step end as step,
        case when is_host then label_segment.phase else label.phase end as phase,
        case when is_host then label_segment.module_id else label.module_id end as module_id,
        case name_info.class
            when 'computation' then 'gpu_compute'
            when 'memory' then 'copy'
            else name_info.class
        end as class
    from waiting_edge as path_edge
    left join event on event.rank = $rank and path_edge.event_id = event.event_id
    left join name_info
        on ($rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    left join label on label.rank = $rank and path_edge.event_id = label.event_id
    left join (select event_id from collective_use where rank = $rank and use = 'stages') as of_stage
        on path_edge.event_id = of_stage.event_id
    left join (select event_id from rank_work where call_ns is not null) as linked
        on path_edge.event_id = linked.event_id
    asof left join (select * from label_segment where rank = $rank) as label_segment
        on path_edge.track_id = label_segment.track_id and path_edge.since_ns >= label_segment.start_ns
    asof left join (select * from host_activity where rank = $rank) as host_activity
        on path_edge.track_id = host_activity.track_id and path_edge.since_ns >= host_activity.start_ns
)

select
    $rank::bigint as rank,
    labelled.to_id::bigint as to_id,
    labelled.from_id::bigint as from_id,
    labelled.kind,
    labelled.binds,
    labelled.start_ns,
    labelled.end_ns,
    labelled.weight_ns,
    labelled.event_id,
    labelled.track_id,
    labelled.category,
    labelled.name,
    case
        when labelled.is_copying then 'copy'
        when labelled.is_of_stage and (labelled.wait_kind is not null or labelled.kind in ('work', 'shared'))
            then 'other_stage'
        when labelled.wait_kind = 'other_ranks' then 'communication'
        when labelled.kind = 'host' and labelled.phase = 'load_data' then 'data_loading'
        when labelled.is_host then 'cpu'
        when labelled.kind in ('work', 'shared') then labelled.class
        when labelled.kind = 'launch' then 'launch'
        -- Launched work that waits for over 50 us after what it waited for is over: as in idle_part.
        when labelled.kind = 'stall' then 'unobserved'
        when labelled.kind = 'queue' and labelled.binds and labelled.weight_ns > launch_effect_ns()
            then case when labelled.is_linked then 'unobserved' else 'unknown' end
        when labelled.kind in ('queue', 'event', 'wait', 'inferred') then 'kernel_gap'
        else 'unknown'
    end as bound_by,
    labelled.activity,
    labelled.step,
    labelled.phase,
    labelled.module_id,
    model_op.path as module_path,
    labelled.previous_id::bigint as previous_id,
    labelled.previous_count::bigint as previous_count,
    labelled.previous_ns::bigint as previous_ns
from labelled
left join model_op on model_op.rank = $rank and labelled.module_id = model_op.module_id
order by labelled.to_id, labelled.from_id, labelled.kind, labelled.event_id
