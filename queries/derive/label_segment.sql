-- Each thread's time cut where its phase, its module or its bucket changes, so that one look-up labels an event.
--
-- Every layer's borders go into one list; at each border the last word of each layer counts.
--
-- :reads phase_span, module_segment, marker_segment
with border as (
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        {'phase': phase} as phase,
        null::struct(module_id bigint, pass varchar, evidence varchar, node_id bigint) as module,
        null::struct(bucket varchar) as bucket
    from phase_span
    union all
    select
        track_id,
        end_ns,
        0,
        {'phase': null},
        null,
        null
    from phase_span
    union all
    select
        track_id,
        start_ns,
        1,
        null,
        {
            'module_id': module_id,
            'pass': pass,
            'evidence': evidence,
            'node_id': case when is_node then active_id end
        },
        null
    from module_segment
    union all
    select
        track_id,
        end_ns,
        0,
        null,
        {'module_id': null, 'pass': null, 'evidence': null, 'node_id': null},
        null
    from module_segment
    union all
    select
        track_id,
        start_ns,
        1,
        null,
        null,
        {'bucket': label}
    from marker_segment
    where family = 'bucket'
    union all
    select
        track_id,
        end_ns,
        0,
        null,
        null,
        {'bucket': null}
    from marker_segment
    where family = 'bucket'
),

held as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        last_value(phase ignore nulls) over in_order as phase,
        last_value(module ignore nulls) over in_order as module,
        last_value(bucket ignore nulls) over in_order as bucket
    from border
    window in_order as (partition by track_id order by at_ns, opens rows between unbounded preceding and current row)
)

select
    track_id,
    start_ns,
    phase.phase,
    module.module_id,
    module.pass,
    module.evidence,
    module.node_id,
    bucket.bucket
from held
where end_ns > start_ns or end_ns is null
