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
--             with 1000 launches pending waits for the work that ended last.
-- Kinds of edges on the GPU:
--   work      GPU work runs,
--   launch    from the start of the launch call to the start of the work. It binds if the call, or as much of it as
--             launch calls usually take, reaches beyond the end of what ran before,
--   queue     from the end of the work before on the same stream,
--   event     from the end of the work that the stream waited for, by a CUDA event in the synchronisation records,
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
-- :reads event, nesting, gpu_op, launch, label, label_segment, host_activity, phase_span, sync, model_op, name_info,
--   python_call
-- :column rank BIGINT                 process rank
-- :column to_id BIGINT                the node that comes later
-- :column from_id BIGINT              the node that comes first
-- :column kind VARCHAR                what the edge is, see above
-- :column binds BOOLEAN               the edge is what the later node waited for
-- :column start_ns BIGINT             when the first node was observed
-- :column end_ns BIGINT               when the later node was observed
-- :column weight_ns BIGINT            the least time between the nodes
-- :column event_id BIGINT             the event that takes the time: innermost on a thread, the GPU work, or the call
--                                     that waits; NULL where the profiler shows none
-- :column track_id BIGINT             the thread, or the GPU work's track; NULL for edges to the window's end
-- :column category VARCHAR            the event's category; NULL without one
-- :column name VARCHAR                the event's name; NULL without one
-- :column bound_by VARCHAR            cpu, data_loading, gpu_compute, communication, copy, launch, kernel_gap,
--     unobserved (launched work waits, and nothing in the file explains it) or unknown
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
with gpu as (
    select
        event.event_id,
        event.track_id,
        event.category,
        event.name,
        event.start_ns,
        event.end_ns,
        coalesce(gpu_op.device, -1) as device,
        coalesce(gpu_op.stream, -1) as stream,
        launch.runtime_id,
        -- cudaMemcpyAsync returns when pageable memory is staged or filled; with pinned memory, at once (CUDA runtime
        -- API, "API synchronization behavior")
        event.category = 'gpu_memcpy'
        and launch.runtime_id is not null
        and not regexp_matches(event.name, '(?i)DtoD|DeviceToDevice|Device -> Device')
        and (contains(event.name, 'Pageable') or coalesce(caller.is_blocking, false)) as is_awaited,
        call.track_id as call_track_id,
        case when call.start_ns <= event.start_ns then call.start_ns end as call_ns,
        call.end_ns as call_end_ns,
        case when launch.runtime_id is not null then call.end_ns - call.start_ns else 0 end as call_dur_ns,
        case
            when label.bucket = 'pre_window' then least($start_ns - 1, event.start_ns)
            else least(coalesce(call.start_ns, event.start_ns), event.start_ns)
        end as launched_ns
    from event
    inner join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
    inner join launch on event.rank = launch.rank and event.event_id = launch.event_id
    left join label on event.rank = label.rank and event.event_id = label.event_id
    left join nesting as call
        on launch.rank = call.rank and coalesce(launch.runtime_id, launch.op_id) = call.event_id
    left join event as call_event
        on event.category = 'gpu_memcpy' and launch.rank = call_event.rank and launch.runtime_id = call_event.event_id
    left join name_info as caller
        on (call_event.rank, call_event.category, call_event.name) = (caller.rank, caller.category, caller.name)
    where event.rank = $rank and event.category in ('kernel', 'gpu_memcpy', 'gpu_memset')
),

bound as (
    select
        case $until
            when 'work'
                then greatest($start_ns, coalesce(max(end_ns) filter (where launched_ns < $start_ns), $start_ns))
            else $start_ns
        end as start_ns,
        case $until
            when 'host' then $end_ns
            when 'work' then greatest($end_ns, coalesce(max(end_ns) filter (where launched_ns < $end_ns), $end_ns))
            else
                greatest(
                    $end_ns,
                    coalesce(
                        max(end_ns) filter (where launched_ns >= $start_ns and launched_ns < $end_ns), $end_ns
                    )
                )
        end as end_ns,
        coalesce(quantile_disc(call_dur_ns, 0.5) filter (where call_dur_ns > 0), 0) as call_dur_ns
    from gpu
),

