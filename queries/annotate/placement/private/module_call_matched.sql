-- Calls of modules, where the model was matched to the ops: runs of ops of one module, at each level of the model.
--
-- A run at one level ends where an op of another module was matched, so ops between two ops of one module belong to it.
-- A run also ends where the first child of its module is called again: the loop may be in the module or around it, and
-- the ops between its last op and the next call surely belong to the module around it. The outermost modules run once
-- in a pass. Calls have no event of their own, and negative ids. A model that begins or ends in compiled code has all
-- of that code, unless its list has several outermost modules.
--
-- :reads module_match, model_given, forward_item, compiled_region
-- :writes module_call
-- :column event_id BIGINT        a number below 0, as no event stands for the call
-- :column track_id BIGINT        thread of its ops
-- :column module_key VARCHAR     `model_op.module_id` as text
-- :column start_ns BIGINT        start of its first op; of the outermost module, of the compiled code that the first op
--                                stands in
-- :column end_ns BIGINT          end of its last op; of the outermost module, of the compiled code that the last op
--                                stands in
-- :column depth BIGINT           number of modules around it
-- :column tree_depth DOUBLE      number of events around its first op, less 1, and a fraction that grows with `depth`:
--                                calls lie around the op and in what is around that
-- :column evidence VARCHAR       always alignment
-- :column confidence_pct DOUBLE  mean confidence of its ops: 100 is sure, lower where another place is as good
-- :column pass_number BIGINT     number of the pass of the model, or of what a checkpoint computes again, that it is a
--                                part of, from 0
-- :column parent_call_id BIGINT  the call around it; NULL for an outermost one
-- :column parent_key VARCHAR     `module_key` of the call around it; NULL for an outermost one
with recursive ancestor as (
    -- Each module with itself and every module around it.
    select
        model_given.module_id,
        model_given.module_id as ancestor_id,
        model_given.parent_id,
        model_given.depth
    from model_given
    union all
    select
        ancestor.module_id,
        model_given.module_id as ancestor_id,
        model_given.parent_id,
        model_given.depth
    from ancestor
    inner join model_given on ancestor.parent_id = model_given.module_id
),

-- Matched ops, numbered in order of time within their pass and thread.
matched_op as (
    select
        forward_item.event_id,
        forward_item.track_id,
        forward_item.start_ns,
        forward_item.end_ns,
        forward_item.depth as op_depth,
        module_match.pass_number,
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

-- Each matched op at each level of the model, with the module around it at that level.
op_level as (
    select
        matched_op.pass_number,
        matched_op.track_id,
        matched_op.position,
        matched_op.start_ns,
        matched_op.end_ns,
        matched_op.op_depth,
        matched_op.confidence_pct,
        ancestor.depth,
        ancestor.ancestor_id as module_id,
        case when ancestor.ancestor_id = matched_op.module_id then matched_op.call else -1 end as call,
        matched_op.module_id as part_id,
        matched_op.call as part_call,
        coalesce(ancestor.ancestor_id = model_given.parent_id and ancestor.parent_id is not null, false)
        and matched_op.module_id = min(matched_op.module_id) over (partition by ancestor.ancestor_id) as is_begin
    from matched_op
    inner join ancestor on matched_op.module_id = ancestor.module_id
    inner join model_given on matched_op.module_id = model_given.module_id
),

-- The same, and whether a new run starts there.
compared_level as (
    select
        *,
        coalesce(
            lag(position) over levels != position - 1
            or lag(module_id) over levels != module_id
            or lag(call) over levels != call
            or (is_begin and (lag(part_id) over levels != part_id or lag(part_call) over levels != part_call)),
            true
        ) as is_new
    from op_level
    window levels as (partition by pass_number, track_id, depth order by position)
),

-- The same, with the number of the run.
numbered_level as (
    select
        *,
        sum(is_new::integer) over (
            partition by pass_number, track_id, depth order by position rows unbounded preceding
        ) as run
    from compared_level
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

-- Runs, those of the model widened by the compiled code that they begin or end in.
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

-- Runs with their negative ids.
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
