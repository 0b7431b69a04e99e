-- Starts and ends of events that show a phase or a bucket (markers): what `marker_segment` is made of.
--
-- As in `nesting`, the running sum is taken over the rows in the order of the inner query; it is 0 again where the next
-- thread begins.
--
-- :reads phase_name, nesting, node
-- :only_with phase_name
-- :column family VARCHAR     strong, weak, aside or bucket: how the name tells, see `name_class`
-- :column label VARCHAR      the phase that it shows; of a bucket, its name
-- :column event_id BIGINT    the event; of a model placed on the ops, the negative id of its first call in the pass
-- :column track_id BIGINT    its thread
-- :column start_ns BIGINT    start; of an annotation, that of the tensor that `record_function` makes for it right
--                            before, if any
-- :column end_ns BIGINT      end
-- :column tree_depth DOUBLE  number of events around it on its thread; has a fraction for calls of a model placed on
--                            the ops
-- :column evidence VARCHAR   what shows the label: annotation, profiler, autograd, python, op_name or alignment; NULL
--                            for a name that only tells a bucket
-- :column at_ns BIGINT       time of this row: the start of the marker or its end
-- :column opens INTEGER      1 where the marker starts, 0 where it ends
-- :column in_order DOUBLE    order of rows of one time and `opens`: `tree_depth` at starts, so that outer ones start
--                            first; its negative at ends, so that inner ones end first
-- :column change INTEGER     what the row does to the number of open markers: 1 at a start, -1 at an end
-- :column depth HUGEINT      markers of its family that are open on its thread right before this row; at an end, the
--                            marker itself is one
-- :column next_ns BIGINT     time of the next row of the same family and thread; NULL for the last one
with telling_start as (
    -- where something other than an aside tells a phase
    select
        track_id,
        start_ns
    from phase_name
    where strong_phase is not null or weak_phase is not null
    union all
    select
        nesting.track_id,
        nesting.start_ns
    from node
    inner join nesting on node.forward_id = nesting.event_id
),

-- Asides in which something else tells a phase.
told_aside as (
    select phase_name.event_id
    from phase_name
    asof inner join telling_start
        on phase_name.track_id = telling_start.track_id and phase_name.start_ns <= telling_start.start_ns
    where phase_name.aside_phase is not null and telling_start.start_ns < phase_name.end_ns
),

marker as (
    select
        'strong' as family,
        strong_phase as label,
        event_id,
        track_id,
        start_ns,
        end_ns,
        tree_depth,
        evidence
    from phase_name
    where strong_phase is not null
    union all
    select
        'weak' as family,
        weak_phase as label,
        event_id,
        track_id,
        start_ns,
        end_ns,
        tree_depth,
        evidence
    from phase_name
    where weak_phase is not null
    union all
    select
        'aside' as family,
        aside_phase as label,
        event_id,
        track_id,
        start_ns,
        end_ns,
        tree_depth,
        evidence
    from phase_name
    where
        aside_phase is not null
        and event_id not in (select event_id from told_aside)
        and (
            aside_phase != 'forward'
            or not exists (select 1 from node)
            and not exists (
                select 1 from phase_name as other
                where 'optimizer' in (other.strong_phase, other.weak_phase)
            )
        )
    union all
    select
        'bucket' as family,
        bucket as label,
        event_id,
        track_id,
        start_ns,
        end_ns,
        tree_depth,
        evidence
    from phase_name
    where bucket is not null
),

edge as (
    select
        *,
        start_ns as at_ns,
        1 as opens,
        tree_depth as in_order,
        1 as change
    from marker
    union all
    select
        *,
        end_ns as at_ns,
        0,
        -tree_depth,
        -1
    from marker
),

in_order as (
    select * from edge
    order by family, track_id, at_ns, opens, in_order
)

select
    *,
    sum(change) over so_far - change as depth,
    case
        when lead(family) over () = family and lead(track_id) over () = track_id then lead(at_ns) over ()
    end as next_ns
from in_order
window so_far as (rows unbounded preceding) -- noqa: PRS
