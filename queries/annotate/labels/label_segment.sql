-- Each CPU thread's time, cut where the step, phase, module or bucket changes. Segments never overlap.
--
-- The borders of all layers (steps, phases, modules and buckets) cut the time into pieces. In each layer, the last span
-- started at or before a piece labels the piece, unless the span has ended.
--
-- :reads phase_span, module_segment, marker_segment, step, nesting
-- :column track_id BIGINT   the thread
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end; NULL for the last segment of a thread
-- :column step STEP         NULL outside every step
-- :column phase PHASE       of the step; NULL if unknown
-- :column module_id BIGINT  the innermost module (see `model_op`); NULL if unknown
-- :column pass VARCHAR      forward, backward or recompute; NULL if the module is unknown
with host_track as (
    select distinct track_id
    from nesting
),

-- Steps on each CPU thread.
step_span as (
    select
        host_track.track_id,
        step.start_ns,
        step.end_ns,
        step.step
    from step
    cross join host_track
),

bucket_span as (
    select
        track_id,
        start_ns,
        end_ns,
        label as bucket
    from marker_segment
    where family = 'bucket'
),

-- Times at which any layer changes.
border as (
    select
        track_id,
        start_ns as at_ns
    from phase_span
    union
    select
        track_id,
        end_ns
    from phase_span
    union
    select
        track_id,
        start_ns
    from module_segment
    union
    select
        track_id,
        end_ns
    from module_segment
    union
    select
        track_id,
        start_ns
    from bucket_span
    union
    select
        track_id,
        end_ns
    from bucket_span
    union
    select
        track_id,
        start_ns
    from step_span
    union
    select
        track_id,
        end_ns
    from step_span
),

-- Time between two borders of a thread.
piece as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over (partition by track_id order by at_ns) as end_ns
    from border
)

select
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    case when piece.start_ns < step_span.end_ns then step_span.step end as step,
    case when piece.start_ns < phase_span.end_ns then phase_span.phase end as phase,
    case when piece.start_ns < module_segment.end_ns then module_segment.module_id end as module_id,
    case when piece.start_ns < module_segment.end_ns then module_segment.pass end as pass,
    case when piece.start_ns < module_segment.end_ns then module_segment.evidence end as evidence,
    case
        when piece.start_ns < module_segment.end_ns and module_segment.is_node then module_segment.active_id
    end as node_id,
    case when piece.start_ns < bucket_span.end_ns then bucket_span.bucket end as bucket
from piece
asof left join step_span
    on piece.track_id = step_span.track_id and piece.start_ns >= step_span.start_ns
asof left join phase_span
    on piece.track_id = phase_span.track_id and piece.start_ns >= phase_span.start_ns
asof left join module_segment
    on piece.track_id = module_segment.track_id and piece.start_ns >= module_segment.start_ns
asof left join bucket_span
    on piece.track_id = bucket_span.track_id and piece.start_ns >= bucket_span.start_ns
