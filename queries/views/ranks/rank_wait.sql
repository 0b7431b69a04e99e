-- Time of a rank in collectives up to their end: the kernel on the GPU, or the loop's thread on the CPU.
--
-- With files of several ranks, the wait lasts until the last rank arrives, and the remaining time is transfer. With a
-- single file, the split is unknown, and all of the time counts as waiting for other ranks. On the GPU, only
-- collectives matched between ranks have a row. Waiting caused by a later recording of the last rank is separate
-- (`collective_wait`).
--
-- :reads thread_wait, collective_match, collective_wait, label_segment, event
-- :column rank RANK          of the waiting process
-- :column event_id BIGINT    collective: a kernel or a span
-- :column on_gpu BOOLEAN     the collective is a kernel
-- :column track_id BIGINT    waiting thread, or track of the kernel
-- :column name VARCHAR       allreduce, allgather, … in a uniform spelling
-- :column step STEP          NULL outside every step
-- :column phase PHASE        NULL outside every step
-- :column start_ns BIGINT    start of the wait
-- :column end_ns BIGINT      end of the collective
-- :column late_rank BIGINT   the last rank; NULL if unknown
-- :column arrived_ns BIGINT  arrival of the last rank, on this rank's clock; NULL if unknown
-- :column wait_ns BIGINT     time until the arrival; with a single file, until the end
-- :column start_wait_ns BIGINT
--                            part of the time until the arrival caused by the later recording of the last rank; not
--                            part of `wait_ns`

-- one row per rank and matched collective, with the split wait
with matched_call as (
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
    coalesce(matched_call.name, replace(split_part(thread.full_name, ':', 2), '_', '')) as name,
    label_segment.step,
    label_segment.phase,
    thread.start_ns,
    thread.end_ns,
    matched_call.late_rank,
    matched_call.last_start_ns - matched_call.shift_ns as arrived_ns,
    greatest(
        0,
        least(coalesce(arrived_ns, thread.end_ns), thread.end_ns) - thread.start_ns
        - coalesce(matched_call.start_wait_ns, 0)
    ) as wait_ns,
    coalesce(matched_call.start_wait_ns, 0) as start_wait_ns
from thread
left join matched_call on thread.rank = matched_call.rank and thread.event_id = matched_call.event_id
asof left join label_segment
    on
        thread.rank = label_segment.rank
        and thread.track_id = label_segment.track_id
        and thread.start_ns >= label_segment.start_ns
union all
select
    matched_call.rank,
    matched_call.event_id,
    true,
    event.track_id,
    matched_call.name,
    matched_call.step,
    matched_call.phase,
    event.start_ns,
    event.end_ns,
    matched_call.late_rank,
    matched_call.last_start_ns - matched_call.shift_ns,
    matched_call.arrival_wait_ns,
    matched_call.start_wait_ns
from matched_call
inner join event on matched_call.rank = event.rank and matched_call.event_id = event.event_id
where matched_call.on_gpu
