-- Buffers of the model that DistributedDataParallel sends to all ranks before each forward pass.
--
-- Condition: a broadcast inside of `DistributedDataParallel.forward`. Bound: all that the CPU does there until the
-- first op after the last broadcast that does not take tensors apart again takes no time. Source: PyTorch,
-- torch.nn.parallel.DistributedDataParallel, `broadcast_buffers`; `_sync_buffers` in distributed.py.
--
-- :reads event, nesting, label
-- :what times that DistributedDataParallel sends the buffers to all ranks before forward
-- :do Turn it off, unless ranks must agree on the buffers at each step: DistributedDataParallel(...,
--     broadcast_buffers=False). The running statistics of batch norms then are those of each rank.
with forward as (
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

op as (
    select
        forward.event_id as forward_id,
        nesting.event_id,
        nesting.start_ns,
        regexp_matches(event.name, '^c10d::\w*broadcast_$') as is_broadcast,
        regexp_matches(
            event.name,
            '^(c10d::|nccl:|record_param_comms|aten::(cat|view|view_as|reshape|narrow|slice|as_strided|copy_|detach'
            || '|empty\w*|alias|contiguous|flatten_dense_tensors|unflatten_dense_tensors|result_type|set_)$)'
        ) as is_of_copies
    from nesting
    asof inner join forward on nesting.track_id = forward.track_id and nesting.start_ns >= forward.start_ns
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    where nesting.rank = $rank and nesting.end_ns <= forward.end_ns and event.category = 'cpu_op'
),

sent as (
    select
        forward_id,
        max(start_ns) as last_ns
    from op
    where is_broadcast
    group by forward_id
),

computing as (
    select
        op.forward_id,
        min(op.start_ns) as start_ns
    from op
    inner join sent on op.forward_id = sent.forward_id
    where op.start_ns > sent.last_ns and not op.is_of_copies
    group by op.forward_id
)

select
    forward.event_id,
    'host' as effect,
    forward.track_id,
    forward.start_ns,
    computing.start_ns as end_ns,
    computing.start_ns - forward.start_ns as saved_ns,
    'broadcast of buffers' as name
from forward
inner join computing on forward.event_id = computing.forward_id
order by forward.event_id
