-- Calls in which a gradient scaler checks for infinite gradients, and in which the CPU waits for the GPU.
--
-- `GradScaler.step` reads the flag right before the optimizer. The call is the last value read by a thread between
-- `aten::_amp_foreach_non_finite_check_and_unscale_` and the optimizer's mark, or `aten::_amp_update_scale_` if the
-- step is skipped or has no mark (torch/amp/grad_scaler.py, `_maybe_opt_step`).
--
-- :reads cpu_event, name_info, gpu_wait
-- :column rank RANK
-- :column event_id BIGINT  the waiting call, as in `gpu_wait`
with scaling_rank as (
    -- Ranks with a scaler.
    select rank from name_info
    where is_infinity_check(name)
),

-- one row per check, or per mark that ends the reading
mark as (
    -- Checks for infinities, and the events after the reading.
    select
        cpu_event.rank,
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.start_ns,
        is_infinity_check(cpu_event.name) as is_check
    from cpu_event
    where
        cpu_event.rank in (select scaling_rank.rank from scaling_rank)
        and (
            is_infinity_check(cpu_event.name) or is_scale_update(cpu_event.name) or is_optimizer_mark(cpu_event.name)
        )
),

-- One row per last check before an optimizer, up to the optimizer's mark.
reading_span as (
    select
        rank,
        track_id,
        event_id,
        start_ns,
        lead(start_ns) over in_order as end_ns
    from mark
    window in_order as (partition by rank, track_id order by start_ns, event_id)
    qualify is_check and not coalesce(lead(is_check) over in_order, false)
),

-- Values read by a thread in these spans.
reading as (
    select
        reading_span.rank,
        reading_span.event_id as check_id,
        op.event_id as op_id,
        op.end_ns
    from gpu_wait
    inner join cpu_event as call on gpu_wait.rank = call.rank and gpu_wait.event_id = call.event_id
    inner join cpu_event as op on call.rank = op.rank and call.op_id = op.event_id
    asof inner join reading_span
        on
            op.rank = reading_span.rank
            and op.track_id = reading_span.track_id
            and op.start_ns >= reading_span.start_ns
    where
        is_value_read(op.name)
        and gpu_wait.kind in ('copy', 'sync')
        and (reading_span.end_ns is null or op.start_ns < reading_span.end_ns)
),

last_reading as (
    select
        rank,
        arg_max(op_id, end_ns) as op_id
    from reading
    group by rank, check_id
)

select
    last_reading.rank,
    gpu_wait.event_id
from last_reading
inner join cpu_event on last_reading.rank = cpu_event.rank and last_reading.op_id = cpu_event.op_id
inner join gpu_wait on cpu_event.rank = gpu_wait.rank and cpu_event.event_id = gpu_wait.event_id
where gpu_wait.kind in ('copy', 'sync')
