-- Calls in the forward ops that were learned, where all in the op have the names that were learned.
--
-- :reads placed_root, nesting, event, given_call
-- :column event_id BIGINT     the call
-- :column op_number BIGINT    the op that was learned
-- :column place BIGINT        place of the call in the op, from 0
-- :column argument_id BIGINT  what it was given; NULL where that was not observed
with op as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.depth,
        event.name
    from nesting
    inner join event on nesting.event_id = event.event_id
    where event.category = 'cpu_op'
),

-- Ops in a learned op, numbered from 0.
inner_op as (
    select
        op.event_id,
        op.name,
        root.event_id as root_id,
        root.op_number,
        root.tree_id,
        row_number() over (partition by root.event_id order by op.start_ns, op.depth, op.event_id) - 1 as place
    from op
    asof inner join placed_root as root on op.track_id = root.track_id and op.start_ns >= root.start_ns
    where op.start_ns < root.end_ns and (op.depth > root.depth or op.event_id = root.event_id)
),

compared_op as (
    select
        inner_op.event_id,
        inner_op.op_number,
        inner_op.place,
        given_call.argument_id,
        count(given_call.tree_id) over of_root = count(*) over of_root
        and max(given_call.call_count) over of_root = count(*) over of_root as is_same
    from inner_op
    left join given_call
        on
            inner_op.tree_id = given_call.tree_id
            and inner_op.place = given_call.place
            and inner_op.name = given_call.name
    window of_root as (partition by inner_op.root_id)
)

select
    event_id,
    op_number,
    place,
    argument_id
from compared_op
where is_same
