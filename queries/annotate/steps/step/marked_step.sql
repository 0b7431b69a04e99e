-- Steps marked by annotations, if any.
--
-- PyTorch's `ProfilerStep#n`, else the user's own step annotations. A user annotation counts as a step if the name
-- matches (`step 12`, `train_step`, `iteration=3`, `step[DECODE bs=32]`) and no enclosing annotation also counts. Names
-- of the optimizer's step and of data loading do not count. Without matching names, passes of an inference server count
-- (vLLM's and SGLang's `execute_context_1(888)_generation_0(0)`).
--
-- :reads ended_annotation
-- :only_with ended_annotation
-- :column step STEP         as annotated, or counted from 0 if the annotated numbers are not unique
-- :column name VARCHAR      the annotation
-- :column event_id BIGINT   the annotating event
-- :column track_id BIGINT   thread with most marks
-- :column start_ns BIGINT   start of the step
-- :column end_ns BIGINT     end of the step, at most the start of the next step
-- :column evidence VARCHAR  profiler_step or annotation
with profiler_mark as (
    select
        *,
        try_cast(regexp_extract(name, '^ProfilerStep#\s*(\d+)', 1) as bigint) as number,
        'profiler_step' as evidence
    from ended_annotation
    where is_step_mark(name)
),

-- User annotations, and whether their names show a step.
user_mark as (
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
    from ended_annotation
    where not exists (select 1 from profiler_mark)
),

-- Annotations of steps, or else passes of an inference server, with the latest end of all earlier ones on the thread.
outermost_mark as (
    select
        * exclude (is_step),
        max(end_ns) over (
            partition by track_id order by start_ns, end_ns desc rows between unbounded preceding and 1 preceding
        ) as covered_to_ns
    from user_mark
    where
        is_step
        or (
            regexp_matches(name, '^execute_(\d+_)?(context_\d+.*_generation_\d|new_\d+_cached_\d)')
            and not exists (select 1 from user_mark as other where other.is_step)
        )
),

mark as (
    select * from profiler_mark
    union all
    select * exclude (covered_to_ns)
    from outermost_mark
    where covered_to_ns is null or start_ns >= covered_to_ns
),

-- Steps do not overlap. A step without remaining time, for example the first of two marks with equal start, is dropped.
cut_mark as (
    select
        * exclude (end_ns),
        least(end_ns, coalesce(lead(start_ns) over (order by start_ns, event_id), end_ns)) as end_ns
    from mark
    where track_id = (
        select candidate.track_id from mark as candidate
        group by candidate.track_id
        order by count(*) desc, candidate.track_id
        limit 1
    )
)

select
    case
        when count(distinct number) over () = count(*) over () then number
        else row_number() over (order by start_ns, event_id) - 1
    end as step,
    name,
    event_id,
    track_id,
    start_ns,
    end_ns,
    evidence
from cut_mark
where end_ns > start_ns
