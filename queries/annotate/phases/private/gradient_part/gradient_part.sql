-- Clipping and the work of a gradient scaler, shown by ops on the main thread between backward and the optimizer.
--
-- A gradient scaler's work belongs to the optimizer. A scaler unscales gradients, starting with the inverse of the
-- scale (`unscale_`). Right before the optimizer, the scaler reads back whether a gradient is infinite (`step`).
-- Finally, the scale changes (`update`). If this change comes right after the optimizer, the part begins at the end of
-- the optimizer, so no gap is left.
--
-- :reads gradient_op, clip_unit, main_track
-- :only_with gradient_op where kind in ('scale', 'product', 'bound', 'unscale', 'rescale')
-- :column track_id BIGINT   the main thread
-- :column start_ns BIGINT   start of the first op; for a change of scale right after the optimizer, its end
-- :column end_ns BIGINT     end of the last op; for the read-back, start of the optimizer's mark or op right after
-- :column label PHASE       clipping or optimizer
-- :column event_id BIGINT   the first op, besides ops that prepare the unscaling
with clip_start as (
    select
        start_number,
        end_number,
        -- Single-parameter clips without ops in between are merged.
        coalesce(start_number > lag(end_number) over in_segment + 1, true) as is_first
    from clip_unit
    window in_segment as (partition by segment order by start_number)
),

clip as (
    select
        min(start_number) as start_number,
        max(end_number) as end_number
    from (
        select
            *,
            sum(is_first::integer) over (order by start_number rows unbounded preceding) as clip_number
        from clip_start
    )
    group by clip_number
),

-- Ops with the previous and next op, and the start of the last unscaling.
op as (
    select
        *,
        lag(kind in ('step', 'update') or is_update) over in_order as follows_update,
        -- The inverse of the scale, and the tensor for the infinity check.
        case
            when lag(kind) over in_order = 'coefficient' then lag(begin_ns) over in_order
            when lag(kind) over in_order = 'sum' and lag(kind, 2) over in_order = 'coefficient'
                then lag(begin_ns, 2) over in_order
            when lag(kind) over in_order = 'unscale' then lag(end_ns) over in_order
        end as prepared_ns,
        lag(end_ns) over in_order as previous_end_ns,
        lead(kind in ('step', 'update') or is_update) over in_order as precedes_update,
        lead(start_ns) over in_order as next_ns,
        max(if(kind = 'unscale', start_ns, null)) over (order by number rows unbounded preceding) as unscaled_ns
    from gradient_op
    window in_order as (order by number)
),

part as (
    select
        first_op.start_ns,
        last_op.end_ns,
        'clipping' as label,
        first_op.event_id
    from clip
    inner join gradient_op as first_op on clip.start_number = first_op.number
    inner join gradient_op as last_op on clip.end_number = last_op.number
    union all
    select
        if(kind = 'unscale', coalesce(prepared_ns, start_ns), start_ns),
        if(kind = 'read', next_ns, end_ns),
        'optimizer',
        event_id
    from op
    where kind = 'unscale' or kind = 'read' and precedes_update and unscaled_ns is not null
    union all
    select
        if(follows_update, previous_end_ns, begin_ns),
        end_ns,
        'optimizer',
        event_id
    from op
    where kind = 'rescale'
)

select
    main_track.track_id,
    part.start_ns,
    part.end_ns,
    part.label,
    part.event_id
from part
cross join main_track
where part.end_ns > part.start_ns
