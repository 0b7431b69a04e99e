-- Times in which a training thread waits for another thread of the process.
--
-- The thread waits for another thread's work if the thread does nothing until about the end of the work. Two conditions
-- must hold. The thread has no event from before the end of the work until at most `wake_up_ns()` later. And the time
-- without events after the end is no longer than the time before. In backward, no python runs between the nodes, and
-- the second condition is enough. "Doing nothing" means that the innermost event is an annotation, an op of
-- torch.distributed that returns late (`wait_tensor`), the python frame of a waiting call, or a waiting call of the
-- operating system. A DataLoader's own annotation counts as loading data.
--
-- Kinds:
--   other_ranks   the work is a collective of gloo, MPI or UCC, which ends when all ranks have arrived,
--   other_thread  other events of a thread outside the loop cover at least half of the time. Only the main thread waits
--                 for such events, and for at least `thread_switch_ns()`. Autograd's own thread is part of the loop.
-- If several works end one after the other, the wait for each begins at the previous end. Rows of a thread do not
-- overlap. The time from the end of the work to the thread's next event is not part of the row, because its cause is
-- unknown. In backward, this time is included: the thread is not yet awake.
--
-- :reads event, nesting, cpu_span, launch, main_track, phase_span
-- :only_with nesting
-- :column track_id BIGINT  the waiting thread
-- :column start_ns BIGINT  start of the wait
-- :column end_ns BIGINT    end of the work; in backward, for the last work, the time at which the thread resumes
-- :column kind VARCHAR     other_ranks or other_thread
-- :column event_id BIGINT  the awaited work
with host as (
    select distinct nesting.track_id
    from launch
    inner join nesting on coalesce(launch.runtime_id, launch.op_id) = nesting.event_id
    union
    select track_id from main_track
    union
    select track_id from phase_span
),

collective as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.event_id = nesting.event_id
    where
        event.category = 'user_annotation'
        and (is_host_collective_mark(event.name) or starts_with(event.name, 'ucc:'))
        and nesting.end_ns > nesting.start_ns
),

-- Work of other threads, with each thread of the loop that may wait for it.
work as (
    select
        collective.event_id,
        collective.start_ns,
        collective.end_ns,
        'other_ranks' as kind,
        host.track_id as host_id
    from collective
    inner join host on collective.track_id != host.track_id
    union all
    select
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        'other_thread',
        main_track.track_id
    from nesting
    inner join main_track on nesting.track_id != main_track.track_id
    where
        nesting.depth = 0
        and nesting.end_ns > nesting.start_ns
        and nesting.track_id not in (select track_id from host)
        and nesting.track_id not in (select track_id from collective)
),

-- Times at which an event of a waiting thread starts or ends, with the thread's innermost event from then on.
border as (
    select
        track_id,
        at_ns,
        coalesce(
            arg_max(opened_id, depth) filter (where opened_id is not null),
            arg_min(around_id, depth) filter (where opened_id is null)
        ) as event_id
    from (
        select
            track_id,
            start_ns as at_ns,
            event_id as opened_id,
            null as around_id,
            depth
        from nesting
        where end_ns > start_ns and track_id in (select host_id from work)
        union all
        select
            track_id,
            end_ns,
            null,
            parent_id,
            depth
        from nesting
        where end_ns > start_ns and track_id in (select host_id from work)
    ) as edge_of_event
    group by track_id, at_ns
),

-- Work ending during a stretch without event borders on a thread of the loop, with that stretch.
ending_in_stretch as (
    select
        work.*,
        before.at_ns as from_ns,
        before.event_id as around_id,
        next.at_ns as until_ns,
        greatest(work.start_ns, before.at_ns) as since_ns
    from work
    asof inner join border as before on work.host_id = before.track_id and work.end_ns > before.at_ns
    asof inner join border as next on work.host_id = next.track_id and work.end_ns <= next.at_ns
),

-- Stretches in which the thread does nothing.
idle_stretch as (
    select ending_in_stretch.*
    from ending_in_stretch
    left join cpu_span on ending_in_stretch.around_id = cpu_span.event_id
    left join event on ending_in_stretch.around_id = event.event_id
    where
        cpu_span.event_id is null
        or (cpu_span.category = 'user_annotation' and not is_loader_mark(event.name))
        or (cpu_span.is_op and is_collective_or_wait_op(event.name))
        or (cpu_span.category = 'python_function' and is_waiting_frame(event.name))
        or (cpu_span.category = 'os_call' and is_waiting_call(event.name))
),

-- The same stretches, with a flag for backward, where the wait for the last work ends when the thread resumes.
stretch_in_phase as (
    select
        idle_stretch.*,
        coalesce(idle_stretch.until_ns <= backward.end_ns, false) as is_backward
    from idle_stretch
    asof left join (select * from phase_span where phase = 'backward') as backward
        on idle_stretch.host_id = backward.track_id and idle_stretch.from_ns >= backward.start_ns
),

part as (
    select
        host_id,
        from_ns,
        until_ns,
        kind,
        event_id,
        is_backward,
        greatest(since_ns, coalesce(max(end_ns) over earlier, since_ns)) as start_ns,
        end_ns,
        min(since_ns) over stretch as first_ns,
        max(end_ns) over stretch as last_ns,
        row_number() over (stretch order by end_ns desc, event_id desc) = 1 as is_last
    from stretch_in_phase
    window
        stretch as (partition by host_id, from_ns, kind),
        earlier as (
            partition by host_id, from_ns, kind
            order by end_ns, event_id
            rows between unbounded preceding and 1 preceding
        )
),

waiting_part as (
    select *
    from part
    where
        end_ns > start_ns
        and until_ns - last_ns <= last_ns - first_ns
        and (is_backward or until_ns - last_ns <= wake_up_ns())
        and (kind = 'other_ranks' or last_ns - first_ns >= thread_switch_ns())
    qualify
        kind = 'other_ranks'
        or 2 * sum(end_ns - start_ns) over (partition by host_id, from_ns, kind) >= last_ns - first_ns
)

-- If a thread seems to wait for both kinds, the collective is the cause.
select
    host_id as track_id,
    start_ns,
    case when is_last and is_backward then until_ns else end_ns end as end_ns,
    kind,
    event_id
from waiting_part
where
    kind = 'other_ranks'
    or (host_id, from_ns) not in (
        select (for_ranks.host_id, for_ranks.from_ns) from waiting_part as for_ranks
        where for_ranks.kind = 'other_ranks'
    )
order by host_id, start_ns
