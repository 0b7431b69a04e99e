-- Ops that clip gradients: start and end of each run of ops that scale or bound gradients in place.
--
-- Clipping by norm takes norms, computes a coefficient, and multiplies the gradients by it, as in
-- `torch.nn.utils.clip_grad_norm_`. A list of tensors is multiplied by one op per list of norms; single tensors, by as
-- many ops as there are norms. Further ops of the same name belong to the optimizer. Without optimizer marks, a list
-- needs a coefficient computed by ops, and single tensors need at least half as many products as norms. The reason is
-- that norms taken only for logging are also followed by updates. Clipping by value bounds gradients before any update.
--
-- :reads gradient_op
-- :only_with gradient_op where kind in ('scale', 'product', 'bound')
-- :column start_number BIGINT  number of the first op, as in `gradient_op`
-- :column end_number BIGINT    number of the last op
-- :column segment HUGEINT      segment, as in `gradient_op`
with op as (
    -- Ops, and whether each scales: in place, or into a new tensor if the next or previous op has the same name.
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

-- Ops, with the number of runs of scaling ops of one name begun up to each op.
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

-- Ops that prepare a run belong to the run.
op_of_unit as (
    select
        *,
        run + (not is_scale)::integer as unit,
        max(number) filter (where kind = 'gather') over (
            partition by segment, run + (not is_scale)::integer
        ) as gather_number
    from op_of_run
),

-- The op after which a clip's norms begin: the gathering of norms, if more norms follow; else the last read-back or
-- norm of norms before the gathering.
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

mark_presence as (
    select count(*) > 0 as has_marks
    from gradient_op
    where kind = 'step'
),

limited_unit as (
    select
        unit.*,
        mark_presence.has_marks,
        case
            when scales_lists then greatest(list_norms, 1)
            when list_norms > 0 then scales
            else coalesce(nullif(norms, 0), squares)
        end as most_scales
    from unit
    cross join mark_presence
    left join first_update on unit.chapter = first_update.chapter
    where start_number < scale_number and coalesce(scale_number < first_update.number, true)
),

bounding_op as (
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
    min(bounding_op.number),
    max(bounding_op.number),
    bounding_op.segment
from bounding_op
left join first_update on bounding_op.chapter = first_update.chapter
group by bounding_op.segment, bounding_op.run
having
    (count(*) > 1 or bool_or(bounding_op.is_list))
    and coalesce(min(bounding_op.number) < any_value(first_update.number), true)
