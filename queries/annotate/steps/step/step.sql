-- Training steps, or one step for the whole trace.
--
-- Steps come from PyTorch's `ProfilerStep#n`, else from the user's own step annotations, else from the marks PyTorch
-- leaves in every training loop. The single step of a trace may be divided later by repetition (`annotate/steps.py`).
-- The loop shows in `Optimizer.step#…`, the end of one step and the start of the next. Several optimizers after one
-- backward pass (one for the embeddings, one for the rest) end one step together. If there is no optimizer, or several
-- backward passes for each batch (a GAN), the loop shows in `enumerate(DataLoader)#…`, the start of a step. The time
-- after the last optimizer is not a step.
--
-- :reads ended_annotation, marked_step, event, timed, cpu_span, nesting
-- :column step STEP         as annotated, or counted from 0
-- :column name VARCHAR      the annotation; NULL if absent
-- :column event_id BIGINT   the annotating event; NULL if absent
-- :column track_id BIGINT   thread of the annotation; NULL if absent
-- :column start_ns BIGINT   start of the step on the CPU
-- :column end_ns BIGINT     end of the step on the CPU
-- :column evidence VARCHAR  profiler_step, annotation, loop, module, autograd, repetition or whole_trace
with trace_time as (
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from timed
    where coalesce(category, '') != 'trace'
),

-- The time of all CPU events, needed and computed only if no annotation marks the steps.
host_time as (
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from timed
    where event_id in (select event_id from cpu_span where not exists (select 1 from marked_step))
),

whole_time as (
    select
        coalesce(host_time.start_ns, trace_time.start_ns) as start_ns,
        coalesce(host_time.end_ns, trace_time.end_ns) as end_ns
    from host_time
    cross join trace_time
),

-- One row per call of an optimizer or fetch of a batch, with the last call of autograd before it.
single_mark as (
    select
        mark.track_id,
        mark.start_ns,
        mark.end_ns,
        is_optimizer_mark(mark.name) as is_optimizer,
        node.start_ns as node_ns,
        exists(select 1 from event where is_engine_mark(name)) as has_nodes
    from ended_annotation as mark
    asof left join (select start_ns from event where is_engine_mark(name)) as node
        on mark.start_ns >= node.start_ns
    where
        (is_optimizer_mark(mark.name) or is_loader_mark(mark.name))
        and not exists (select 1 from marked_step)
    -- An optimizer may call another optimizer.
    qualify
        coalesce(
            max(mark.end_ns) over (
                partition by mark.track_id, is_optimizer_mark(mark.name) order by mark.start_ns, mark.end_ns desc
                rows between unbounded preceding and 1 preceding
            ) <= mark.start_ns,
            true
        )
),

-- One row per mark of the loop. Optimizers are one mark without autograd since the start of the previous optimizer,
-- whose closure may call autograd.
loop_mark as (
    select
        track_id,
        is_optimizer,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from (
        select
            *,
            sum((not is_optimizer or not has_nodes or coalesce(node_ns >= before_ns, before_ns is null))::integer)
                over (partition by track_id, is_optimizer order by start_ns rows unbounded preceding) as number
        from (
            select
                *,
                lag(start_ns) over (partition by track_id, is_optimizer order by start_ns) as before_ns
            from single_mark
        ) as following_mark
    ) as numbered_mark
    group by track_id, is_optimizer, number
),

-- The thread of the loop, and whether a step starts with a batch or ends with an optimizer.
loop_kind as (
    select
        track_id,
        count(*) filter (where is_optimizer) as optimizers,
        count(*) filter (where not is_optimizer) as batches,
        batches >= 2 and (optimizers = 0 or optimizers >= 1.5 * batches) as by_batch
    from loop_mark
    group by track_id
    having count(*) filter (where is_optimizer) >= 2 or count(*) filter (where not is_optimizer) >= 2
    order by count(*) desc, track_id
    limit 1
),

-- Time between two marks of the loop.
loop_part as (
    select
        loop_mark.track_id,
        case
            when loop_kind.by_batch then loop_mark.start_ns
            else coalesce(lag(loop_mark.end_ns) over marks, whole_time.start_ns)
        end as start_ns,
        case
            when loop_kind.by_batch then coalesce(lead(loop_mark.start_ns) over marks, whole_time.end_ns)
            else loop_mark.end_ns
        end as end_ns,
        loop_mark.end_ns as mark_end_ns,
        loop_kind.by_batch,
        lead(loop_mark.start_ns) over marks is null as is_last
    from loop_mark
    inner join loop_kind
        on loop_mark.track_id = loop_kind.track_id and loop_mark.is_optimizer != loop_kind.by_batch
    cross join whole_time
    where loop_kind.by_batch or loop_kind.optimizers >= 2
    window marks as (order by loop_mark.start_ns)
),

track_end as (
    select
        track_id,
        max(start_ns) as last_ns
    from nesting
    where track_id in (select track_id from loop_kind)
    group by track_id
),

-- Steps of the loop. The last request for a batch may return none; without later events, it is not a step.
loop_step as (
    select
        loop_part.track_id,
        loop_part.start_ns,
        loop_part.end_ns
    from loop_part
    inner join track_end on loop_part.track_id = track_end.track_id
    where
        loop_part.end_ns > loop_part.start_ns
        and (not loop_part.by_batch or not loop_part.is_last or track_end.last_ns >= loop_part.mark_end_ns)
)

select
    step,
    name,
    event_id,
    track_id,
    start_ns,
    end_ns,
    evidence
from marked_step
union all
select
    row_number() over (order by start_ns) - 1 as step,
    null as name,
    null as event_id,
    track_id,
    start_ns,
    end_ns,
    'loop' as evidence
from loop_step
union all
select
    0 as step,
    null as name,
    null as event_id,
    null as track_id,
    start_ns,
    end_ns,
    'whole_trace' as evidence
from whole_time
where
    start_ns is not null
    and not exists (select 1 from marked_step)
    and not exists (select 1 from loop_step)
order by start_ns
