-- One row per stretch with ops that autograd comes back to: where they start and end.
--
-- :reads gap_sign, nesting
-- :only_with gap_sign where kind = 'differentiable'
-- :column step_start_ns BIGINT  start of the step
-- :column stretch HUGEINT       the stretch, as in `phase_timeline`
-- :column first_ns BIGINT       start of the first of these ops, or of an op around it
-- :column known_ns BIGINT       end of the last of these ops
with trained as (
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

-- The op that a node comes back to is often a part of another.
select
    trained.step_start_ns,
    trained.stretch,
    least(trained.first_ns, op.start_ns, outer_op.start_ns) as first_ns,
    trained.known_ns
from trained
left join nesting as around on trained.parent_id = around.event_id
left join nesting as op on around.op_id = op.event_id
left join nesting as outer_around on op.parent_id = outer_around.event_id
left join nesting as outer_op on outer_around.op_id = outer_op.event_id