-- With `launched`: the work of the window and the work before it, counted from the last of each stream.
counted as (
    select
        *,
        $until = 'launched' and launched_ns < $start_ns as is_earlier,
        row_number() over (
            partition by device, stream, launched_ns < $start_ns order by start_ns desc, end_ns desc, event_id desc
        ) as from_last
    from gpu
    where launched_ns < $end_ns
),

op as (
    select
        counted.* exclude (start_ns, end_ns),
        greatest(counted.start_ns, bound.start_ns) as start_ns,
        greatest(least(counted.end_ns, bound.end_ns), bound.start_ns) as end_ns,
        row_number() over (order by counted.start_ns, counted.end_ns, counted.event_id) as place
    from counted
    cross join bound
    where
        counted.start_ns <= bound.end_ns
        and (counted.end_ns > bound.start_ns or (counted.is_earlier and counted.from_last = 1))
),

-- What stands for earlier work: the work of the window at the same place from the end of its stream.
stand_in as (
    select
        op.place,
        own.place as own_place,
        1 + (op.from_last - 1) // per_stream.work_count as previous_count
    from op
    inner join (
        select
            each.device,
            each.stream,
            count(*) as work_count
        from op as each
        where not each.is_earlier
        group by each.device, each.stream
    ) as per_stream
        on op.device = per_stream.device and op.stream = per_stream.stream
    inner join op as own
        on
            op.device = own.device
            and op.stream = own.stream
            and not own.is_earlier
            and own.from_last = 1 + (op.from_last - 1) % per_stream.work_count
    where op.is_earlier
),

-- What one call launches on one stream: one place in its queue.
batch as (
    select
        device,
        stream,
        launched_ns,
        arg_min(event_id, (start_ns, end_ns, event_id)) as first_id,
        arg_max(event_id, (start_ns, end_ns, event_id)) as last_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from gpu
    group by device, stream, launched_ns
),

-- --- threads ---------------------------------------------------------------------------------------------------------

main as (
    select coalesce(
        (select min(track_id) from phase_span where rank = $rank and is_main),
        (select arg_max(track_id, (size, -track_id)) from (
            select
                track_id,
                count(*) as size
            from nesting
            where rank = $rank
            group by track_id
        ))
    ) as track_id
),

thread as (
    select track_id from main where track_id is not null
    union
    select call_track_id from op where call_track_id is not null
    union
    select track_id from phase_span where rank = $rank
),

host as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.depth,
        nesting.parent_id,
        greatest(nesting.start_ns, bound.start_ns) as start_ns,
        nesting.end_ns
    from nesting
    inner join thread on nesting.track_id = thread.track_id
    cross join bound
    left join python_call
        on not $frames and nesting.rank = python_call.rank and nesting.event_id = python_call.event_id
    where
        nesting.rank = $rank
        and python_call.event_id is null
        and nesting.end_ns > nesting.start_ns
        and nesting.end_ns > bound.start_ns
        and nesting.start_ns < $end_ns
),

-- Autograd on a thread of its own: the main thread hands over at its start and goes on at its end.
handover as (
    select
        phase_span.track_id,
        main.track_id as main_id,
        phase_span.start_ns,
        phase_span.end_ns
    from phase_span
    inner join main on phase_span.track_id != main.track_id
    cross join bound
    where
        phase_span.rank = $rank
        and not phase_span.is_main
        and phase_span.phase = 'backward'
        and phase_span.end_ns > bound.start_ns
        and phase_span.start_ns < $end_ns
),

border as (
    select
        track_id,
        start_ns as at_ns,
        event_id as opened,
        null as closed_into,
        depth
    from host
    union all
    select
        track_id,
        end_ns,
        null,
        coalesce(parent_id, -1),
        depth
    from host
    where end_ns <= $end_ns
    union all
    select
        unnest([track_id, main_id]),
        start_ns,
        null,
        null,
        null
    from handover
    cross join (select start_ns as bound_ns from bound) as edge
    where start_ns > bound_ns
    union all
    select
        unnest([track_id, main_id]),
        end_ns,
        null,
        null,
        null
    from handover
    where end_ns <= $end_ns
    union all
    select
        host_activity.track_id,
        host_activity.start_ns,
        null,
        null,
        null
    from host_activity
    inner join thread on host_activity.track_id = thread.track_id
    cross join bound
    where
        host_activity.rank = $rank
        and host_activity.start_ns > bound.start_ns
        and host_activity.start_ns < $end_ns
    union all
    select
        thread.track_id,
        bound.start_ns,
        null,
        null,
        null
    from thread
    cross join bound
    union all
    select
        main.track_id,
        $end_ns,
        null,
        null,
        null
    from main
    cross join bound
    where bound.start_ns < $end_ns and main.track_id is not null
),

