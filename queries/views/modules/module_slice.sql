-- Where modules run in the steps: a call with a frame, or calls in a row with the same module around them.
--
-- A call with a frame is one slice. Modules without frames are known by the ops in them: calls in a row of one phase
-- that have the same module around them are one slice of that.
--
-- :reads model_op, module_ancestor, module_span, phase_span, step
-- :column rank BIGINT       process rank
-- :column step BIGINT       number of the training step
-- :column phase VARCHAR     the phase in which it begins; other where no phase is known
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column module_id BIGINT  the module
-- :column pass VARCHAR      forward, backward or recompute
-- :column depth BIGINT      depth of the module in the tree
-- :column event_id BIGINT   the `nn.Module` frame; NULL without one
-- :column name VARCHAR      last part of the module's path
-- :column type VARCHAR      class of the module
with placed as (
    select
        module_span.*,
        step.step,
        coalesce(phase_span.phase, 'other') as phase,
        coalesce(phase_span.start_ns, -1) as home_ns
    from module_span
    asof inner join step
        on module_span.rank = step.rank and module_span.start_ns >= step.start_ns
    asof left join phase_span
        on
            module_span.rank = phase_span.rank
            and module_span.track_id = phase_span.track_id
            and module_span.start_ns >= phase_span.start_ns
    where module_span.start_ns < step.end_ns
),

frameless as (
    select
        *,
        row_number() over (
            partition by rank, track_id order by start_ns, end_ns desc, depth, module_id, pass, call
        ) as position
    from placed
    where event_id is null
),

at_level as (
    select
        frameless.* exclude (module_id, depth),
        module_ancestor.ancestor_id as module_id,
        module_ancestor.depth,
        coalesce(
            frameless.position = lag(frameless.position) over same_level + 1
            and frameless.pass is not distinct from lag(frameless.pass) over same_level
            and module_ancestor.ancestor_id = lag(module_ancestor.ancestor_id) over same_level,
            false
        ) as is_next
    from frameless
    inner join module_ancestor
        on frameless.rank = module_ancestor.rank and frameless.module_id = module_ancestor.module_id
    window same_level as (
        partition by frameless.rank, frameless.track_id, frameless.step, frameless.home_ns, module_ancestor.depth
        order by frameless.position
    )
),

in_run as (
    select
        *,
        sum((not is_next)::integer) over (
            partition by rank, track_id, step, home_ns, depth order by position rows unbounded preceding
        ) as run
    from at_level
),

module_run as (
    select
        rank,
        step,
        phase,
        track_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        module_id,
        pass,
        depth,
        null::bigint as event_id
    from in_run
    group by rank, step, phase, track_id, home_ns, module_id, pass, depth, run
    union all
    select
        rank,
        step,
        phase,
        track_id,
        start_ns,
        end_ns,
        module_id,
        pass,
        depth,
        event_id
    from placed
    where event_id is not null
)

select
    module_run.*,
    model_op.name,
    model_op.type
from module_run
inner join model_op on module_run.rank = model_op.rank and module_run.module_id = model_op.module_id
