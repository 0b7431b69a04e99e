-- The same ops for one slice of a tensor after the other, instead of all at once.
--
-- Condition: ten or more rounds in a row of the same ops side by side, each of which begins with a slice of its own
-- (`aten::select`, `slice` or `narrow` with other numbers than in any other round). Where the numbers were not
-- recorded, more rounds than a model has layers. Bound: all rounds take the CPU as long as the longest; the GPU takes
-- as long as before. Source: `ForLoopIndexingPattern` in torch/profiler/_pattern_matcher.py, from which the ten rounds
-- are.
--
-- :reads event, nesting, op, label
-- :what rounds of loops over slices of a tensor, most of them from {name}
-- :do Replace the loop by ops on the whole tensor: batched matrix products, torch.vmap, or indexing with ranges.
with called as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.depth,
        nesting.start_ns,
        nesting.end_ns,
        event.name,
        case
            when regexp_matches(event.name, '^aten::(select|slice|narrow)$')
                then event.name || coalesce(op.concrete_inputs::varchar, '')
        end as slice,
        op.concrete_inputs is not null as has_inputs
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    left join op on event.rank = op.rank and event.event_id = op.event_id
    where nesting.rank = $rank and label.step = $step and event.category = 'cpu_op'
),

sibling as (
    select
        called.*,
        around.op_id as around_id
    from called
    asof left join (select * from nesting where rank = $rank) as around
        on
            called.track_id = around.track_id
            and called.depth = around.depth + 1
            and called.start_ns >= around.start_ns
),

begun as (
    select
        *,
        slice is not null and coalesce(lag(slice) over beside is null, true) as begins
    from sibling
    window beside as (partition by track_id, around_id order by start_ns, event_id)
),

counted as (
    select
        *,
        sum(begins::integer) over (
            partition by track_id, around_id order by start_ns, event_id rows unbounded preceding
        ) as number
    from begun
),

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
    from counted
    where number > 0
    group by track_id, around_id, number
    having count(*) filter (where slice is null) > 0
),

marked as (
    select
        *,
        (names is distinct from lag(names) over (partition by track_id, around_id order by number)) as is_other
    from round
),

numbered as (
    select
        *,
        sum(is_other::integer) over (
            partition by track_id, around_id order by number rows unbounded preceding
        ) as loop_number
    from marked
),

loop as (
    select
        track_id,
        around_id,
        loop_number,
        arg_max(number, end_ns - start_ns) as longest
    from numbered
    group by track_id, around_id, loop_number
    having
        (count(*) >= least_loop_rounds() and count(distinct slices) = count(*))
        -- `narrow` is that of libraries, which cut lists of tensors from one buffer
        or (count(*) > most_layers() and not bool_or(has_inputs) and min(name) in ('aten::select', 'aten::slice'))
)

select
    numbered.event_id,
    'host' as effect,
    numbered.track_id,
    numbered.start_ns,
    numbered.end_ns,
    if(numbered.number = loop.longest, 0, numbered.end_ns - numbered.start_ns) as saved_ns,
    numbered.name
from numbered
inner join loop
    on
        numbered.track_id = loop.track_id
        and numbered.around_id is not distinct from loop.around_id
        and numbered.loop_number = loop.loop_number
order by numbered.event_id