point as (
    select
        track_id,
        at_ns,
        coalesce(
            arg_max(opened, depth) filter (where opened is not null),
            arg_min(closed_into, depth) filter (where closed_into is not null)
        ) as inside
    from border
    group by track_id, at_ns
),

node as (
    select
        point.track_id,
        point.at_ns,
        case
            when point.at_ns > bound.start_ns then 1 + row_number() over (order by point.track_id, point.at_ns)
            else 0
        end as node_id,
        nullif(last_value(point.inside ignore nulls) over in_order, -1) as event_id
    from point
    cross join bound
    window in_order as (
        partition by point.track_id order by point.at_ns rows between unbounded preceding and current row
    )
),

segment as (
    select
        track_id,
        event_id,
        node_id as from_id,
        at_ns as start_ns,
        lead(node_id) over in_order as to_id,
        lead(at_ns) over in_order as end_ns
    from node
    window in_order as (partition by track_id order by at_ns)
),

-- --- calls that wait for the GPU -------------------------------------------------------------------------------------

synchronise as (
    select
        sync.*,
        event.correlation,
        event.start_ns
    from sync
    inner join event on sync.rank = event.rank and sync.event_id = event.event_id
    where sync.rank = $rank
),

api_call as (
    select
        event.event_id,
        event.name,
        event.correlation,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    inner join name_info
        on (event.rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    where
        event.rank = $rank
        and event.category in ('cuda_runtime', 'cuda_driver')
        and (
            name_info.is_blocking
            or event.correlation in (select correlation from synchronise)
            or event.correlation in (select wait_on_correlation from synchronise)
        )
),

-- A damaged trace may give many calls one correlation: the first has it.
correlated as (
    select
        correlation,
        arg_min(event_id, (start_ns, event_id)) as event_id,
        min(start_ns) as start_ns
    from api_call
    where correlation > 0
    group by correlation
),

record as (
    select
        synchronise.kind,
        synchronise.device,
        case synchronise.kind
            when 'Event Sync' then synchronise.wait_on_stream
            when 'Stream Sync' then synchronise.stream
        end as awaited_stream,
        synchronise.stream,
        synchronise.wait_on_stream,
        coalesce(caller.start_ns, synchronise.start_ns) as at_ns,
        coalesce(recorded.start_ns, caller.start_ns, synchronise.start_ns) as recorded_ns,
        caller.event_id as call_id
    from synchronise
    left join correlated as caller on synchronise.correlation = caller.correlation
    left join correlated as recorded on synchronise.wait_on_correlation = recorded.correlation
),

blocking as (
    select api_call.*
    from api_call
    cross join bound
    where
        api_call.end_ns > bound.start_ns
        and api_call.end_ns <= $end_ns
        and api_call.end_ns > api_call.start_ns
        and not regexp_matches(api_call.name, 'Event(Record|Query)|StreamWaitEvent')
),

queue as (
    select distinct
        device,
        stream
    from batch
),

-- Calls that wait for all streams of a device, or of every device: -2.
for_all_streams as (
    select distinct
        blocking.event_id,
        record.device,
        blocking.start_ns as before_ns
    from blocking
    inner join record on blocking.event_id = record.call_id
    where record.kind = 'Context Sync' and record.device in (select device from queue)
    union all
    select
        blocking.event_id,
        -2,
        blocking.start_ns
    from blocking
    where
        regexp_matches(blocking.name, '(Device|Ctx|Context)Synchronize$|Free')
        and blocking.event_id not in (select call_id from record where call_id is not null)
),

-- PyTorch has at most four pools of 32 streams for a device (c10/cuda/CUDAStream.cpp). Where a trace has more, the work
-- that ended last stands for all that a call waits for, or each call would be paired with each stream.
crowd as (
    select count(*) > 128 as has_many_streams from queue
),

-- which queue each call waits for, and up to which launch
asked as (
    select
        blocking.event_id,
        queue.device,
        queue.stream,
        case when record.kind = 'Event Sync' then record.recorded_ns else blocking.start_ns end as before_ns
    from blocking
    inner join record on blocking.event_id = record.call_id
    inner join queue on record.device = queue.device and record.awaited_stream = queue.stream
    union all
    select
        for_all_streams.event_id,
        queue.device,
        queue.stream,
        for_all_streams.before_ns
    from for_all_streams
    inner join queue on for_all_streams.device in (queue.device, -2)
    where not (select has_many_streams from crowd)
),

last_of_all as (
    select
        device,
        launched_ns,
        max({'end_ns': end_ns, 'last_id': last_id}) over (
            partition by device order by launched_ns, last_id rows unbounded preceding
        ) as work
    from (
        select
            unnest([device, -2]) as device,
            launched_ns,
            end_ns,
            last_id
        from batch
        where (select has_many_streams from crowd)
    ) as either
),

told as (
    select
        asked.event_id,
        batch.last_id,
        batch.end_ns
    from asked
    asof inner join batch
        on asked.device = batch.device and asked.stream = batch.stream and asked.before_ns > batch.launched_ns
    union all
    select
        for_all_streams.event_id,
        last_of_all.work.last_id,
        last_of_all.work.end_ns
    from for_all_streams
    asof inner join last_of_all
        on for_all_streams.device = last_of_all.device and for_all_streams.before_ns > last_of_all.launched_ns
),

-- Clocks may disagree: work that seems to end after the call that waits for it cannot be what the call waited for.
guessed as (
    select blocking.*
    from blocking
    where
        not regexp_matches(blocking.name, 'Memcpy')
        and (
            blocking.event_id not in (select event_id from asked union all select event_id from for_all_streams)
            or blocking.event_id in (
                select told.event_id from told
                inner join blocking as late on told.event_id = late.event_id and told.end_ns > late.end_ns
            )
        )
),

crowded as (
    select distinct
        gpu.runtime_id as event_id,
        gpu.call_track_id as track_id,
        gpu.call_ns as start_ns,
        gpu.call_end_ns as end_ns
    from gpu
    inner join (
        select
            device,
            stream,
            at_ns,
            sum(change) over (partition by device, stream order by at_ns, change rows unbounded preceding) as pending,
            first_id
        from (
            select
                device,
                stream,
                launched_ns as at_ns,
                1 as change,
                first_id
            from batch
            union all
            select
                device,
                stream,
                start_ns,
                -1,
                null
            from batch
        ) as changes
    ) as level on gpu.event_id = level.first_id and level.pending > 1000
    cross join bound
    where gpu.runtime_id is not null and gpu.call_end_ns > bound.start_ns and gpu.call_end_ns <= $end_ns
),

ending as (
    select
        device,
        end_ns,
        arg_max(event_id, place) as event_id,
        arg_max(launched_ns, place) as launched_ns
    from op
    where end_ns > start_ns
    group by device, end_ns
),

ending_anywhere as (
    select
        end_ns,
        max(event_id) as event_id,
        arg_max(launched_ns, ending.event_id) as launched_ns
    from ending
    group by end_ns
),

waited as (
    select
        blocking.event_id,
        blocking.track_id,
        blocking.end_ns as at_ns,
        told.last_id as work_id,
        false as returns_early
    from told
    inner join blocking on told.event_id = blocking.event_id
    union
    select
        late.event_id as call_id,
        late.track_id,
        late.end_ns as call_end_ns,
        ending_anywhere.event_id as work_id,
        false
    from (
        select
            event_id,
            track_id,
            start_ns,
            end_ns
        from guessed
        union
        select * from crowded
    ) as late
    asof inner join ending_anywhere on late.end_ns >= ending_anywhere.end_ns
    where ending_anywhere.end_ns > late.start_ns and ending_anywhere.launched_ns < late.start_ns
    union
    select
        op.runtime_id,
        op.call_track_id,
        op.call_end_ns,
        op.event_id,
        op.end_ns > op.call_end_ns
    from op
    where op.is_awaited and op.call_end_ns <= $end_ns
),

wait as (
    select
        min(waited.event_id) as event_id,
        waited.track_id,
        waited.at_ns,
        node.node_id,
        op.place,
        waited.returns_early,
        case when waited.returns_early then op.start_ns else op.end_ns end as since_ns
    from waited
    inner join op on waited.work_id = op.event_id
    inner join node on waited.track_id = node.track_id and waited.at_ns = node.at_ns and node.node_id > 0
    where since_ns <= waited.at_ns
    group by waited.track_id, waited.at_ns, node.node_id, op.place, waited.returns_early, since_ns
),

wait_end as (
    select
        node_id,
        max(since_ns) as since_ns,
        arg_max(place, (since_ns, place)) as place,
        arg_max(returns_early, (since_ns, place)) as returns_early
    from wait
    group by node_id
),

handed as (
    select
        'handoff' as kind,
        giver.node_id as from_id,
        taker.node_id as to_id,
        handover.start_ns as at_ns,
        handover.track_id
    from handover
    inner join node as giver on handover.main_id = giver.track_id and handover.start_ns = giver.at_ns
    inner join node as taker on handover.track_id = taker.track_id and handover.start_ns = taker.at_ns
    where taker.node_id > 0
    union all
    select
        'handoff' as kind,
        giver.node_id as from_id,
        taker.node_id as to_id,
        handover.end_ns as at_ns,
        handover.main_id as track_id
    from handover
    inner join node as giver on handover.track_id = giver.track_id and handover.end_ns = giver.at_ns
    inner join node as taker on handover.main_id = taker.track_id and handover.end_ns = taker.at_ns
    where taker.node_id > 0
),

taken as (
    select
        to_id,
        min(from_id) as from_id
    from handed
    group by to_id
),

-- --- starts of GPU work ----------------------------------------------------------------------------------------------

stream_ending as (
    select
        device,
        stream,
        end_ns,
        max(place) as place
    from op
    where end_ns > start_ns
    group by device, stream, end_ns
),

in_stream as (
    select
        *,
        lag(place) over (partition by device, stream order by place) as last_place,
        lag(end_ns) over (partition by device, stream order by place) as last_end_ns,
        lag({
            'place': place,
            'stream': stream,
            'event_id': event_id,
            'start_ns': start_ns,
            'end_ns': end_ns,
            'is_earlier': is_earlier
        }) over (partition by device order by place) as running
    from op
),

-- what each stream had done when the window starts
done_before as (
    select
        gpu.device,
        gpu.stream,
        max(gpu.end_ns) as end_ns
    from gpu
    cross join bound
    where gpu.end_ns <= bound.start_ns
    group by gpu.device, gpu.stream
),

after_stream as (
    select
        in_stream.*,
        case
            when
                in_stream.last_end_ns <= in_stream.start_ns
                and in_stream.last_end_ns >= coalesce(stream_ending.end_ns, in_stream.last_end_ns)
                then in_stream.last_place
            else stream_ending.place
        end as queue_place,
        case
            when
                in_stream.last_end_ns <= in_stream.start_ns
                and in_stream.last_end_ns >= coalesce(stream_ending.end_ns, in_stream.last_end_ns)
                then in_stream.last_end_ns
            else coalesce(stream_ending.end_ns, done_before.end_ns)
        end as queue_ns
    from in_stream
    left join done_before on in_stream.device = done_before.device and in_stream.stream = done_before.stream
    asof left join stream_ending
        on
            in_stream.device = stream_ending.device
            and in_stream.stream = stream_ending.stream
            and in_stream.start_ns >= stream_ending.end_ns
),

-- Materialized, as the database would else compare each work with each first, expecting to find none.
waiting_work as materialized (
    select
        held.place,
        held.start_ns,
        source.last_id
    from (
        select
            record.device,
            record.recorded_ns,
            record.wait_on_stream,
            batch.first_id
        from record
        asof inner join batch
            on record.device = batch.device and record.stream = batch.stream and record.at_ns <= batch.launched_ns
        where record.kind = 'Stream Wait Event'
    ) as waiting
    asof inner join batch as source
        on
            waiting.device = source.device
            and waiting.wait_on_stream = source.stream
            and waiting.recorded_ns > source.launched_ns
    inner join op as held on waiting.first_id = held.event_id
),

stream_wait as (
    select
        waiting_work.place as to_place,
        awaited.place as from_place,
        awaited.end_ns
    from waiting_work
    inner join op as awaited on waiting_work.last_id = awaited.event_id
    where awaited.end_ns <= waiting_work.start_ns and awaited.place < waiting_work.place
),

last_wait as (
    select
        to_place,
        max(end_ns) as event_ns,
        arg_max(from_place, (end_ns, from_place)) as event_place
    from stream_wait
    group by to_place
),

ready as (
    select
        after_stream.*,
        last_wait.event_place,
        last_wait.event_ns,
        after_stream.call_ns + least(after_stream.call_dur_ns, bound.call_dur_ns) as called_ns,
        greatest(after_stream.queue_ns, last_wait.event_ns) as freed_ns,
        greatest(least(coalesce(called_ns, bound.start_ns), after_stream.start_ns), freed_ns, bound.start_ns)
            as ready_ns
    from after_stream
    left join last_wait on after_stream.place = last_wait.to_place
    cross join bound
    where after_stream.start_ns > bound.start_ns and not after_stream.is_earlier
),

explained as (
    select
        ready.*,
        other.place as other_place,
        other.end_ns as other_ns,
        case
            when other.place is not null then 'inferred'
            when
                ready.start_ns - ready.ready_ns > 10000
                and ready.running.stream != ready.stream
                and ready.running.end_ns > ready.start_ns
                and ready.running.start_ns < ready.start_ns
                then 'shared'
            when
                ready.called_ns >= coalesce(ready.freed_ns, ready.called_ns)
                and ready.start_ns - ready.call_end_ns > 50000 then 'stall'
            when ready.called_ns is not null and coalesce(ready.called_ns >= ready.freed_ns, true) then 'launch'
            when ready.queue_ns = ready.freed_ns then 'queue'
            when ready.freed_ns is not null then 'event'
            else 'untraced'
        end as cause
    from ready
    asof left join ending on ready.device = ending.device and ready.start_ns >= ending.end_ns
    left join op as other
        on
            ending.event_id = other.event_id
            and ready.start_ns - ready.ready_ns > 10000
            and other.end_ns > ready.ready_ns
            and ready.start_ns - other.end_ns <= 50000
),

usual as (
    select
        coalesce(quantile_disc(start_ns - call_ns, 0.5) filter (where cause = 'launch'), 0) as launch_ns,
        coalesce(quantile_disc(start_ns - queue_ns, 0.5) filter (where cause = 'queue'), 0) as queue_ns
    from explained
),

-- --- edges -----------------------------------------------------------------------------------------------------------

size as (
    select count(*) + 2 as first_id
    from node
),

-- where the main thread and each stream are at the window's end
last_point as (
    select
        coalesce(arg_max(node.node_id, node.at_ns), 0) as from_id,
        greatest(coalesce(max(node.at_ns), 0), any_value(bound.start_ns)) as at_ns
    from main
    cross join bound
    left join node on main.track_id = node.track_id
    where main.track_id is not null and bound.end_ns > bound.start_ns
    having count(*) > 0
),

final as (
    select arg_max(place, (end_ns, place)) as last_place
    from op
    where not is_earlier
),

last_op as (
    select
        arg_max(place, (end_ns, place)) as place,
        max(op.end_ns) as end_ns,
        bool_or(place = last_place) as is_last
    from op
    cross join final
    where not op.is_earlier
    group by device, stream
),

edge as (
    select
        segment.to_id,
        segment.from_id,
        'host' as kind,
        coalesce(wait_end.since_ns <= segment.start_ns, true) and taken.to_id is null as binds,
        segment.start_ns,
        segment.end_ns,
        case
            when taken.to_id is not null then 0
            -- what a copy's call does itself takes as long as any launch
            when wait_end.returns_early and wait_end.since_ns > segment.start_ns
                then least(segment.end_ns - wait_end.since_ns, bound.call_dur_ns)
            else segment.end_ns - greatest(segment.start_ns, coalesce(wait_end.since_ns, segment.start_ns))
        end as weight_ns,
        segment.event_id,
        segment.track_id
    from segment
    cross join bound
    left join wait_end on segment.to_id = wait_end.node_id
    left join taken on segment.to_id = taken.to_id
    where segment.to_id is not null
    union all
    select
        to_id,
        from_id,
        kind,
        from_id = min(from_id) over (partition by to_id),
        at_ns as start_ns,
        at_ns as end_ns,
        0,
        null,
        track_id
    from handed
    union all
    select
        wait.node_id,
        size.first_id + 2 * wait.place + case when wait.returns_early then 0 else 1 end,
        'return',
        wait_end.place = wait.place and wait_end.since_ns > segment.start_ns and taken.to_id is null,
        wait.since_ns,
        wait.at_ns,
        case
            when taken.to_id is not null then 0
            else wait.at_ns - greatest(segment.start_ns, wait_end.since_ns)
        end,
        wait.event_id,
        wait.track_id
    from wait
    inner join wait_end on wait.node_id = wait_end.node_id
    inner join segment on wait.node_id = segment.to_id
    left join taken on wait.node_id = taken.to_id
    cross join size
    union all
    select
        size.first_id + 2 * op.place + 1,
        case when op.start_ns > bound.start_ns then size.first_id + 2 * op.place else 0 end,
        'work',
        true,
        op.start_ns,
        op.end_ns,
        op.end_ns - op.start_ns,
        op.event_id,
        op.track_id
    from op
    cross join bound
    cross join size
    where not op.is_earlier
    union all
    select
        size.first_id + 2 * explained.place,
        coalesce(node.node_id, 0),
        case when explained.cause = 'stall' then 'stall' else 'launch' end,
        explained.cause in ('launch', 'stall'),
        greatest(explained.call_ns, bound.start_ns),
        explained.start_ns,
        case
            when
                explained.cause in ('launch', 'stall')
                then explained.start_ns - greatest(explained.call_ns, bound.start_ns)
            else greatest(
                least(explained.start_ns, explained.call_ns + usual.launch_ns)
                - greatest(explained.call_ns, bound.start_ns), 0
            )
        end,
        explained.event_id,
        explained.track_id
    from explained
    left join node on explained.call_track_id = node.track_id and explained.call_ns = node.at_ns
    cross join bound
    cross join usual
    cross join size
    where explained.call_ns is not null
    union all
    select
        size.first_id + 2 * explained.place,
        coalesce(size.first_id + 2 * explained.queue_place + 1, 0),
        'queue',
        explained.cause = 'queue',
        greatest(explained.queue_ns, bound.start_ns) as since_ns,
        explained.start_ns,
        case
            when explained.cause = 'queue' then explained.start_ns - since_ns
            else greatest(least(explained.start_ns, explained.queue_ns + usual.queue_ns) - since_ns, 0)
        end,
        explained.event_id,
        explained.track_id
    from explained
    cross join bound
    cross join usual
    cross join size
    where explained.queue_ns is not null
    union all
    select
        size.first_id + 2 * explained.place,
        size.first_id + 2 * stream_wait.from_place + 1,
        'event',
        explained.cause = 'event' and stream_wait.from_place = explained.event_place,
        stream_wait.end_ns,
        explained.start_ns,
        case
            when explained.cause = 'event' and stream_wait.from_place = explained.event_place
                then explained.start_ns - explained.event_ns
            else 0
        end,
        explained.event_id,
        explained.track_id
    from explained
    inner join (select distinct * from stream_wait) as stream_wait on explained.place = stream_wait.to_place
    cross join size
    union all
    select
        size.first_id + 2 * explained.place,
        case when explained.cause = 'inferred' then size.first_id + 2 * explained.other_place + 1 else 0 end,
        explained.cause,
        true,
        coalesce(explained.other_ns, bound.start_ns),
        explained.start_ns,
        explained.start_ns - coalesce(explained.other_ns, bound.start_ns),
        explained.event_id,
        explained.track_id
    from explained
    cross join bound
    cross join size
    where explained.cause in ('inferred', 'untraced')
    union all
    select
        size.first_id + 2 * explained.place,
        case
            when explained.running.start_ns > bound.start_ns or explained.running.is_earlier
                then size.first_id + 2 * explained.running.place
            else 0
        end,
        'shared',
        true,
        explained.running.start_ns as running_ns,
        explained.start_ns,
        explained.start_ns - running_ns,
        explained.running.event_id,
        explained.track_id
    from explained
    cross join bound
    cross join size
    where explained.cause = 'shared'
    union all
    select
        1,
        last_point.from_id,
        'end',
        last_point.at_ns = bound.end_ns,
        last_point.at_ns,
        bound.end_ns as until_ns,
        0,
        null,
        null
    from last_point
    cross join bound
    union all
    select
        1,
        size.first_id + 2 * last_op.place + 1,
        'end',
        last_op.is_last and (main.track_id is null or (last_op.end_ns = bound.end_ns and bound.end_ns > $end_ns)),
        last_op.end_ns,
        bound.end_ns as until_ns,
        case when last_op.is_last and main.track_id is null then bound.end_ns - last_op.end_ns else 0 end,
        null,
        null
    from last_op
    cross join bound
    cross join main
    cross join size
    where $until != 'host' or main.track_id is null
),

-- Earlier work has no nodes: what waits for it waits for the window's start.
settled as (
    select
        edge.to_id,
        case when source.place is null then edge.from_id else 0 end as from_id,
        edge.kind,
        edge.binds,
        case when source.place is null then edge.start_ns else bound.start_ns end as start_ns,
        edge.end_ns,
        edge.start_ns as since_ns,
        edge.weight_ns
        + case when source.place is null then 0 else greatest(edge.start_ns - bound.start_ns, 0) end as weight_ns,
        edge.event_id,
        edge.track_id,
        size.first_id + 2 * stand_in.own_place + (edge.from_id - size.first_id) % 2 as previous_id,
        stand_in.previous_count,
        case when stand_in.place is not null then edge.weight_ns end as previous_ns,
        edge.kind = 'return' and edge.from_id >= size.first_id and (edge.from_id - size.first_id) % 2 = 0 as is_copying
    from edge
    cross join bound
    cross join size
    left join (select place from op where is_earlier) as source
        on (edge.from_id - size.first_id) // 2 = source.place and edge.from_id >= size.first_id
    left join stand_in on source.place = stand_in.place
),

labelled as (
    select
        settled.*,
        event.category,
        event.name,
        settled.kind in ('host', 'handoff', 'return') as is_host,
        linked.event_id is not null as is_linked,
        case when is_host then host_activity.kind end as activity,
        case when is_host then label_segment.step else label.step end as step,
        case when is_host then label_segment.phase else label.phase end as phase,
        case when is_host then label_segment.module_id else label.module_id end as module_id,
        case name_info.class
            when 'computation' then 'gpu_compute'
            when 'memory' then 'copy'
            else name_info.class
        end as class
    from settled
    left join event on event.rank = $rank and settled.event_id = event.event_id
    left join name_info
        on ($rank, event.category, event.name) = (name_info.rank, name_info.category, name_info.name)
    left join label on label.rank = $rank and settled.event_id = label.event_id
    left join (select event_id from gpu where call_ns is not null) as linked on settled.event_id = linked.event_id
    asof left join (select * from label_segment where rank = $rank) as label_segment
        on settled.track_id = label_segment.track_id and settled.since_ns >= label_segment.start_ns
    asof left join (select * from host_activity where rank = $rank) as host_activity
        on settled.track_id = host_activity.track_id and settled.since_ns >= host_activity.start_ns
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
        when labelled.kind = 'host' and labelled.phase = 'load_data' then 'data_loading'
        when labelled.is_host then 'cpu'
        when labelled.kind in ('work', 'shared') then labelled.class
        when labelled.kind = 'launch' then 'launch'
        -- Launched work that waits for over 50 us after what it waited for is over: as in idle_part.
        when labelled.kind = 'stall' then 'unobserved'
        when labelled.kind = 'queue' and labelled.binds and labelled.weight_ns > 50000
            then case when labelled.is_linked then 'unobserved' else 'unknown' end
        when labelled.kind in ('queue', 'event', 'inferred') then 'kernel_gap'
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
