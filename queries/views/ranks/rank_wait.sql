-- Times in which a rank waits in a collective, up to its end: on the GPU the kernel, on the CPU the thread of the loop.
--
-- With the files of several ranks, the wait is until the last rank comes, and the rest is transfer. From one file alone
-- that is not known: then all of it is waiting for other ranks, whichever they are. On the GPU, only collectives that
-- are matched between ranks have a row. Waiting as the last rank began to record later is apart (`collective_wait`).
--
-- :reads thread_wait, collective_match, collective_wait, label_segment, event
-- :column rank BIGINT        the rank that waits
-- :column event_id BIGINT    the collective: a kernel or a span
-- :column on_gpu BOOLEAN     it is a kernel
-- :column track_id BIGINT    the thread that waits, or the track of the kernel
-- :column name VARCHAR       allreduce, allgather, … in one spelling
-- :column step BIGINT        the step; NULL outside every step
-- :column phase VARCHAR      the phase; NULL outside every step
-- :column start_ns BIGINT    since when the rank waits
-- :column end_ns BIGINT      the end of the collective
-- :column late_rank BIGINT   the rank that came last; NULL when unknown
-- :column arrived_ns BIGINT  when the last rank came, on this rank's clock; NULL when unknown
-- :column wait_ns BIGINT     until then; from one file, until the end
-- :column start_wait_ns BIGINT  of the time until then, as much as the last rank began to record later; not in
--                               `wait_ns`
with matched as (
    select
        collective_match.*,
        collective_wait.late_rank,
        collective_wait.arrival_wait_ns,
        collective_wait.start_wait_ns
    from collective_match
    inner join collective_wait
        on
            collective_match.rank = collective_wait.rank
            and collective_match.match_id = collective_wait.match_id
),

thread as (
    select
        thread_wait.*,
        event.name as full_name
    from thread_wait
    inner join event on thread_wait.rank = event.rank and thread_wait.event_id = event.event_id
    where thread_wait.kind = 'other_ranks'
)

select
    thread.rank,
    thread.event_id,
    false as on_gpu,
    thread.track_id,
    coalesce(matched.name, replace(split_part(thread.full_name, ':', 2), '_', '')) as name,
    label_segment.step,
    label_segment.phase,
    thread.start_ns,
    thread.end_ns,
    matched.late_rank,
    matched.last_start_ns - matched.shift_ns as arrived_ns,
    greatest(
        0,
        least(coalesce(arrived_ns, thread.end_ns), thread.end_ns) - thread.start_ns
        - coalesce(matched.start_wait_ns, 0)
    ) as wait_ns,
    coalesce(matched.start_wait_ns, 0) as start_wait_ns
from thread
left join matched on thread.rank = matched.rank and thread.event_id = matched.event_id
asof left join label_segment
    on
        thread.rank = label_segment.rank
        and thread.track_id = label_segment.track_id
        and thread.start_ns >= label_segment.start_ns
union all
select
    matched.rank,
    matched.event_id,
    true,
    event.track_id,
    matched.name,
    matched.step,
    matched.phase,
    event.start_ns,
    event.end_ns,
    matched.late_rank,
    matched.last_start_ns - matched.shift_ns,
    matched.arrival_wait_ns,
    matched.start_wait_ns
from matched
inner join event on matched.rank = event.rank and matched.event_id = event.event_id
where matched.on_gpu
