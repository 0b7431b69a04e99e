-- What ops show to be done with gradients between backward and the optimizer, on the main thread: clipping, and a
-- gradient scaler's work, which is the optimizer's.
--
-- A scaler unscales gradients, from the inverse of the scale on (`unscale_`), reads back whether one is infinite, right
-- before the optimizer (`step`), and changes the scale (`update`): right after the optimizer, that is one with it.
--
-- :reads gradient_op, clip_unit
-- :only_with gradient_op where kind in ('scale', 'product', 'bound', 'unscale', 'rescale')
-- :column track_id BIGINT   the main thread
-- :column start_ns BIGINT   start of the first op
-- :column end_ns BIGINT     end of the last op, or the start of the optimizer's mark right after it
-- :column label PHASE       clipping or optimizer
-- :column event_id BIGINT   the first op
with clip_start as (
    select
        start_number,
        end_number,
        -- clips of parameters one by one, with nothing between them
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

-- Ops with their neighbours, and how many gradients were unscaled since the last backward.
op as (
    select
        *,
        lag(kind in ('step', 'update') or is_update) over in_order as follows_update,
        -- the inverse of the scale, and the tensor for what is infinite
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
