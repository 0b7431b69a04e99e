-- Starts and ends of markers, the events that show a phase or a bucket. Input of `marker_segment`.
--
-- As in `nesting`, the running sum follows the row order of the inner query, and is back at 0 where the next thread
-- begins.
--
-- :reads phase_name, nesting, node
-- :only_with phase_name
-- :column family VARCHAR     strong, weak, aside or bucket, as in `name_class`
-- :column label VARCHAR      the phase, or the name of the bucket
-- :column event_id BIGINT    the event; for a model aligned with the ops, the negative id of the pass's first call
-- :column track_id BIGINT    thread
-- :column start_ns BIGINT    start; for an annotation, the start of the tensor created by `record_function` right
--                            before, if any
-- :column end_ns BIGINT      end
-- :column tree_depth DOUBLE  number of enclosing events on the thread; fractional for calls of a model aligned with the
--                            ops
-- :column evidence VARCHAR   source of the label: annotation, profiler, autograd, python, op_name or alignment; NULL
--                            for a name that shows only a bucket
-- :column at_ns BIGINT       time of this row: start or end of the marker
-- :column opens INTEGER      1 for the start of the marker, 0 for the end
-- :column in_order DOUBLE    order of rows with equal time and `opens`: `tree_depth` for starts, which puts outer
--                            markers first; the negative for ends, which puts inner markers first
-- :column change INTEGER     change of the number of open markers: 1 for a start, -1 for an end
-- :column depth HUGEINT      open markers of the family on the thread right before this row; for an end, including the
--                            marker itself
-- :column next_ns BIGINT     time of the next row of the family and thread; NULL for the last row
with evidence_start as (
    -- Starts of strong and weak phases and of forward ops with a node: phases shown by other evidence than asides.
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

-- Asides with a phase shown by other evidence inside.
overruled_aside as (
    select phase_name.event_id
    from phase_name
    asof inner join evidence_start
        on phase_name.track_id = evidence_start.track_id and phase_name.start_ns <= evidence_start.start_ns
    where phase_name.aside_phase is not null and evidence_start.start_ns < phase_name.end_ns
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
        and event_id not in (select event_id from overruled_aside)
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

ordered_edge as (
    select * from edge
    order by family, track_id, at_ns, opens, in_order
)

select
    *,
    sum(change) over so_far - change as depth,
    case
        when lead(family) over () = family and lead(track_id) over () = track_id then lead(at_ns) over ()
    end as next_ns
from ordered_edge
window so_far as (rows unbounded preceding) -- noqa: PRS
