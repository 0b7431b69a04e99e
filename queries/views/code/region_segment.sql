-- Time of each CPU thread, cut at each change of its region: a fallback for events without a known module.
--
-- The region is the innermost annotation of the user, else the outermost op. Without `nn.Module` frames, a region is
-- the best substitute for a module: `## forward:over_arch ##`, or the autograd node on a thread of its own. Annotations
-- of steps and collective calls are not regions.
--
-- :reads nesting, cpu_event, step
-- :column rank RANK
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
-- :column region VARCHAR   innermost annotation of the user (except steps and collective calls), else the outermost op
-- :column event_id BIGINT  the annotation or op

-- one row per annotation of the user
with annotation as (
    select
        cpu_event.rank,
        cpu_event.track_id,
        cpu_event.event_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.depth as tree_depth,
        cpu_event.name as region
    from cpu_event
    where
        cpu_event.category = 'user_annotation'
        and not is_collective_mark(cpu_event.name)
        and (cpu_event.rank, cpu_event.event_id) not in (
            select (step.rank, step.event_id) from step
            where step.event_id is not null
        )
        and cpu_event.end_ns > cpu_event.start_ns
),

-- one row per start or end of an annotation
edge as (
    select
        *,
        start_ns as at_ns,
        1 as opens,
        tree_depth as in_order,
        1 as change
    from annotation
    union all
    select
        *,
        end_ns,
        0,
        -tree_depth,
        -1
    from annotation
),

counted_edge as (
    select
        *,
        sum(change) over (
            partition by rank, track_id order by at_ns, opens, in_order rows unbounded preceding
        ) - change as depth
    from edge
),

annotation_start as (
    select
        *,
        depth + 1 as inner_depth
    from counted_edge
    where opens = 1
),

-- one row per annotation, with the annotation around it
annotation_around as (
    select
        inside.rank,
        inside.event_id,
        container.event_id as container_id,
        container.region as container_region
    from annotation_start as inside
    asof left join annotation_start as container
        on
            inside.rank = container.rank
            and inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
),

-- one row per outermost op
outer_op as (
    select
        cpu_event.rank,
        cpu_event.track_id,
        cpu_event.event_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        regexp_replace(cpu_event.name, '^autograd::engine::evaluate_function: ', '') as region
    from cpu_event
    left join nesting as parent
        on cpu_event.rank = parent.rank and cpu_event.parent_id = parent.event_id and parent.op_id is null
    where
        cpu_event.op_id = cpu_event.event_id
        and (cpu_event.parent_id is null or parent.event_id is not null)
        and cpu_event.end_ns > cpu_event.start_ns
        and cpu_event.name is not null
),

-- Edges numbered by time, so that max() over the previous rows is the current edge.
annotated_edge as (
    select
        edge.rank,
        edge.track_id,
        edge.at_ns,
        case when edge.opens = 1 then edge.region else annotation_around.container_region end as region,
        case when edge.opens = 1 then edge.event_id else annotation_around.container_id end as event_id,
        row_number() over (order by edge.rank, edge.track_id, edge.at_ns, edge.opens, edge.in_order) as word
    from edge
    left join annotation_around on edge.rank = annotation_around.rank and edge.event_id = annotation_around.event_id
),

numbered_op as (
    select
        *,
        row_number() over (order by rank, track_id, start_ns) as word
    from outer_op
),

-- one row per change of the annotation or of the outermost op
border as (
    select
        rank,
        track_id,
        at_ns,
        word as annotation_word,
        null::bigint as op_word
    from annotated_edge
    union all
    select
        rank,
        track_id,
        unnest([start_ns, end_ns]),
        null,
        word
    from numbered_op
),

-- Of several borders at one time, the last row has the current numbers.
piece as (
    select
        rank,
        track_id,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        max(annotation_word) over (in_order rows between unbounded preceding and current row) as annotation_word,
        max(op_word) over (in_order rows between unbounded preceding and current row) as op_word
    from border
    window in_order as (partition by rank, track_id order by at_ns)
)

select
    piece.rank,
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    coalesce(annotated_edge.region, around_op.region) as region,
    coalesce(annotated_edge.event_id, around_op.event_id) as event_id
from piece
left join annotated_edge on piece.annotation_word = annotated_edge.word
left join numbered_op as around_op on piece.op_word = around_op.word and piece.start_ns < around_op.end_ns
where piece.end_ns > piece.start_ns and coalesce(annotated_edge.region, around_op.region) is not null
