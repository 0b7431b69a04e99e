-- Model buffers sent to all ranks by DistributedDataParallel before each forward pass.
--
-- Condition: a broadcast inside `DistributedDataParallel.forward`. Bound: the CPU time from the start of the forward to
-- the first computing op after the last broadcast takes no time; ops that only split or copy tensors do not count as
-- computing. Source: PyTorch, torch.nn.parallel.DistributedDataParallel, `broadcast_buffers`; `_sync_buffers` in
-- distributed.py.
--
-- :reads cpu_event
-- :finding times that DistributedDataParallel sends the buffers to all ranks before forward
-- :remedy Turn it off, unless ranks must agree on the buffers at each step: DistributedDataParallel(...,
--     broadcast_buffers=False). The running statistics of batch norms then are those of each rank.
with forward_call as (
    -- One row per forward call of DistributedDataParallel.
    select
        event_id,
        track_id,
        start_ns,
        end_ns
    from cpu_event
    where
        rank = $rank
        and step = $step
        and category = 'user_annotation'
        and name = 'DistributedDataParallel.forward'
),

-- One row per op in these calls, with flags for broadcasts and for ops that only move data.
op as (
    select
        forward_call.event_id as forward_id,
        cpu_event.event_id,
        cpu_event.start_ns,
        is_broadcast_op(cpu_event.name) as is_broadcast,
        is_collective_op(cpu_event.name) or is_data_movement(cpu_event.name) as is_of_copies
    from cpu_event
    asof inner join forward_call
        on cpu_event.track_id = forward_call.track_id and cpu_event.start_ns >= forward_call.start_ns
    where cpu_event.rank = $rank and cpu_event.end_ns <= forward_call.end_ns and cpu_event.category = 'cpu_op'
),

last_broadcast as (
    select
        forward_id,
        max(start_ns) as last_ns
    from op
    where is_broadcast
    group by forward_id
),

computing_op as (
    select
        op.forward_id,
        min(op.start_ns) as start_ns
    from op
    inner join last_broadcast on op.forward_id = last_broadcast.forward_id
    where op.start_ns > last_broadcast.last_ns and not op.is_of_copies
    group by op.forward_id
)

select
    forward_call.event_id,
    'host' as effect,
    forward_call.track_id,
    forward_call.start_ns,
    computing_op.start_ns as end_ns,
    computing_op.start_ns - forward_call.start_ns as saved_ns,
    'broadcast of buffers' as name
from forward_call
inner join computing_op on forward_call.event_id = computing_op.forward_id
order by forward_call.event_id
