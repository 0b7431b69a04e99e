-- Activity of each training thread: the thread's time, cut where the activity or the phase changes.
--
-- Kinds of activity, in order of precedence:
--   profiler    the profiler itself works, inside a runtime call (`is_work_of_profiler`),
--   other_ranks   the thread waits for a collective on another thread, and therefore for the participating ranks,
--   other_thread  the thread waits for other work of another thread (`thread_wait`),
--   load_data   the thread is in the phase that loads data,
--   sync        inside a call that returns when the GPU is done, including blocking copies,
--   python      in a hook of autograd (`hook`),
--   cpu_tensor  inside an op that computes without any call of the GPU's runtime: arithmetic on CPU tensors. Not in a
--               truncated file, which may lack runtime calls: profilers write them after the ops. Not of a recorder
--               of chosen spans (`loop_thread`), which shows no arithmetic,
--   op          inside another op or a runtime call, before a launch,
--   python      inside any other event: python, an annotation,
--   nothing     outside of events,
--   unrecorded  outside of events, and the recorder does not show what the thread does there (`loop_thread`).
-- Threads are included if they launch GPU work or have phases. The pieces of a thread are numbered without gaps, in
-- order of time. The first piece begins at the start of the trace, and the last piece has no end.
--
-- :reads event, timed, cpu_span, name_class, nesting, launch, phase_span, label_segment, rank_info, thread_wait,
--        hook, loop_thread
-- :column track_id BIGINT  the thread: launches GPU work or has phases
-- :column number BIGINT    position of the piece on the thread, from 1
-- :column start_ns BIGINT  start of the piece
-- :column end_ns BIGINT    end of the piece; NULL for the last piece of a thread
-- :column kind VARCHAR     profiler, load_data, sync, other_ranks, other_thread, cpu_tensor, op, python, nothing or
--                          unrecorded; the glossary explains them
-- :column step STEP        NULL outside every step
-- :column phase PHASE      NULL outside every step
with host_event as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        nesting.op_depth,
        cpu_span.category,
        cpu_span.is_op,
        cpu_span.class_id
    from nesting
    inner join cpu_span on nesting.event_id = cpu_span.event_id
    inner join loop_thread on nesting.track_id = loop_thread.track_id
    where nesting.end_ns > nesting.start_ns
),

outermost_call as (
    select * from host_event
    where op_depth = 0 and category in ('cpu_op', 'cuda_runtime', 'cuda_driver')
),

-- Outermost ops without a runtime call and without work linked by another number.
bare_op as (
    select outermost_call.*
    from outermost_call
    anti join (
        select around.event_id
        from host_event as call
        asof inner join outermost_call as around on call.track_id = around.track_id and call.start_ns >= around.start_ns
        where call.category in ('cuda_runtime', 'cuda_driver') and call.start_ns < around.end_ns
        union all
        select around.event_id
        from launch
        inner join host_event as op on launch.op_id = op.event_id
        asof inner join outermost_call as around on op.track_id = around.track_id and op.start_ns >= around.start_ns
        where launch.runtime_id is null
    ) as busy on outermost_call.event_id = busy.event_id
    where outermost_call.is_op
),

-- Bare ops with computation. Empty for a truncated file, where ops with missing launches look the same.
arithmetic_op as (
    select distinct bare_op.event_id
    from host_event as op
    left join name_class on op.class_id = name_class.class_id
    asof inner join bare_op on op.track_id = bare_op.track_id and op.start_ns >= bare_op.start_ns
    where
        op.is_op
        and op.track_id in (select track_id from loop_thread where is_recorded)
        and op.start_ns < bare_op.end_ns
        and not coalesce(name_class.is_metadata or name_class.is_node or name_class.bucket is not null, false)
        and not exists (select 1 from rank_info where truncated)
),

-- Time spans of each kind, possibly overlapping.
span as (
    select
        outermost_call.track_id,
        case when arithmetic_op.event_id is null then 'op' else 'cpu_tensor' end as kind,
        outermost_call.start_ns,
        outermost_call.end_ns
    from outermost_call
    left join arithmetic_op on outermost_call.event_id = arithmetic_op.event_id
    union all
    select
        track_id,
        'hook',
        start_ns,
        end_ns
    from hook
    union all
    select
        host_event.track_id,
        'sync',
        host_event.start_ns,
        host_event.end_ns
    from host_event
    inner join name_class on host_event.class_id = name_class.class_id
    where name_class.is_sync
    union all
    select
        track_id,
        'python',
        start_ns,
        end_ns
    from host_event
    where depth = 0
    union all
    select
        phase_span.track_id,
        'load_data',
        phase_span.start_ns,
        phase_span.end_ns
    from phase_span
    inner join loop_thread on phase_span.track_id = loop_thread.track_id
    where phase_span.phase = 'load_data'
    union all
    select
        track_id,
        kind,
        start_ns,
        end_ns
    from thread_wait
    union all
    -- The profiler's work has no thread. It is assigned to the last runtime call begun before.
    select
        call.track_id,
        'profiler',
        event.start_ns,
        least(event.start_ns + event.dur_ns, call.end_ns)
    from event
    asof inner join (
        select * from host_event
        where category in ('cuda_runtime', 'cuda_driver')
    ) as call
        on event.start_ns >= call.start_ns
    where
        event.category = 'overhead'
        and event.dur_ns > 0
        and is_work_of_profiler(event.name)
        and event.start_ns < call.end_ns
),

