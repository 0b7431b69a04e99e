-- One row per step that annotations mark, where they mark any.
--
-- PyTorch's `ProfilerStep#n`, else the user's own step annotations. A user's annotation counts as a step if its name
-- says so (`step 12`, `train_step`, `iteration=3`, `step[DECODE bs=32]`) and no other such annotation is around it.
-- Names of the optimizer's step and of data loading do not count. Where nothing is called so, passes of an inference
-- server count (vLLM's and SGLang's `execute_context_1(888)_generation_0(0)`).
--
-- :reads ended_annotation
-- :only_with ended_annotation
-- :column step BIGINT       number of the step: as annotated, or counted from 0 unless each has a number of its own
-- :column name VARCHAR      the annotation
-- :column event_id BIGINT   the annotating event
-- :column track_id BIGINT   its thread: the one with most marks
-- :column start_ns BIGINT   start of the step
-- :column end_ns BIGINT     its end, before the next one starts
-- :column evidence VARCHAR  profiler_step or annotation
with profiler_mark as (
    select
        *,
        try_cast(regexp_extract(name, '^ProfilerStep#\s*(\d+)', 1) as bigint) as number,
        'profiler_step' as evidence
    from ended_annotation
    where starts_with(name, 'ProfilerStep#')
),

-- Annotations of the user, and whether their names say that they are steps.
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

-- Those that are steps, or else passes of an inference server, with the end of all that started before them.
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

-- Steps do not overlap. One that is left no time, as of two marks that start together, is none.
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
