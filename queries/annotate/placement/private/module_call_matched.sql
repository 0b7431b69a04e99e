-- Calls of modules, where the model was matched to the ops: runs of ops of one module, at each level of the model.
--
-- A run at one level ends where an op of another module was matched, so what lies between two ops of one module counts
-- to it. It ends, too, where the first of the modules that stand right in it is called again: the loop may be in it or
-- around it, and what lies between its last op and the next call is surely in the module around. The outermost modules
-- run once in a pass. Calls have no event of their own, and negative ids. Of compiled code in which the model begins or
-- ends, all is the model's, unless the list of its modules has several that are the outermost.
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

matched as (
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

level as (
    select
        matched.pass_number,
        matched.track_id,
        matched.position,
        matched.start_ns,
        matched.end_ns,
        matched.op_depth,
        matched.confidence_pct,
        ancestor.depth,
        ancestor.ancestor_id as module_id,
        case when ancestor.ancestor_id = matched.module_id then matched.call else -1 end as call,
        matched.module_id as part_id,
        matched.call as part_call,
        coalesce(ancestor.ancestor_id = model_given.parent_id and ancestor.parent_id is not null, false)
        and matched.module_id = min(matched.module_id) over (partition by ancestor.ancestor_id) as is_begin
    from matched
    inner join ancestor on matched.module_id = ancestor.module_id
    inner join model_given on matched.module_id = model_given.module_id
),

broken as (
    select
        *,
        coalesce(
            lag(position) over levels != position - 1
            or lag(module_id) over levels != module_id
            or lag(call) over levels != call
            or (is_begin and (lag(part_id) over levels != part_id or lag(part_call) over levels != part_call)),
            true
        ) as is_new
    from level
    window levels as (partition by pass_number, track_id, depth order by position)
),

numbered as (
    select
        *,
        sum(is_new::integer) over (
            partition by pass_number, track_id, depth order by position rows unbounded preceding
        ) as run
    from broken
),

called as (
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
    from numbered
    group by pass_number, track_id, depth, run
),

whole as (
    select
        called.* replace (
            case when first_region.end_ns > called.start_ns then first_region.start_ns else called.start_ns end
                as start_ns,
            case when last_region.end_ns > called.end_ns then last_region.end_ns else called.end_ns end as end_ns,
            case
                when first_region.end_ns > called.start_ns then least(called.op_depth, first_region.depth)
                else called.op_depth
            end as op_depth
        )
    from (
        select
            *,
            depth = 0 and count(*) filter (where depth = 0) over (partition by pass_number) = 1 as is_model
        from called
    ) as called
    asof left join compiled_region as first_region
        on called.is_model and called.track_id = first_region.track_id and called.start_ns >= first_region.start_ns
    asof left join compiled_region as last_region
        on called.is_model and called.track_id = last_region.track_id and called.end_ns > last_region.start_ns
),

identified as (
    select
        *,
        -row_number() over (order by track_id, start_ns, depth, pass_number, run) as event_id
    from whole
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
from identified as inside
asof left join identified as container
    on
        inside.pass_number = container.pass_number
        and inside.track_id = container.track_id
        and inside.depth = container.depth + 1
        and inside.first_position >= container.first_position
order by inside.event_id
