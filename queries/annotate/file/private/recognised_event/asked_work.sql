-- Ops and the device work they requested, from torch_npu's arrows. An op and its work get the same number.
--
-- An arrow starts in an op and ends at the start of the work. The calls that launch the work may be on another thread.
--
-- :reads event, flow
-- :column event_id BIGINT     op or work
-- :column external_id BIGINT  number shared by an op and its work
with arrow_start as (
    select
        flow_id,
        arg_min({'track_id': track_id, 'start_ns': start_ns}, event_id) as place
    from flow
    where kind = 'async_npu' and ph = 's'
    group by flow_id
),

arrow as (
    select
        flow.track_id,
        flow.start_ns,
        arrow_start.place.track_id as op_track_id,
        arrow_start.place.start_ns as asked_ns
    from flow
    inner join arrow_start on flow.flow_id = arrow_start.flow_id
    where flow.kind = 'async_npu' and flow.ph = 'f'
),

-- The innermost op among ops with equal start.
op as (
    select
        track_id,
        start_ns,
        min(end_ns) as end_ns,
        arg_min(event_id, (end_ns, -event_id)) as event_id
    from event
    where category = 'cpu_op' and end_ns is not null and track_id in (select op_track_id from arrow)
    group by track_id, start_ns
),

-- Starts of work, with the requesting op: the last op to start before the arrow, if still running.
requested_work as (
    select
        arrow.track_id,
        arrow.start_ns,
        min(op.event_id) as op_id
    from arrow
    asof inner join op on arrow.op_track_id = op.track_id and arrow.asked_ns >= op.start_ns
    where op.end_ns > arrow.asked_ns
    group by arrow.track_id, arrow.start_ns
)

select
    event.event_id,
    requested_work.op_id + 1 as external_id
from event
inner join requested_work on event.track_id = requested_work.track_id and event.start_ns = requested_work.start_ns
where event.ph = 'X'
union
select
    op_id,
    op_id + 1
from requested_work
