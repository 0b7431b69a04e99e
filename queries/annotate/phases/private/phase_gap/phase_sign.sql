-- Signs in the gaps of `main_piece`: events of the main thread that help to find the gap's phase.
--
-- An op with a backward node is a sign (`differentiable`), once per node. An event is also a sign if its name has a
-- `sign` in `name_class`, except copies (`weight_copy`).
--
-- :reads main_piece, main_track, node, nesting, cpu_span, event, name_class
-- :column piece_ns BIGINT   start of the gap
-- :column start_ns BIGINT   start of the event
-- :column end_ns BIGINT     end of the event
-- :column kind VARCHAR      differentiable, or as in `name_class`: layer, activation, output, read, update, list,
--                           rescale, fetch, draw, create or write
-- :column class_id BIGINT   the name, as in `name_class`; NULL for `differentiable`
-- :column parent_id BIGINT  the enclosing event; NULL if absent, and for all kinds except `differentiable`
with sign as (
    select
        nesting.start_ns,
        nesting.end_ns,
        'differentiable' as kind,
        null as class_id,
        nesting.parent_id,
        null as event_id
    from node
    inner join nesting on node.forward_id = nesting.event_id
    where nesting.track_id in (select track_id from main_track)
    union all
    select
        cpu_span.start_ns,
        cpu_span.end_ns,
        name_class.sign,
        cpu_span.class_id,
        null,
        cpu_span.event_id
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    where name_class.sign != 'copy' and cpu_span.track_id in (select track_id from main_track)
),

-- An ASOF join, because a join by ranges alone compares each piece with each op.
sign_in_gap as (
    select
        sign.*,
        main_piece.start_ns as piece_ns
    from sign
    asof inner join main_piece on sign.start_ns >= main_piece.start_ns
    where sign.start_ns < main_piece.end_ns and main_piece.label is null
),

-- Signs inside other ops. Many ops create, update or read back a tensor internally, which is not a sign.
part_of_op as (
    select sign_in_gap.event_id
    from sign_in_gap
    inner join nesting on sign_in_gap.event_id = nesting.event_id
    inner join nesting as around on nesting.parent_id = around.event_id
    inner join event on around.op_id = event.event_id
    where
        sign_in_gap.kind in ('update', 'list', 'read', 'fetch', 'draw', 'create')
        and contains(event.name, '::')
)

select
    piece_ns,
    start_ns,
    end_ns,
    kind,
    class_id,
    parent_id
from sign_in_gap
where event_id is null or event_id not in (select event_id from part_of_op)
