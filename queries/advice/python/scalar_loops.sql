-- Single values read by the CPU one after the other, each computed by small ops.
--
-- Condition: at least ten rounds in one phase and module of a step, outside of the optimizer, which reads its own step
-- count. A round is at most sixteen consecutive ops, ending with an op that reads a value (`.item()`, `float(x)`, `if x
-- > 0`, which are `aten::_local_scalar_dense`). A round with a product, convolution or attention is no such round: a
-- model computes the value, as in text generation. Bound: the longest round, with the python before it, stays. Source:
-- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization". The ten rounds come from
-- `ForLoopIndexingPattern` in torch/profiler/_pattern_matcher.py.
--
-- :reads cpu_event, name_info, nesting
-- :only_with name_info where name = 'aten::_local_scalar_dense'
-- :finding rounds of small ops that each end with reading a single value, most of them from {name}
-- :remedy Compute on the whole tensor instead of its elements (torch.where, clamp, masks); stack values and read all
--     with one tolist(); compute statistics for a log every some steps.
with outer_op as (
    -- One row per outermost op.
    select
        cpu_event.event_id,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.name,
        cpu_event.phase,
        cpu_event.module_id,
        is_value_read(cpu_event.name) as is_read
    from cpu_event
    left join nesting as parent on cpu_event.rank = parent.rank and cpu_event.parent_id = parent.event_id
    where
        cpu_event.rank = $rank
        and cpu_event.step = $step
        and cpu_event.phase is distinct from 'optimizer'
        and cpu_event.category = 'cpu_op'
        and parent.op_id is null
),

-- One row per outermost op with work of a model inside.
model_op as (
    select distinct outer_op.event_id
    from cpu_event as product
    asof inner join outer_op
        on product.track_id = outer_op.track_id and product.start_ns >= outer_op.start_ns
    where
        product.rank = $rank
        and product.step = $step
        and product.category = 'cpu_op'
        and is_costly_op(product.name)
        and product.end_ns <= outer_op.end_ns
),

grouped_op as (
    select
        *,
        event_id in (select event_id from model_op) as is_of_model,
        lag(end_ns) over in_order as before_ns,
        (phase is not distinct from lag(phase) over in_order)
        and (module_id is not distinct from lag(module_id) over in_order) as is_beside,
        coalesce(lag(is_read) over in_order, true) as follows_read
    from outer_op
    window in_order as (partition by track_id order by start_ns, event_id)
),

numbered_op as (
    select
        *,
        sum((follows_read or not is_beside)::integer) over (
            partition by track_id order by start_ns, event_id rows unbounded preceding
        ) as number
    from grouped_op
),

-- One row per round: consecutive ops, ending with a read. Python before a round belongs to the round if another round
-- precedes.
round as (
    select
        track_id,
        number,
        any_value(phase) as phase,
        any_value(module_id) as module_id,
        min(event_id) as event_id,
        min(start_ns) as start_ns,
        min(before_ns) filter (where follows_read and is_beside) as before_ns,
        max(end_ns) as end_ns,
        arg_min(name, (start_ns, event_id)) as name
    from numbered_op
    group by track_id, number
    having bool_or(is_read) and not bool_or(is_of_model) and count(*) <= most_ops_of_value()
),

-- One row per round, with the number of rounds in the loop, and the rank by duration.
counted_round as (
    select
        *,
        coalesce(before_ns, start_ns) as since_ns,
        count(*) over of_loop as round_count,
        row_number() over (
            partition by track_id, phase, module_id order by end_ns - coalesce(before_ns, start_ns) desc, event_id
        ) as place
    from round
    window of_loop as (partition by track_id, phase, module_id)
)

select
    event_id,
    'host' as effect,
    track_id,
    since_ns as start_ns,
    end_ns,
    if(place = 1, 0, end_ns - since_ns) as saved_ns,
    name
from counted_round
where
    round_count >= least_loop_rounds()
    and exists (select 1 from name_info where rank = $rank and name = 'aten::_local_scalar_dense')
order by event_id
