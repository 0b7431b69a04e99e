-- A module called very often in a loop: the CPU is busy with python and small ops.
--
-- Condition: a module that computes products or convolutions, called in a step at least ten times as often as its
-- parent, or as the least called sibling module. Bound: the GPU work stays. Of a recurrent cell's CPU time, half of the
-- products stay: `nn.LSTM`, `nn.GRU` and `nn.RNN` multiply the inputs of all calls at once, and compute the rest in one
-- op. For other modules, all innermost ops stay, and the time around these ops is saved. Source: torch.nn.LSTM and
-- LSTMCell; PyTorch performance tuning guide, "Fuse operations". The ten rounds come from `ForLoopIndexingPattern` in
-- torch/profiler/_pattern_matcher.py.
--
-- :reads cpu_event, module_span, model_op, module_ancestor, step
-- :only_with module_span
-- :finding stretches of the CPU in a module that a loop calls again and again, {name}
-- :remedy Replace a cell in a loop by nn.LSTM, nn.GRU or nn.RNN over the whole sequence; batch the calls, or let
--     torch.compile or a scan run the loop.
with span_of_step as (
    -- One row per module call in the step, in all passes.
    select module_span.*
    from module_span
    inner join step
        on
            module_span.rank = step.rank
            and module_span.start_ns >= step.start_ns
            and module_span.start_ns < step.end_ns
    where step.rank = $rank and step.step = $step
),

-- One row per module, with the number of forward calls.
called_module as (
    select
        model_op.module_id,
        model_op.parent_id,
        model_op.type,
        model_op.path,
        count(*) as call_count
    from span_of_step
    inner join model_op on span_of_step.rank = model_op.rank and span_of_step.module_id = model_op.module_id
    where span_of_step.pass = 'forward'
    group by all
),

-- One row per parent, with the calls of the least called child.
least_called_child as (
    select
        parent_id,
        min(call_count) as call_count
    from called_module
    group by parent_id
),

-- One row per module called much more often than its parent and siblings.
looped_module as (
    select
        called_module.module_id,
        regexp_matches(called_module.type, '(LSTM|GRU|RNN)Cell') as is_cell,
        called_module.path || ' (' || called_module.type || ', ' || called_module.call_count || ' calls)' as name
    from called_module
    inner join called_module as parent on called_module.parent_id = parent.module_id
    inner join least_called_child on called_module.parent_id = least_called_child.parent_id
    where called_module.call_count >= least_loop_rounds() * least(parent.call_count, least_called_child.call_count)
),

-- One row per forward call of these modules, or backward run of nodes of the modules inside.
looped_span as (
    select
        row_number() over () as number,
        looped_module.is_cell,
        looped_module.name,
        span_of_step.track_id,
        span_of_step.start_ns,
        span_of_step.end_ns
    from looped_module
    inner join module_ancestor
        on module_ancestor.rank = $rank and looped_module.module_id = module_ancestor.ancestor_id
    inner join span_of_step
        on
            module_ancestor.module_id = span_of_step.module_id
            and (span_of_step.pass != 'forward' or module_ancestor.module_id = looped_module.module_id)
    qualify is_outermost(span_of_step.start_ns, span_of_step.end_ns, span_of_step.track_id, -span_of_step.end_ns)
),

-- One row per event that contains events.
container as (
    select distinct parent_id
    from cpu_event
    where rank = $rank
),

-- One row per op in the calls, with the part of its time that stays.
called_op as (
    select
        looped_span.number,
        looped_span.name,
        cpu_event.event_id,
        is_product_op(cpu_event.name) as is_product,
        case
            when not looped_span.is_cell
                then if(container.parent_id is null, cpu_event.end_ns - cpu_event.start_ns, 0)
            when is_product_op(cpu_event.name) then (cpu_event.end_ns - cpu_event.start_ns) // 2
            else 0
        end as kept_ns
    from cpu_event
    left join container on cpu_event.event_id = container.parent_id
    asof inner join looped_span
        on cpu_event.track_id = looped_span.track_id and cpu_event.start_ns >= looped_span.start_ns
    where cpu_event.rank = $rank and cpu_event.category = 'cpu_op' and cpu_event.start_ns < looped_span.end_ns
),

-- One row per call of a module that computes products, with the time that stays.
time_in_span as (
    select
        number,
        min(event_id) as event_id,
        sum(kept_ns) as kept_ns
    from called_op
    group by number, name
    qualify bool_or(bool_or(is_product)) over (partition by name)
)

select
    time_in_span.event_id,
    'host' as effect,
    looped_span.track_id,
    looped_span.start_ns,
    looped_span.end_ns,
    greatest(looped_span.end_ns - looped_span.start_ns - time_in_span.kept_ns, 0)::bigint as saved_ns,
    looped_span.name
from looped_span
inner join time_in_span on looped_span.number = time_in_span.number
order by time_in_span.event_id
