-- A row is a call that lets a stream wait for a CUDA event, in a trace whose records do not tell for which.
--
-- The stream that waits is that of the next launch on the call's thread: a wait is for what follows it. What it waits
-- for is the work that was launched last before the call, on another stream of the device: an event is recorded just
-- before it is waited for.
--
-- :takes rank
-- :reads event, launch_batch, nesting, rank_work, sync_mark
-- :only_with launch_batch
-- :column event_id BIGINT  the call
-- :column first_id BIGINT  the GPU event that waits
-- :column last_id BIGINT   the GPU event that it waits for
with wait_call as (
    select
        event.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where
        event.rank = $rank
        and event.category in ('cuda_runtime', 'cuda_driver')
        and contains(event.name, 'StreamWaitEvent')
        and not exists (select 1 from sync_mark where kind = 'Stream Wait Event')
),

launching as (
    select
        call_track_id as track_id,
        call_ns as at_ns,
        arg_min(device, (start_ns, event_id)) as device,
        arg_min(stream, (start_ns, event_id)) as stream,
        arg_min(event_id, (start_ns, event_id)) as first_id
    from rank_work
    where runtime_id is not null and call_ns is not null
    group by call_track_id, call_ns
),

waiting as (
    select
        wait_call.event_id,
        wait_call.start_ns,
        launching.device,
        launching.stream,
        launching.first_id
    from wait_call
    asof inner join launching on wait_call.track_id = launching.track_id and wait_call.end_ns <= launching.at_ns
),

in_order as (
    select
        *,
        coalesce(stream != lag(stream) over (partition by device order by launched_ns, first_id), true) as is_first
    from launch_batch
),

-- One row per launch: launches in a row on one stream are a turn.
turn as (
    select
        *,
        sum(is_first::integer) over (
            partition by device order by launched_ns, first_id rows unbounded preceding
        ) as number
    from in_order
),

turn_end as (
    select
        device,
        number,
        arg_max(last_id, (launched_ns, first_id)) as last_id
    from turn
    group by device, number
)

select
    waiting.event_id,
    waiting.first_id,
    case when turn.stream = waiting.stream then turn_end.last_id else turn.last_id end as last_id
from waiting
asof inner join turn on waiting.device = turn.device and waiting.start_ns > turn.launched_ns
left join turn_end on turn.device = turn_end.device and turn.number = turn_end.number + 1
