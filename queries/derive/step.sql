-- Training steps: PyTorch's `ProfilerStep#n`, else the user's own step annotations, else one step for the whole trace.
--
-- A user's annotation counts as a step if its name says so (`step 12`, `train_step`, `iteration=3`,
-- `step[DECODE bs=32]`) and no other such annotation is around it. Names of the optimizer's step and of data loading do
-- not count.
--
-- :reads event, nesting
with annotation as (
    select
        event_id,
        track_id,
        name,
        start_ns,
        end_ns
    from event
    where category = 'user_annotation' and dur_ns is not null
),

profiler as (
    select
        *,
        try_cast(regexp_extract(name, '^ProfilerStep#\s*(\d+)', 1) as bigint) as number,
        'profiler_step' as evidence
    from annotation
    where starts_with(name, 'ProfilerStep#')
),

named as (
    select
        *,
        try_cast(regexp_extract(name, '(?i)(?:step|iteration|iter|batch)[\s#:=_\[-]*(\d+)', 1) as bigint) as number,
        'annotation' as evidence,
        max(end_ns) over (
            partition by track_id order by start_ns, end_ns desc rows between unbounded preceding and 1 preceding
        ) as covered_to_ns
    from annotation
    where
        not exists (select 1 from profiler)
        and regexp_matches(
            name,
            '(?i)(^|[^a-z_.])((train|training|eval|val|valid|test)[_ ]?)?(step|iteration|iter|batch)([^a-z_]|_\d|$)'
        )
        and not regexp_matches(name, '(?i)(optimi[sz]er|zero_?grad|forward|backward|loss|load|data|wait|fetch)')
),

marked as (
    select * from profiler
    union all
    select * exclude (covered_to_ns)
    from named
    where covered_to_ns is null or start_ns >= covered_to_ns
),

chosen as (
    select
        *,
        row_number() over (order by start_ns, event_id) - 1 as position,
        count(distinct number) over () = count(*) over () as numbered
    from marked
    where track_id = (
        select candidate.track_id from marked as candidate
        group by candidate.track_id
        order by count(*) desc, candidate.track_id
        limit 1
    )
),

whole as (
    select
        coalesce(
            min(start_ns) filter (where event_id in (select event_id from nesting)),
            min(start_ns) filter (where ph in ('X', 'B') and coalesce(category, '') != 'trace')
        ) as start_ns,
        coalesce(
            max(end_ns) filter (where event_id in (select event_id from nesting)),
            max(end_ns) filter (where ph in ('X', 'B') and coalesce(category, '') != 'trace')
        ) as end_ns
    from event
    where dur_ns is not null and not exists (select 1 from chosen)
)

select
    case when numbered then number else position end as step,
    name,
    event_id,
    track_id,
    start_ns,
    least(end_ns, coalesce(lead(start_ns) over (order by start_ns, event_id), end_ns)) as end_ns,
    evidence
from chosen
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
