-- The same ops for one slice of a tensor after another, instead of for all slices at once.
--
-- Condition: ten or more consecutive rounds of the same sibling ops, each beginning with a different slice
-- (`aten::select`, `slice` or `narrow` with numbers unlike any other round). If the numbers were not recorded, more
-- rounds than a model has layers. Bound: all rounds together take as much CPU time as the longest round; the GPU time
-- is unchanged. Source: `ForLoopIndexingPattern` in torch/profiler/_pattern_matcher.py, including the ten rounds.
--
-- :reads cpu_event, op
-- :finding rounds of loops over slices of a tensor, most of them from {name}
-- :remedy Replace the loop by ops on the whole tensor: batched matrix products, torch.vmap, or indexing with ranges.
with op_of_step as (
    -- One row per op of the step, with the slice if the op takes one.
    select
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.parent_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.name,
        case when is_slice_op(cpu_event.name) then cpu_event.name || coalesce(op.concrete_inputs::varchar, '') end
            as slice,
        op.concrete_inputs is not null as has_inputs
    from cpu_event
    left join op on cpu_event.rank = op.rank and cpu_event.event_id = op.event_id
    where cpu_event.rank = $rank and cpu_event.step = $step and cpu_event.category = 'cpu_op'
),

-- One row per op, with the enclosing op: that of the event one level up.
sibling as (
    select
        op_of_step.* exclude (parent_id),
        around.op_id as around_id
    from op_of_step
    left join cpu_event as around on around.rank = $rank and op_of_step.parent_id = around.event_id
),

-- One row per enclosing op with enough slices for a loop. The windows below are about these only, a small part.
sliced_op as (
    select
        track_id,
        around_id
    from sibling
    where slice is not null
    group by track_id, around_id
    having count(*) >= least_loop_rounds()
),

marked_op as (
    select
        sibling.*,
        sibling.slice is not null and coalesce(lag(sibling.slice) over beside is null, true) as begins
    from sibling
    inner join sliced_op
        on sibling.track_id = sliced_op.track_id and sibling.around_id is not distinct from sliced_op.around_id
    window beside as (
        partition by sibling.track_id, sibling.around_id order by sibling.start_ns, sibling.event_id
    )
),

numbered_op as (
    select
        *,
        sum(begins::integer) over (
            partition by track_id, around_id order by start_ns, event_id rows unbounded preceding
        ) as number
    from marked_op
),

-- One row per round: a slice and the sibling ops up to the next slice.
round as (
    select
        track_id,
        around_id,
        number,
        min(event_id) as event_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        string_agg(name, ' ' order by start_ns, event_id) as names,
        string_agg(slice, ' ' order by start_ns, event_id) as slices,
        bool_or(has_inputs and slice is not null) as has_inputs,
        arg_min(name, start_ns) as name
    from numbered_op
    where number > 0
    group by track_id, around_id, number
    having count(*) filter (where slice is null) > 0
),

marked_round as (
    select
        *,
        (names is distinct from lag(names) over (partition by track_id, around_id order by number)) as is_other
    from round
),

numbered_round as (
    select
        *,
        sum(is_other::integer) over (
            partition by track_id, around_id order by number rows unbounded preceding
        ) as loop_number
    from marked_round
),

-- One row per loop: consecutive rounds of the same ops, each with a different slice.
loop as (
    select
        track_id,
        around_id,
        loop_number,
        arg_max(number, end_ns - start_ns) as longest
    from numbered_round
    group by track_id, around_id, loop_number
    having
        (count(*) >= least_loop_rounds() and count(distinct slices) = count(*))
        -- Loops with `narrow` are excluded: libraries cut lists of tensors from one buffer.
        or (count(*) > most_layers() and not bool_or(has_inputs) and min(name) in ('aten::select', 'aten::slice'))
)

select
    numbered_round.event_id,
    'host' as effect,
    numbered_round.track_id,
    numbered_round.start_ns,
    numbered_round.end_ns,
    if(numbered_round.number = loop.longest, 0, numbered_round.end_ns - numbered_round.start_ns) as saved_ns,
    numbered_round.name
from numbered_round
inner join loop
    on
        numbered_round.track_id = loop.track_id
        and numbered_round.around_id is not distinct from loop.around_id
        and numbered_round.loop_number = loop.loop_number
order by numbered_round.event_id
