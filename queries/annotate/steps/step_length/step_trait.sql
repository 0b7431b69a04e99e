-- Traits: parts that only some counted steps have, one row per trait and step with the part. Parts are phases, regions
-- and communication.
--
-- Parts that take less than `kind_part_pct()` of their steps are not traits.
--
-- :reads step_role, step_activity, rank_summary
-- :column step STEP       that counts
-- :column trait VARCHAR   `phase optimizer`, `region evaluation`, `class communication`
-- :column time_ns BIGINT  time of the part in the step
with part_time as (
    select
        step,
        coalesce('region ' || region, 'phase ' || phase) as trait,
        sum(time_ns)::bigint as time_ns
    from step_activity
    where phase is distinct from 'other'
    group by step, trait
    union all
    select
        step,
        'phase ' || phase,
        sum(busy_ns)::bigint
    from rank_summary
    where cause is null and phase != 'other'
    group by step, phase
    union all
    select
        step,
        'class communication',
        sum(busy_ns)::bigint
    from rank_summary
    where class = 'communication'
    group by step
),

-- Parts of counted steps, with the longer of the times on CPU and GPU.
part as (
    select
        part_time.step,
        part_time.trait,
        max(part_time.time_ns) as time_ns,
        any_value(greatest(step_role.end_ns - step_role.start_ns, step_role.length_ns)) as dur_ns
    from part_time
    inner join step_role on part_time.step = step_role.step and step_role.role = 'counted'
    where part_time.trait is not null and part_time.time_ns > 0
    group by part_time.step, part_time.trait
)

select
    step,
    trait,
    time_ns
from part
qualify
    count(*) over (partition by trait) < (select count(*) from step_role where role = 'counted')
    and 100 * median(time_ns / greatest(dur_ns, 1)) over (partition by trait) >= kind_part_pct()
order by step, trait
