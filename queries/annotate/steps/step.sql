-- Training steps. Where nothing tells them, one row for the whole trace.
--
-- Training steps: PyTorch's `ProfilerStep#n`, else the user's own step annotations, else what PyTorch leaves in every
-- training loop, else one step for the whole trace, which what repeats in it may divide later (`annotate/steps.py`).
--
-- A user's annotation counts as a step if its name says so (`step 12`, `train_step`, `iteration=3`,
-- `step[DECODE bs=32]`) and no other such annotation is around it. Names of the optimizer's step and of data loading do
-- not count. Where nothing is called so, passes of an inference server count (vLLM's and SGLang's
-- `execute_context_1(888)_generation_0(0)`).
--
-- The loop shows in `Optimizer.step#…`, where a step ends and the next one starts, or in `enumerate(DataLoader)#…`,
-- where one starts: if there is no optimizer, or several for each batch (a GAN). What follows the last optimizer is no
-- step.
--
-- :reads event, timed, cpu_span, nesting
-- :column step BIGINT       number of the step, as annotated, or counted from 0
-- :column name VARCHAR      the annotation; NULL when none
-- :column event_id BIGINT   the annotating event; NULL when none
-- :column track_id BIGINT   thread of the annotation; NULL when none
-- :column start_ns BIGINT   start of the step on the CPU
-- :column end_ns BIGINT     end of the step on the CPU
-- :column evidence VARCHAR  profiler_step, annotation, loop, module, autograd, repetition or whole_trace
with annotation as (
    select
        event_id,
        track_id,
        name,
        start_ns,
        end_ns
    from event
    where category = 'user_annotation' and end_ns is not null
),

profiler as (
    select
        *,
        try_cast(regexp_extract(name, '^ProfilerStep#\s*(\d+)', 1) as bigint) as number,
        'profiler_step' as evidence
    from annotation
    where starts_with(name, 'ProfilerStep#')
),

called as (
    select
        *,
        try_cast(regexp_extract(name, '(?i)(?:step|iteration|iter|batch)[\s#:=_\[-]*(\d+)', 1) as bigint) as number,
        'annotation' as evidence,
        regexp_matches(
            name,
            '(?i)(^|[^a-z_.])((train|training|eval|val|valid|test)[_ ]?)?(step|iteration|iter|batch)([^a-z_]|_\d|$)'
        )
        and not regexp_matches(name, '(?i)(optimi[sz]er|zero_?grad|forward|backward|loss|load|data|wait|fetch)')
            as is_step
    from annotation
    where not exists (select 1 from profiler)
),

named as (
    select
        * exclude (is_step),
        max(end_ns) over (
            partition by track_id order by start_ns, end_ns desc rows between unbounded preceding and 1 preceding
        ) as covered_to_ns
    from called
    where
        is_step
        or (
            regexp_matches(name, '^execute_(\d+_)?(context_\d+.*_generation_\d|new_\d+_cached_\d)')
            and not exists (select 1 from called as other where other.is_step)
        )
),

marked as (
    select * from profiler
    union all
    select * exclude (covered_to_ns)
    from named
    where covered_to_ns is null or start_ns >= covered_to_ns
),

-- Steps do not overlap. One that is left no time, as of two marks that start together, is none.
cut as (
    select
        * exclude (end_ns),
        least(end_ns, coalesce(lead(start_ns) over (order by start_ns, event_id), end_ns)) as end_ns
    from marked
    where track_id = (
        select candidate.track_id from marked as candidate
        group by candidate.track_id
        order by count(*) desc, candidate.track_id
        limit 1
    )
),

chosen as (
    select
        *,
        row_number() over (order by start_ns, event_id) - 1 as position,
        count(distinct number) over () = count(*) over () as numbered
    from cut
    where end_ns > start_ns
),

-- needed, and looked for, only where no annotation names the steps
host_time as (
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from timed
    where event_id in (select event_id from cpu_span where not exists (select 1 from chosen))
),

any_time as (
    select
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from timed
    where ph in ('X', 'B') and coalesce(category, '') != 'trace'
),

whole_time as (
    select
        coalesce(host_time.start_ns, any_time.start_ns) as start_ns,
        coalesce(host_time.end_ns, any_time.end_ns) as end_ns
    from host_time
    cross join any_time
),

loop_mark as (
    select
        event_id,
        track_id,
        start_ns,
        end_ns,
        starts_with(name, 'Optimizer.step#') as is_optimizer
    from annotation
    where
        (starts_with(name, 'Optimizer.step#') or starts_with(name, 'enumerate(DataLoader)#'))
        and not exists (select 1 from chosen)
    -- an optimizer may call another one
    qualify
        coalesce(
            max(end_ns) over (
                partition by track_id, starts_with(name, 'Optimizer.step#') order by start_ns, end_ns desc
                rows between unbounded preceding and 1 preceding
            ) <= start_ns,
            true
        )
),

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

bounded as (
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

-- The last look for a batch may find none.
looped as (
    select
        bounded.track_id,
        bounded.start_ns,
        bounded.end_ns
    from bounded
    inner join track_end on bounded.track_id = track_end.track_id
    where
        bounded.end_ns > bounded.start_ns
        and (not bounded.by_batch or not bounded.is_last or track_end.last_ns >= bounded.mark_end_ns)
),

whole as (
    select *
    from whole_time
    where not exists (select 1 from chosen) and not exists (select 1 from looped)
)

select
    case when numbered then number else position end as step,
    name,
    event_id,
    track_id,
    start_ns,
    end_ns,
    evidence
from chosen
union all
select
    row_number() over (order by start_ns) - 1 as step,
    null as name,
    null as event_id,
    track_id,
    start_ns,
    end_ns,
    'loop' as evidence
from looped
union all
select
    0 as step,
    null as name,
    null as event_id,
    null as track_id,
    start_ns,
    end_ns,
    'whole_trace' as evidence
from whole
where start_ns is not null
order by start_ns
