-- The two ends of each block, allocation and release, with the labels of each.
--
-- :reads block, label_segment, engine_call, engine_segment, allocating_op
-- :column block_id BIGINT        the block
-- :column is_release BOOLEAN     true for the release; false for the allocation
-- :column step STEP              NULL outside every step
-- :column phase PHASE            NULL if unknown
-- :column module_id BIGINT       the innermost module (see `model_op`); NULL if unknown
-- :column pass VARCHAR           forward, backward or recompute; NULL if the module is unknown
-- :column node_id BIGINT         the innermost engine call; NULL outside of engine calls
-- :column op_id BIGINT           the enclosing op of `allocating_op`; NULL if absent
with block_end as (
    select
        block_id,
        false as is_release,
        allocated_on as track_id,
        allocated_ns as at_ns
    from block
    where allocated_id is not null
    union all
    select
        block_id,
        true,
        released_on,
        gone_ns
    from block
    where released_id is not null
),

labelled_end as (
    select
        block_end.*,
        label_segment.step,
        label_segment.phase,
        label_segment.module_id,
        label_segment.pass
    from block_end
    asof left join label_segment
        on block_end.track_id = label_segment.track_id and block_end.at_ns >= label_segment.start_ns
),

end_in_engine as (
    select
        labelled_end.*,
        engine_segment.call_id as node_id
    from labelled_end
    asof left join engine_segment
        on labelled_end.track_id = engine_segment.track_id and labelled_end.at_ns >= engine_segment.start_ns
)

select
    end_in_engine.* exclude (track_id, at_ns),
    -- An op that runs the engine is around the engine call, not inside.
    case
        when
            end_in_engine.at_ns < allocating_op.end_ns
            and (engine_call.start_ns is null or allocating_op.start_ns >= engine_call.start_ns)
            then allocating_op.event_id
    end as op_id
from end_in_engine
left join engine_call on end_in_engine.node_id = engine_call.event_id
asof left join allocating_op
    on end_in_engine.track_id = allocating_op.track_id and end_in_engine.at_ns >= allocating_op.start_ns
