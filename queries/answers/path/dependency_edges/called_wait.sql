-- One row per call that makes a stream wait for a CUDA event, if the trace has no records of the event.
--
-- The waiting stream is the stream of the next launch on the thread, since a wait affects later launches. The awaited
-- work is the latest launch before the call on another stream of the device, since an event is usually recorded right
-- before the wait.
--
-- :takes rank
-- :reads cpu_event, launch_batch, rank_work, sync_mark
-- :only_with launch_batch
-- :column event_id BIGINT  the call
-- :column first_id BIGINT  waiting GPU event
-- :column last_id BIGINT   GPU event waited for

-- one row per call to StreamWaitEvent; empty if the trace has synchronisation records
with wait_call as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns
    from cpu_event
    where
        rank = $rank
        and category in ('cuda_runtime', 'cuda_driver')
        and is_stream_wait(name)
        and not exists (select 1 from sync_mark where kind = 'Stream Wait Event')
),

-- one row per launching call: its first GPU event and the stream
launching_call as (
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

waiting_stream as (
    select
        wait_call.event_id,
        wait_call.start_ns,
        launching_call.device,
        launching_call.stream,
        launching_call.first_id
    from wait_call
    asof inner join launching_call
        on wait_call.track_id = launching_call.track_id and wait_call.end_ns <= launching_call.at_ns
),

ordered_launch as (
    select
        *,
        coalesce(stream != lag(stream) over (partition by device order by launched_ns, first_id), true) as is_first
    from launch_batch
),

-- One row per launch. Consecutive launches on one stream share a turn.
turn as (
    select
        *,
        sum(is_first::integer) over (
            partition by device order by launched_ns, first_id rows unbounded preceding
        ) as number
    from ordered_launch
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
    waiting_stream.event_id,
    waiting_stream.first_id,
    case when turn.stream = waiting_stream.stream then turn_end.last_id else turn.last_id end as last_id
from waiting_stream
asof inner join turn on waiting_stream.device = turn.device and waiting_stream.start_ns > turn.launched_ns
left join turn_end on turn.device = turn_end.device and turn.number = turn_end.number + 1
