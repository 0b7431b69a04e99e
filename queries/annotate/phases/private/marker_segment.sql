-- Each thread's time, cut at the starts and ends of markers of one family, with the innermost marker of each piece.
--
-- :reads marker
-- :only_with marker
-- :column family VARCHAR    strong, weak, aside or bucket, as in `marker`
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start of the piece
-- :column end_ns BIGINT     end of the piece
-- :column event_id BIGINT   event of the innermost marker, as in `marker`
-- :column label VARCHAR     phase of the marker, or name of the bucket
-- :column evidence VARCHAR  source of the label, as in `marker`; NULL for a name that shows only a bucket
with marker_start as (
    -- Markers, with the number of enclosing markers of the family.
    select
        family,
        track_id,
        event_id,
        label,
        evidence,
        start_ns,
        depth,
        depth + 1 as inner_depth
    from marker
    where opens = 1
),

-- Markers, with the innermost enclosing marker of the family.
marker_around as (
    select
        inside.family,
        inside.event_id,
        container.event_id as container_id,
        container.label,
        container.evidence
    from marker_start as inside
    asof inner join marker_start as container
        on
            inside.family = container.family
            and inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
),

-- Time between two edges of a family and thread, with the innermost marker.
piece as (
    select
        marker.family,
        marker.track_id,
        marker.at_ns as start_ns,
        marker.next_ns as end_ns,
        case when marker.opens = 1 then marker.event_id else marker_around.container_id end as event_id,
        case when marker.opens = 1 then marker.label else marker_around.label end as label,
        case when marker.opens = 1 then marker.evidence else marker_around.evidence end as evidence
    from marker
    left join marker_around
        on marker.family = marker_around.family and marker.event_id = marker_around.event_id and marker.opens = 0
)

select *
from piece
where label is not null and end_ns > start_ns
order by family, track_id, start_ns
