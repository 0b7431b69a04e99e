-- Ops that clip gradients, one row per run of ops that scale or bound them in place: where the clip begins and ends.
--
-- Clipping by norm takes norms, makes a coefficient of them and multiplies gradients by it, as
-- `torch.nn.utils.clip_grad_norm_` does. A list of tensors is multiplied by one op for each list whose norms an op
-- took; tensors one by one by as many ops as took norms. More ops of that name are the optimizer's. Where nothing marks
-- the optimizer, a list needs a coefficient that ops made, and single tensors need half as many products as norms:
-- norms that are only logged are followed by updates, too. Clipping by value bounds gradients before any update.
--
-- :reads gradient_op
-- :only_with gradient_op where kind in ('scale', 'product', 'bound')
-- :column start_number BIGINT  number of the first op, as in `gradient_op`
-- :column end_number BIGINT    number of the last op
-- :column segment HUGEINT      the segment, as in `gradient_op`
with op as (
    -- Ops, and whether each scales: in place, or into a new tensor if another such op is next to it.
    select
        *,
        kind = 'scale'
        or kind = 'product' and coalesce(
            class_id = lag(class_id) over in_segment or class_id = lead(class_id) over in_segment, false
        ) as is_scale
    from gradient_op
    where kind not in ('step', 'unscale', 'rescale', 'update', 'other')
    window in_segment as (partition by segment order by number)
),

-- Ops with the number of runs of scaling ops of one name that began so far.
op_of_run as (
    select
        *,
        sum(
            (is_scale and not coalesce(lag_scale and class_id = lag_class, false))::integer
        ) over (partition by segment order by number rows unbounded preceding) as run
    from (
        select
            *,
            lag(is_scale) over in_segment as lag_scale,
            lag(class_id) over in_segment as lag_class
        from op
        window in_segment as (partition by segment order by number)
    )
),

-- Ops that prepare a run belong to it.
op_of_unit as (
    select
        *,
        run + (not is_scale)::integer as unit,
        max(number) filter (where kind = 'gather') over (
            partition by segment, run + (not is_scale)::integer
        ) as gather_number
    from op_of_run
),

-- Where the norms of the clip begin at the earliest: after a value that was read back, or a norm of norms that was
-- taken, before the norms were put together; and after that, if more norms follow.
norm_limit as (
    select
        segment,
        unit,
        coalesce(
            max(gather_number) filter (where kind in ('norm', 'square') and number > gather_number),
            max(number) filter (where kind in ('read', 'total') and number < gather_number),
            0
        ) as after_number
    from op_of_unit
    group by segment, unit
),

unit as (
    select
        op.segment,
        op.unit,
        min(op.number) filter (where op.kind in ('norm', 'square') and op.number > norm_limit.after_number)
            as start_number,
        max(op.number) filter (where op.kind in ('norm', 'square', 'total')) as norm_number,
        max(op.number) filter (where op.kind in ('coefficient', 'product') and not op.is_scale) as coefficient_number,
        max(op.number) filter (where op.kind = 'read') as read_number,
        count(*) filter (where op.kind = 'norm' and op.number > norm_limit.after_number) as norms,
        count(*) filter (where op.kind = 'square' and op.number > norm_limit.after_number) as squares,
        count(*) filter (where op.kind = 'norm' and op.is_list and op.number > norm_limit.after_number) as list_norms,
        count(*) filter (where op.is_scale) as scales,
        bool_or(op.is_scale and op.is_list) as scales_lists,
        min(op.number) filter (where op.is_scale) as scale_number,
        any_value(op.chapter) as chapter
    from op_of_unit as op
    inner join norm_limit on op.segment = norm_limit.segment and op.unit = norm_limit.unit
    group by op.segment, op.unit
),

first_update as (
    select
        chapter,
        min(number) as number
    from gradient_op
    where kind = 'update'
    group by chapter
),

marked as (
    select count(*) > 0 as has_marks
    from gradient_op
    where kind = 'step'
),

limited_unit as (
    select
        unit.*,
        marked.has_marks,
        case
            when scales_lists then greatest(list_norms, 1)
            when list_norms > 0 then scales
            else coalesce(nullif(norms, 0), squares)
        end as most_scales
    from unit
    cross join marked
    left join first_update on unit.chapter = first_update.chapter
    where start_number < scale_number and coalesce(scale_number < first_update.number, true)
),

bound as (
    select
        *,
        number - row_number() over (partition by segment order by number) as run
    from gradient_op
    where kind = 'bound'
)

select
    start_number,
    scale_number + least(scales, most_scales) - 1 as end_number,
    segment
from limited_unit
where
    coalesce(coefficient_number > norm_number, false)
    and (has_marks or scales_lists or 2 * scales >= most_scales)
    or coalesce(read_number > norm_number, false)
    and (has_marks or not scales_lists and 2 * scales >= most_scales)
union all
select
    min(bound.number),
    max(bound.number),
    bound.segment
from bound
left join first_update on bound.chapter = first_update.chapter
group by bound.segment, bound.run
having
    (count(*) > 1 or bool_or(bound.is_list))
    and coalesce(min(bound.number) < any_value(first_update.number), true)
