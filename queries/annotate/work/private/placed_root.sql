-- Outermost forward ops whose module call ran the same ops as when learned, with the learned op of each.
--
-- An unmatched op between two ops of a call may belong to the call. The call then counts as different.
--
-- :reads module_match, forward_item, given_op
-- :column event_id BIGINT   the op
-- :column track_id BIGINT   thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column depth BIGINT      number of enclosing events on the thread
-- :column op_number BIGINT  the learned op
-- :column tree_id BIGINT    the learned tree of inner calls; NULL if not observed
with numbered_item as (
    -- Outermost ops, numbered in order of time on the thread.
    select
        *,
        row_number() over (partition by track_id order by start_ns, depth, event_id) as number
    from forward_item
),

-- Ops of each module call, in order, with the number of unmatched ops before each on the thread.
placed_op as (
    select
        numbered_item.*,
        module_match.pass_number,
        module_match.module_id,
        module_match.call,
        row_number() over (
            partition by module_match.pass_number, module_match.module_id, module_match.call
            order by numbered_item.start_ns, numbered_item.depth, numbered_item.event_id
        ) as place,
        numbered_item.number
        - dense_rank() over (partition by numbered_item.track_id order by numbered_item.number) as unplaced_count
    from numbered_item
    inner join module_match on numbered_item.event_id = module_match.event_id
    where module_match.module_id is not null
),

learned_op as (
    select
        *,
        count(*) over (partition by module_id, call) as op_count
    from given_op
),

-- The same ops, with the op learned at the same position of the call.
compared_op as (
    select
        placed_op.*,
        learned_op.op_number,
        learned_op.tree_id,
        learned_op.op_count = count(*) over of_call
        and count(learned_op.op_number) over of_call = count(*) over of_call
        and min(placed_op.unplaced_count) over of_call = max(placed_op.unplaced_count) over of_call as is_same
    from placed_op
    left join learned_op
        on
            placed_op.module_id = learned_op.module_id
            and placed_op.call = learned_op.call
            and placed_op.place = learned_op.place
            and placed_op.name = learned_op.name
    window of_call as (partition by placed_op.pass_number, placed_op.module_id, placed_op.call)
)

select
    event_id,
    track_id,
    start_ns,
    end_ns,
    depth,
    op_number,
    tree_id
from compared_op
where is_same
