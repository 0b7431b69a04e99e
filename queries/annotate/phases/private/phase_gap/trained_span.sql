-- Start and end of the ops with a backward node in each stretch.
--
-- :reads gap_sign, nesting
-- :only_with gap_sign where kind = 'differentiable'
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column first_ns BIGINT       start of the first of these ops, or of an enclosing op
-- :column known_ns BIGINT       end of the last of these ops
with trained_stretch as (
    select
        step_start_ns,
        stretch,
        min(start_ns) as first_ns,
        max(end_ns) as known_ns,
        arg_min(parent_id, start_ns) as parent_id
    from gap_sign
    where kind = 'differentiable'
    group by step_start_ns, stretch
)

-- The op that created a node is often part of another op.
select
    trained_stretch.step_start_ns,
    trained_stretch.stretch,
    least(trained_stretch.first_ns, op.start_ns, outer_op.start_ns) as first_ns,
    trained_stretch.known_ns
from trained_stretch
left join nesting as around on trained_stretch.parent_id = around.event_id
left join nesting as op on around.op_id = op.event_id
left join nesting as outer_around on op.parent_id = outer_around.event_id
left join nesting as outer_op on outer_around.op_id = outer_op.event_id
