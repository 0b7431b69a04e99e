-- Each thread's time cut where its step, phase, module or bucket changes, so that one look-up labels an event.
--
-- Every layer's borders go into one list; at each border the last word of each layer counts.
--
-- :reads phase_span, module_segment, marker_segment, step, nesting
with host_track as (
    select distinct track_id
    from nesting
),

border as (
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        {'phase': phase} as phase,
        null::struct(module_id bigint, pass varchar, evidence varchar, node_id bigint) as module,
        null::struct(bucket varchar) as bucket,
        null::struct(step bigint) as step
    from phase_span
    union all
    select
        track_id,
        end_ns,
        0,
        {'phase': null},
        null,
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
        null,
        null
    from module_segment
    union all
    select
        track_id,
        end_ns,
        0,
        null,
        {'module_id': null, 'pass': null, 'evidence': null, 'node_id': null},
        null,
        null
    from module_segment
    union all
    select
        track_id,
        start_ns,
        1,
        null,
        null,
        {'bucket': label},
        null
    from marker_segment
    where family = 'bucket'
    union all
    select
        track_id,
        end_ns,
        0,
        null,
        null,
        {'bucket': null},
        null
    from marker_segment
    where family = 'bucket'
    union all
    select
        host_track.track_id,
        step.start_ns,
        1,
        null,
        null,
        null,
        {'step': step.step}
    from step
    cross join host_track
    union all
    select
        host_track.track_id,
        step.end_ns,
        0,
        null,
        null,
        null,
        {'step': null}
    from step
    cross join host_track
),

held as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        last_value(phase ignore nulls) over in_order as phase,
        last_value(module ignore nulls) over in_order as module,
        last_value(bucket ignore nulls) over in_order as bucket,
        last_value(step ignore nulls) over in_order as step
    from border
    window in_order as (partition by track_id order by at_ns, opens rows between unbounded preceding and current row)
)

select
    track_id,
    start_ns,
    end_ns,
    step.step,
    phase.phase,
    module.module_id,
    module.pass,
    module.evidence,
    module.node_id,
    bucket.bucket
from held
where end_ns > start_ns or end_ns is null
