-- Model buffers sent to all ranks by DistributedDataParallel before each forward pass.
--
-- Condition: a broadcast inside `DistributedDataParallel.forward`. Bound: the CPU time from the start of the forward to
-- the first computing op after the last broadcast takes no time; ops that only split or copy tensors do not count as
-- computing. Source: PyTorch, torch.nn.parallel.DistributedDataParallel, `broadcast_buffers`; `_sync_buffers` in
-- distributed.py.
--
-- :reads event, nesting, label
-- :finding times that DistributedDataParallel sends the buffers to all ranks before forward
-- :remedy Turn it off, unless ranks must agree on the buffers at each step: DistributedDataParallel(...,
--     broadcast_buffers=False). The running statistics of batch norms then are those of each rank.
with forward_call as (
    -- One row per forward call of DistributedDataParallel.
    select
        event.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.rank = $rank
        and label.step = $step
        and event.category = 'user_annotation'
        and event.name = 'DistributedDataParallel.forward'
),

-- One row per op in these calls, with flags for broadcasts and for ops that only move data.
op as (
    select
        forward_call.event_id as forward_id,
        nesting.event_id,
        nesting.start_ns,
        is_broadcast_op(event.name) as is_broadcast,
        is_collective_op(event.name) or is_data_movement(event.name) as is_of_copies
    from nesting
    asof inner join forward_call
        on nesting.track_id = forward_call.track_id and nesting.start_ns >= forward_call.start_ns
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    where nesting.rank = $rank and nesting.end_ns <= forward_call.end_ns and event.category = 'cpu_op'
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
