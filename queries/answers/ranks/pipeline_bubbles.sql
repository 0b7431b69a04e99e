-- Pipeline bubble of each rank: time waiting for other stages, next to the ideal bubble of the schedule.
--
-- The bubble is the time in sends and receives (`collective_use`) without computation on the device. On the CPU, the
-- bubble is the time of the loop waiting for sends and receives (`thread_wait`). A trace does not separate waiting from
-- transfer, but a transfer of activations is short. With p stages and m micro-batches, a schedule that fills and drains
-- the pipeline once leaves each stage idle for (p - 1) / (m + p - 1) of the step (Huang et al., "GPipe", NeurIPS 2019,
-- section 2; Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC 2021, section 2.2).
-- Stages are the ranks of the process group. Micro-batches are the calls with one peer in one direction in a step, as
-- the trace has no other evidence.
--
-- :param rank BIGINT = NULL             only this rank
-- :param step BIGINT = NULL             only this step
-- :reads collective_use, collective, collective_call, event, gpu_event, step, thread_wait
-- :column rank RANK
-- :column step STEP
-- :column stage BIGINT                  position in the pipeline, from 0; NULL if unknown
-- :column stage_count BIGINT            number of stages; NULL if unknown
-- :column micro_batch_count BIGINT      number of micro-batches
-- :column bubble_ns BIGINT              time in sends and receives without computation
-- :column bubble_pct DOUBLE             the bubble as a share of the step
-- :column ideal_pct DOUBLE              ideal share for this number of stages and micro-batches; NULL if unknown

-- one row per send or receive in a step
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
        -- without this argument, the op's name has the peer: `nccl:recv 1<-0`
        coalesce(own.peer::varchar, called.peer::varchar, gpu_event.op, '') as peer
    from collective_use
    inner join event on collective_use.rank = event.rank and collective_use.event_id = event.event_id
    inner join collective_call
        on collective_use.rank = collective_call.rank and collective_use.event_id = collective_call.event_id
    left join gpu_event on event.rank = gpu_event.rank and event.event_id = gpu_event.event_id
    left join collective as own on event.rank = own.rank and event.event_id = own.event_id
    left join collective as called on gpu_event.rank = called.rank and gpu_event.op_id = called.event_id
    left join thread_wait on event.rank = thread_wait.rank and event.event_id = thread_wait.event_id
    where
        collective_use.use = 'stages'
        and collective_use.step is not null
        and is_asked($rank, collective_use.rank)
        and is_asked($step, collective_use.step)
),

transfer as (
    -- Time of each step in transfers, without double counting.
    select
        lane[1] as rank,
        lane[2] as step,
        start_ns,
        end_ns
    from merged('call', [rank, step])
),

-- Computation of the ranks with transfers, without double counting.
computing_kernel as ( -- noqa: ST03
    select
        rank,
        start_ns,
        end_ns
    from gpu_event
    where class = 'computation' and end_ns > start_ns and rank in (select rank from call)
),

merged_computation as (
    select
        lane as rank,
        start_ns,
        end_ns
    from merged('computing_kernel', rank)
),

-- one row per step: the transfer time hidden by computation
hidden_time as (
    select
        transfer.rank,
        transfer.step,
        sum(
            least(transfer.end_ns, merged_computation.end_ns) - greatest(transfer.start_ns, merged_computation.start_ns)
        ) as hidden_ns
    from transfer
    inner join merged_computation
        on
            transfer.rank = merged_computation.rank
            and transfer.start_ns < merged_computation.end_ns
            and transfer.end_ns > merged_computation.start_ns
    group by transfer.rank, transfer.step
),

transfer_time as (
    select
        rank,
        step,
        sum(end_ns - start_ns) as transfer_ns
    from transfer
    group by rank, step
),

-- one row per step: the number of micro-batches and stages
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
    (transfer_time.transfer_ns - coalesce(hidden_time.hidden_ns, 0))::bigint as bubble_ns,
    100.0 * bubble_ns / nullif(step.end_ns - step.start_ns, 0) as bubble_pct,
    100.0 * (shape.stage_count - 1) / (shape.micro_batch_count + shape.stage_count - 1) as ideal_pct
from shape
inner join transfer_time on shape.rank = transfer_time.rank and shape.step = transfer_time.step
inner join step on shape.rank = step.rank and shape.step = step.step
left join hidden_time on shape.rank = hidden_time.rank and shape.step = hidden_time.step
order by shape.rank, shape.step
