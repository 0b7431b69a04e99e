-- How long each rank of a pipeline waits for another stage, beside the least that its schedule allows.
--
-- The bubble is the time in sends and receives (`collective_use`) in which the device computes nothing, or on the CPU,
-- in which the loop waits for them (`thread_wait`). A file does not tell waiting from transfer, and a transfer of
-- activations takes little of it. With p stages and m
-- micro-batches, a schedule that fills and drains the pipeline once leaves each stage without work for (p - 1) /
-- (m + p - 1) of the step (Huang et al., "GPipe", NeurIPS 2019, section 2; Narayanan et al., "Efficient large-scale
-- language model training on GPU clusters", SC 2021, section 2.2). Stages are the ranks of the process group, and
-- micro-batches the calls with one peer in one direction in a step, as the trace shows no others.
--
-- :param rank BIGINT = NULL             only this rank
-- :param step BIGINT = NULL             only this step
-- :reads collective_use, collective, collective_call, event, gpu_work, launch, step, thread_wait
-- :column rank BIGINT                   process rank
-- :column step BIGINT                   number of the training step
-- :column stage BIGINT                  its place in the pipeline, from 0; NULL when unknown
-- :column stage_count BIGINT            stages; NULL when unknown
-- :column micro_batch_count BIGINT      micro-batches
-- :column bubble_ns BIGINT              time in sends and receives beside which nothing computes
-- :column bubble_pct DOUBLE             that as a share of the step
-- :column ideal_pct DOUBLE              the least share with so many stages and micro-batches; NULL when unknown
with call as (
    select
        collective_use.rank,
        collective_use.event_id,
        collective_use.name,
        collective_use.step,
        coalesce(thread_wait.start_ns, event.start_ns) as start_ns,
        coalesce(thread_wait.end_ns, if(collective_call.on_gpu, event.end_ns, event.start_ns)) as end_ns,
        collective_call.group_size,
        collective_call.group_ranks,
        -- the op of a call without that argument says it, as `nccl:recv 1<-0`
        coalesce(own.peer::varchar, called.peer::varchar, op.name, '') as peer
    from collective_use
    inner join event on collective_use.rank = event.rank and collective_use.event_id = event.event_id
    inner join collective_call
        on collective_use.rank = collective_call.rank and collective_use.event_id = collective_call.event_id
    left join launch on event.rank = launch.rank and event.event_id = launch.event_id
    left join collective as own on event.rank = own.rank and event.event_id = own.event_id
    left join collective as called on launch.rank = called.rank and launch.op_id = called.event_id
    left join event as op on launch.rank = op.rank and launch.op_id = op.event_id
    left join thread_wait on event.rank = thread_wait.rank and event.event_id = thread_wait.event_id
    where
        collective_use.use = 'stages'
        and collective_use.step is not null
        and is_asked($rank, collective_use.rank)
        and is_asked($step, collective_use.step)
),

transfer as (
    -- Time of each step in transfers, each stretch once.
    select
        lane[1] as rank,
        lane[2] as step,
        start_ns,
        end_ns
    from merged('call', [rank, step])
),

-- Computation of the ranks with transfers, each stretch once.
computing as ( -- noqa: ST03
    select
        rank,
        start_ns,
        end_ns
    from gpu_work
    where class = 'computation' and end_ns > start_ns and rank in (select rank from call)
),

computed as (
    select
        lane as rank,
        start_ns,
        end_ns
    from merged('computing', rank)
),

hidden as (
    select
        transfer.rank,
        transfer.step,
        sum(least(transfer.end_ns, computed.end_ns) - greatest(transfer.start_ns, computed.start_ns)) as hidden_ns
    from transfer
    inner join computed
        on
            transfer.rank = computed.rank
            and transfer.start_ns < computed.end_ns
            and transfer.end_ns > computed.start_ns
    group by transfer.rank, transfer.step
),

in_transfer as (
    select
        rank,
        step,
        sum(end_ns - start_ns) as transfer_ns
    from transfer
    group by rank, step
),

shape as (
    select
        rank,
        step,
        max(call_count) as micro_batch_count,
        max(group_size) as stage_count,
        any_value(group_ranks) as group_ranks
    from (
        select
            rank,
            step,
            count(*) as call_count,
            max(group_size) as group_size,
            any_value(group_ranks) as group_ranks
        from call
        group by rank, step, peer, name
    ) as direction
    group by rank, step
)

select
    shape.rank,
    shape.step,
    (list_position(try_cast(shape.group_ranks as bigint[]), shape.rank) - 1)::bigint as stage,
    shape.stage_count,
    shape.micro_batch_count,
    (in_transfer.transfer_ns - coalesce(hidden.hidden_ns, 0))::bigint as bubble_ns,
    100.0 * bubble_ns / nullif(step.end_ns - step.start_ns, 0) as bubble_pct,
    100.0 * (shape.stage_count - 1) / (shape.micro_batch_count + shape.stage_count - 1) as ideal_pct
from shape
inner join in_transfer on shape.rank = in_transfer.rank and shape.step = in_transfer.step
inner join step on shape.rank = step.rank and shape.step = step.step
left join hidden on shape.rank = hidden.rank and shape.step = hidden.step
order by shape.rank, shape.step
