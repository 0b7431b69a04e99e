-- Backward processes a whole tensor for each slice that a loop reads or writes.
--
-- Condition: ten or more writes into slices in one module (autograd nodes `CopySlices`), or ten or more reads of slices
-- of one tensor (`SelectBackward`, `SliceBackward`, which add their gradients to a running sum). Both nodes allocate,
-- fill, copy or add a whole tensor. Bound: for writes, the longest node stays, because `stack` or `cat` writes the
-- tensor once. For reads, the first node of each tensor stays. Source: torch/csrc/autograd/functions/tensor.cpp
-- (`CopySlices::apply`) and `select_backward` in aten/src/ATen/native/TensorShape.cpp. The ten rounds come from
-- `ForLoopIndexingPattern` in torch/profiler/_pattern_matcher.py.
--
-- :reads cpu_event, name_info, gpu_event
-- :only_with name_info where slice_node_of(name) != ''
-- :finding backward nodes of single slices that each pass a whole tensor, most of them {name}
-- :remedy Collect the parts in a list and call torch.stack or torch.cat once, instead of writing into slices; take the
--     parts with unbind, split or chunk, instead of indexing in a loop.
with slice_node as (
    -- One row per outermost backward node of a slice: the engine call, not the node inside.
    select
        event_id,
        track_id,
        depth,
        start_ns,
        end_ns,
        module_id,
        slice_node_of(name) as name
    from cpu_event
    where
        rank = $rank
        and step = $step
        and name in (
            select name_info.name from name_info
            where name_info.rank = $rank and slice_node_of(name_info.name) != ''
        )
    qualify is_outermost(start_ns, end_ns, track_id, depth)
),

-- One row per node that adds its gradient to an earlier gradient: all nodes of a tensor except the first.
adding_node as (
    select distinct slice_node.event_id
    from slice_node
    inner join cpu_event on cpu_event.rank = $rank and slice_node.event_id = cpu_event.parent_id
    where regexp_matches(cpu_event.name, '^aten::add_?$')
),

-- One row per node, with the counts of its module and op, and the rank by duration.
counted_node as (
    select
        slice_node.*,
        adding_node.event_id is not null as adds,
        count(*) over of_module as node_count,
        count(adding_node.event_id) over of_module as adding_count,
        row_number() over (
            partition by slice_node.module_id, slice_node.name
            order by slice_node.end_ns - slice_node.start_ns desc, slice_node.event_id
        ) as place
    from slice_node
    left join adding_node on slice_node.event_id = adding_node.event_id
    window of_module as (partition by slice_node.module_id, slice_node.name)
),

-- One row per avoidable node.
spared_node as (
    select *
    from counted_node
    where
        node_count >= least_loop_rounds()
        and case
            when name = 'CopySlices' then place > 1
            -- At least ten slices per tensor on average; nodes that do not add count the tensors.
            else adds and node_count >= least_loop_rounds() * (node_count - adding_count)
        end
)

select
    event_id,
    'host' as effect,
    track_id,
    start_ns,
    end_ns,
    end_ns - start_ns as saved_ns,
    name
from spared_node
union all
select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    spared_node.name
from gpu_event
inner join cpu_event as op on gpu_event.rank = op.rank and gpu_event.op_id = op.event_id
asof inner join spared_node on op.track_id = spared_node.track_id and op.start_ns >= spared_node.start_ns
where gpu_event.rank = $rank and gpu_event.step = $step and op.start_ns < spared_node.end_ns
order by event_id, effect
