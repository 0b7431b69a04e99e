-- Regions of code that torch.compile made: how often each runs, how long, in which module, and how many in a pass.
--
-- A region is called by the number of the python function that was compiled and of its version (`0/0`; a second version
-- is `0/1`: it was compiled again). Where `regions_in_pass` is over 1, a forward pass runs several: a graph break parts
-- it, or functions were compiled one by one. Calls inside of other regions count to those.
--
-- :param rank BIGINT = NULL          only this rank
-- :reads event, nesting, label, model_op, phase_span, launch
-- :column rank BIGINT                process rank
-- :column region VARCHAR             function and version, as PyTorch numbers them
-- :column module_path VARCHAR        module that all its calls run in; NULL if there are several, or none is known
-- :column module_count BIGINT        number of modules that it runs in; 0 if none is known
-- :column call_count BIGINT          how often it ran
-- :column pass_count BIGINT          forward passes in which it ran
-- :column regions_in_pass BIGINT     most regions, this one among them, in one of these passes; 0 outside of all
-- :column cpu_ns BIGINT              time of the calls on the CPU
-- :column gpu_ns BIGINT              duration of the GPU work that they launched
-- :column longest_id BIGINT          event of the longest call
with region as (
    select
        event.rank,
        event.event_id,
        regexp_extract(event.name, '^Torch-Compiled Region:? *(.*)$', 1) as region,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        label.phase,
        model_op.path as module_path
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    where
        event.category = 'cpu_op'
        and starts_with(event.name, 'Torch-Compiled Region')
        and is_asked($rank, event.rank)
    qualify is_outermost(nesting.start_ns, nesting.end_ns, (event.rank, nesting.track_id), nesting.depth)
),

placed as (
    select
        region.*,
        case when region.phase = 'forward' then phase_span.start_ns end as pass_ns
    from region
    asof left join phase_span
        on
            region.rank = phase_span.rank
            and region.track_id = phase_span.track_id
            and region.start_ns >= phase_span.start_ns
),

in_pass as (
    select
        rank,
        track_id,
        pass_ns,
        count(distinct region) as regions
    from placed
    where pass_ns is not null
    group by rank, track_id, pass_ns
),

counted as (
    select
        placed.*,
        coalesce(in_pass.regions, 0) as regions
    from placed
    left join in_pass
        on
            placed.rank = in_pass.rank
            and placed.track_id = in_pass.track_id
            and placed.pass_ns = in_pass.pass_ns
),

launched as (
    select
        region.rank,
        region.event_id,
        sum(event.dur_ns) as gpu_ns
    from launch
    inner join event on launch.rank = event.rank and launch.event_id = event.event_id
    inner join nesting as call on launch.rank = call.rank and launch.runtime_id = call.event_id
    asof inner join region
        on call.rank = region.rank and call.track_id = region.track_id and call.start_ns >= region.start_ns
    where call.start_ns < region.end_ns
    group by region.rank, region.event_id
)

select
    counted.rank,
    counted.region,
    case
        when count(distinct counted.module_path) = 1 and count(counted.module_path) = count(*)
            then any_value(counted.module_path)
    end as module_path,
    count(distinct counted.module_path) as module_count,
    count(*) as call_count,
    count(distinct(counted.track_id, counted.pass_ns)) filter (where counted.pass_ns is not null) as pass_count,
    max(counted.regions) as regions_in_pass,
    sum(counted.end_ns - counted.start_ns)::bigint as cpu_ns,
    coalesce(sum(launched.gpu_ns), 0)::bigint as gpu_ns,
    arg_max(counted.event_id, (counted.end_ns - counted.start_ns, -counted.event_id)) as longest_id
from counted
left join launched on counted.rank = launched.rank and counted.event_id = launched.event_id
group by counted.rank, counted.region
order by counted.rank, cpu_ns desc, counted.region
