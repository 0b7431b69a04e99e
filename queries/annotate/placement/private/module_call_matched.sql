-- Module calls of a model aligned with the ops: runs of ops of one module, at each level of the model.
--
-- A run at one level ends before an op matched to another module; unmatched ops between two ops of one module belong to
-- the run. A run also ends between the module's own ops and ops of inner modules; with several models, only if an own
-- op belongs to the module's next call. A run also ends if the module's first child is called again. The loop may be
-- inside the module or around it, and the ops between the module's last op and the next call certainly belong to the
-- enclosing module.
--
-- The outermost modules run once per pass. With several models, each pass is the forward of one model. This model
-- encloses all ops of the pass, including ops of a module listed in another model, and has no enclosing module. Calls
-- have no event of their own and get negative ids. A model that begins or ends in compiled code includes all of this
-- code, unless the list has several outermost modules.
--
-- :reads module_match, pass_level, model_given, forward_item, compiled_region
-- :writes module_call
-- :column event_id BIGINT        a negative number, because no event represents the call
-- :column track_id BIGINT        thread of the ops
-- :column module_key VARCHAR     `model_op.module_id` as text
-- :column start_ns BIGINT        start of the first op; for the outermost module, start of the compiled code around the
--                                first op
-- :column end_ns BIGINT          end of the last op; for the outermost module, end of the compiled code around the last
--                                op
-- :column depth BIGINT           number of enclosing modules
-- :column tree_depth DOUBLE      number of events around the first op, less 1, plus a fraction that grows with `depth`:
--                                calls enclose the op and are inside the op's enclosing event
-- :column evidence VARCHAR       always alignment
-- :column confidence_pct DOUBLE  mean confidence of the ops: 100 is certain; lower if another position fits as well
-- :column pass_number BIGINT     number of the pass of the model, or of a checkpoint's recomputation, from 0
-- :column parent_call_id BIGINT  the enclosing call; NULL for an outermost call
-- :column parent_key VARCHAR     `module_key` of the enclosing call; NULL for an outermost call
with
-- Matched ops, numbered in order of time within the pass and thread.
matched_op as (
    select
        forward_item.event_id,
        forward_item.track_id,
        forward_item.start_ns,
        forward_item.end_ns,
        forward_item.depth as op_depth,
        module_match.pass_number,
        module_match.root_id,
        module_match.module_id,
        module_match.call,
        module_match.confidence_pct,
        row_number() over (
            partition by module_match.pass_number, forward_item.track_id
            order by forward_item.start_ns, forward_item.depth, forward_item.event_id
        ) as position
    from module_match
    inner join forward_item on module_match.event_id = forward_item.event_id
),

-- Each matched op at each level of the model, with the enclosing module at the level.
op_level as (
    select
        matched_op.pass_number,
        matched_op.track_id,
        matched_op.position,
        matched_op.start_ns,
        matched_op.end_ns,
        matched_op.op_depth,
        matched_op.confidence_pct,
        matched_op.root_id,
        pass_level.depth,
        pass_level.ancestor_id as module_id,
        case when pass_level.ancestor_id = matched_op.module_id then matched_op.call end as call,
        matched_op.module_id as part_id,
        matched_op.call as part_call,
        coalesce(pass_level.ancestor_id = model_given.parent_id and pass_level.parent_id is not null, false)
        and matched_op.module_id = min(matched_op.module_id) over (partition by pass_level.ancestor_id) as is_begin
    from matched_op
    inner join pass_level
        on
            matched_op.module_id = pass_level.module_id
            and matched_op.root_id is not distinct from pass_level.root_id
    inner join model_given on matched_op.module_id = model_given.module_id
),

-- The same rows, and whether a new run starts.
compared_level as (
    select
        *,
        coalesce(
            lag(position) over levels != position - 1
            or lag(module_id) over levels != module_id
            or (root_id is null and lag(call) over levels is distinct from call)
            or (is_begin and (lag(part_id) over levels != part_id or lag(part_call) over levels != part_call)),
            true
        ) as is_new
    from op_level
    window levels as (partition by pass_number, track_id, depth order by position)
),

-- The same rows, with the number of the module's stretch.
stretch_level as (
    select
        *,
        sum(is_new::integer) over (
            partition by pass_number, track_id, depth order by position rows unbounded preceding
        ) as stretch
    from compared_level
),

-- The same rows, and whether the op is the first own op of the module's next call. Calls are counted in order.
called_level as (
    select
        *,
        coalesce(
            call > max(call) over (
                partition by pass_number, track_id, depth, stretch
                order by position rows between unbounded preceding and 1 preceding
            ),
            false
        ) as is_next_call
    from stretch_level
),

-- The same rows, with the number of the run.
numbered_level as (
    select
        *,
        sum((is_new or is_next_call)::integer) over (
            partition by pass_number, track_id, depth order by position rows unbounded preceding
        ) as run
    from called_level
),

-- Runs of ops of one module.
module_run as (
    select
        pass_number,
        track_id,
        depth,
        run,
        any_value(module_id) as module_id,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        arg_min(op_depth, position) as op_depth,
        avg(confidence_pct) as confidence_pct,
        min(position) as first_position
    from numbered_level
    group by pass_number, track_id, depth, run
),

-- Runs. A run of the whole model is extended to the compiled code at its start and end.
widened_run as (
    select
        module_run.* replace (
            case when first_region.end_ns > module_run.start_ns then first_region.start_ns else module_run.start_ns end
                as start_ns,
            case
                when last_region.end_ns > module_run.end_ns then last_region.end_ns
                else module_run.end_ns
            end as end_ns,
            case
                when first_region.end_ns > module_run.start_ns then least(module_run.op_depth, first_region.depth)
                else module_run.op_depth
            end as op_depth
        )
    from (
        select
            *,
            depth = 0 and count(*) filter (where depth = 0) over (partition by pass_number) = 1 as is_model
        from module_run
    ) as module_run
    asof left join compiled_region as first_region
        on
            module_run.is_model
            and module_run.track_id = first_region.track_id
            and module_run.start_ns >= first_region.start_ns
    asof left join compiled_region as last_region
        on
            module_run.is_model
            and module_run.track_id = last_region.track_id
            and module_run.end_ns > last_region.start_ns
),

-- Runs with negative ids.
numbered_run as (
    select
        *,
        -row_number() over (order by track_id, start_ns, depth, pass_number, run) as event_id
    from widened_run
)

select
    inside.event_id,
    inside.track_id,
    inside.module_id::varchar as module_key,
    inside.start_ns,
    inside.end_ns,
    inside.depth,
    inside.op_depth - 1 + (inside.depth + 1) / 1000 as tree_depth,
    'alignment' as evidence,
    inside.confidence_pct,
    inside.pass_number,
    container.event_id as parent_call_id,
    container.module_id::varchar as parent_key
from numbered_run as inside
asof left join numbered_run as container
    on
        inside.pass_number = container.pass_number
        and inside.track_id = container.track_id
        and inside.depth = container.depth + 1
        and inside.first_position >= container.first_position
order by inside.event_id
