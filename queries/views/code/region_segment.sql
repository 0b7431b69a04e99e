-- Each CPU thread's time, cut where its region changes: the next best thing where no module is known.
--
-- Each CPU thread's time, cut where the region changes: the innermost annotation of the user, else the outermost op.
--
-- Without `nn.Module` frames a region is the next best thing to a module: `## forward:over_arch ##`, or the autograd
-- node on a thread of its own. Annotations that mark steps or collective calls are no regions.
--
-- :reads nesting, event, step
-- :column rank BIGINT      process rank
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
-- :column region VARCHAR   innermost annotation of the user (steps and collective calls aside), else the outermost op
-- :column event_id BIGINT  the annotation or op
with annotation as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth as tree_depth,
        event.name as region
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where
        event.category = 'user_annotation'
        and not regexp_matches(event.name, '^(nccl|gloo|mpi|ucc|xccl|hccl):')
        and (event.rank, event.event_id) not in (
            select (step.rank, step.event_id) from step
            where step.event_id is not null
        )
        and nesting.end_ns > nesting.start_ns
),

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

open_at as (
    select
        *,
        sum(change) over (
            partition by rank, track_id order by at_ns, opens, in_order rows unbounded preceding
        ) - change as depth
    from edge
),

started as (
    select
        *,
        depth + 1 as inner_depth
    from open_at
    where opens = 1
),

around as (
    select
        inside.rank,
        inside.event_id,
        container.event_id as container_id,
        container.region as container_region
    from started as inside
    asof left join started as container
        on
            inside.rank = container.rank
            and inside.track_id = container.track_id
            and inside.depth = container.inner_depth
            and inside.start_ns >= container.start_ns
),

outer_op as (
    select
        nesting.rank,
        nesting.track_id,
        nesting.event_id,
        nesting.start_ns,
        nesting.end_ns,
        regexp_replace(event.name, '^autograd::engine::evaluate_function: ', '') as region
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    left join nesting as parent
        on nesting.rank = parent.rank and nesting.parent_id = parent.event_id and parent.op_id is null
    where
        nesting.op_id = nesting.event_id
        and (nesting.parent_id is null or parent.event_id is not null)
        and nesting.end_ns > nesting.start_ns
        and event.name is not null
),

-- Edges with their labels numbered by time, so that max() over the rows so far is the current one of a layer.
annotated as (
    select
        edge.rank,
        edge.track_id,
        edge.at_ns,
        case when edge.opens = 1 then edge.region else around.container_region end as region,
        case when edge.opens = 1 then edge.event_id else around.container_id end as event_id,
        row_number() over (order by edge.rank, edge.track_id, edge.at_ns, edge.opens, edge.in_order) as word
    from edge
    left join around on edge.rank = around.rank and edge.event_id = around.event_id
),

numbered_op as (
    select
        *,
        row_number() over (order by rank, track_id, start_ns) as word
    from outer_op
),

border as (
    select
        rank,
        track_id,
        at_ns,
        word as annotation_word,
        null::bigint as op_word
    from annotated
    union all
    select
        rank,
        track_id,
        unnest([start_ns, end_ns]),
        null,
        word
    from numbered_op
),

-- Of several borders at one time, the last one sees the words of all.
held as (
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
    held.rank,
    held.track_id,
    held.start_ns,
    held.end_ns,
    coalesce(annotated.region, around_op.region) as region,
    coalesce(annotated.event_id, around_op.event_id) as event_id
from held
left join annotated on held.annotation_word = annotated.word
left join numbered_op as around_op on held.op_word = around_op.word and held.start_ns < around_op.end_ns
where held.end_ns > held.start_ns and coalesce(annotated.region, around_op.region) is not null