border as (
    select
        track_id,
        start_ns as at_ns,
        (kind = 'profiler')::tinyint as profiler,
        (kind = 'other_ranks')::tinyint as other_ranks,
        (kind = 'other_thread')::tinyint as other_thread,
        (kind = 'load_data')::tinyint as load_data,
        (kind = 'sync')::tinyint as sync,
        (kind = 'hook')::tinyint as hook,
        (kind = 'cpu_tensor')::tinyint as cpu_tensor,
        (kind = 'op')::tinyint as op,
        (kind = 'python')::tinyint as python
    from span
    union all
    select
        track_id,
        end_ns,
        -(kind = 'profiler')::tinyint,
        -(kind = 'other_ranks')::tinyint,
        -(kind = 'other_thread')::tinyint,
        -(kind = 'load_data')::tinyint,
        -(kind = 'sync')::tinyint,
        -(kind = 'hook')::tinyint,
        -(kind = 'cpu_tensor')::tinyint,
        -(kind = 'op')::tinyint,
        -(kind = 'python')::tinyint
    from span
    union all
    select
        track_id,
        (select min(start_ns) from timed),
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0
    from loop_thread
),

-- Times at which the kind changes.
--
-- Every beginning on a thread has an end: the sums are back at 0 where the next thread begins. A window without `order
-- by` keeps the order of the inner query and needs no memory for sorting.
kind_change as (
    select
        track_id,
        at_ns,
        kind
    from (
        select
            track_id,
            at_ns,
            case
                when sum(profiler) over so_far > 0 then 'profiler'
                when sum(other_ranks) over so_far > 0 then 'other_ranks'
                when sum(other_thread) over so_far > 0 then 'other_thread'
                when sum(load_data) over so_far > 0 then 'load_data'
                when sum(sync) over so_far > 0 then 'sync'
                when sum(hook) over so_far > 0 then 'python'
                when sum(cpu_tensor) over so_far > 0 then 'cpu_tensor'
                when sum(op) over so_far > 0 then 'op'
                when sum(python) over so_far > 0 then 'python'
                else 'nothing'
            end as kind,
            -- Among borders at equal times, only the last has the complete sum.
            coalesce(lead(track_id) over () != track_id or lead(at_ns) over () > at_ns, true) as is_last
        from (
            select * from border
            order by track_id, at_ns
        )
        window so_far as (rows unbounded preceding) -- noqa: PRS
    )
    where is_last
    qualify coalesce(lag(track_id) over () != track_id or lag(kind) over () != kind, true)
),

-- Times at which the step or the phase changes.
label_change as (
    select
        track_id,
        start_ns as at_ns,
        step,
        case when step is not null then coalesce(phase, 'other') end as phase
    from label_segment
    where track_id in (select track_id from loop_thread)
    window in_track as (partition by track_id order by label_segment.start_ns)
    qualify (step, phase) is distinct from (lag(step) over in_track, lag(phase) over in_track)
),

moment as (
    select
        track_id,
        at_ns
    from kind_change
    union
    select
        track_id,
        at_ns
    from label_change
)

select
    moment.track_id,
    row_number() over in_track as number,
    moment.at_ns as start_ns,
    lead(moment.at_ns) over in_track as end_ns,
    if(kind_change.kind = 'nothing' and not loop_thread.is_recorded, 'unrecorded', kind_change.kind) as kind,
    label_change.step,
    label_change.phase
from moment
inner join loop_thread on moment.track_id = loop_thread.track_id
asof inner join kind_change on moment.track_id = kind_change.track_id and moment.at_ns >= kind_change.at_ns
asof left join label_change on moment.track_id = label_change.track_id and moment.at_ns >= label_change.at_ns
window in_track as (partition by moment.track_id order by moment.at_ns)
order by moment.track_id, number
