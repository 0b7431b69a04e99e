-- Module calls in the steps: a call with a frame, or consecutive calls with a common parent module.
--
-- A call with a frame is one slice. Modules without frames are known only from their ops: consecutive calls in one
-- phase with the same parent module form one slice of that parent.
--
-- :reads model_op, module_ancestor, module_span, phase_span, step
-- :column rank RANK
-- :column step STEP
-- :column phase PHASE       at the start; other if unknown
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column module_id BIGINT  the module
-- :column pass VARCHAR      forward, backward or recompute
-- :column depth BIGINT      depth of the module in the tree
-- :column event_id BIGINT   the `nn.Module` frame; NULL without a frame
-- :column name VARCHAR      last part of the module's path
-- :column type VARCHAR      class of the module

-- one row per module call in a step, with its phase
with placed_span as (
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

bare_span as (
    select
        *,
        row_number() over (
            partition by rank, track_id order by start_ns, end_ns desc, depth, module_id, pass, call
        ) as position
    from placed_span
    where event_id is null
),

-- one row per call without a frame and ancestor; `is_next` if it continues the previous slice
span_at_level as (
    select
        bare_span.* exclude (module_id, depth),
        module_ancestor.ancestor_id as module_id,
        module_ancestor.depth,
        coalesce(
            bare_span.position = lag(bare_span.position) over same_level + 1
            and bare_span.pass is not distinct from lag(bare_span.pass) over same_level
            and module_ancestor.ancestor_id = lag(module_ancestor.ancestor_id) over same_level,
            false
        ) as is_next
    from bare_span
    inner join module_ancestor
        on bare_span.rank = module_ancestor.rank and bare_span.module_id = module_ancestor.module_id
    window same_level as (
        partition by bare_span.rank, bare_span.track_id, bare_span.step, bare_span.home_ns, module_ancestor.depth
        order by bare_span.position
    )
),

span_of_run as (
    select
        *,
        sum((not is_next)::integer) over (
            partition by rank, track_id, step, home_ns, depth order by position rows unbounded preceding
        ) as run
    from span_at_level
),

-- one row per slice
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
    from span_of_run
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
    from placed_span
    where event_id is not null
)

select
    module_run.*,
    model_op.name,
    model_op.type
from module_run
inner join model_op on module_run.rank = model_op.rank and module_run.module_id = model_op.module_id
