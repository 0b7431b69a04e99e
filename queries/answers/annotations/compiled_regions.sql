-- Regions compiled by torch.compile: number of calls, time, module, and regions per forward pass.
--
-- PyTorch names a region by the number of the compiled function and of the version (`0/0`; `0/1` after a
-- recompilation). `regions_in_pass` over 1 means several regions in one forward pass: a graph break splits the pass, or
-- functions were compiled separately. A call inside another region is attributed to the outer region.
--
-- :param rank BIGINT = NULL          only this rank
-- :reads gpu_event, cpu_event, phase_span
-- :column rank RANK
-- :column region VARCHAR             number of the function and of the version, as in PyTorch
-- :column module_path VARCHAR        module of all calls; NULL if several or unknown
-- :column module_count BIGINT        number of modules in which the region runs; 0 if unknown
-- :column call_count BIGINT          number of calls
-- :column pass_count BIGINT          forward passes with a call of the region
-- :column regions_in_pass BIGINT     most regions in any of these passes, including this region; 0 outside of forward
--                                    passes
-- :column cpu_ns BIGINT              CPU time of the calls
-- :column gpu_ns BIGINT              duration of the GPU work launched by the calls
-- :column longest_id BIGINT          event of the longest call

-- one row per outermost call of a compiled region
with region as (
    select
        rank,
        event_id,
        regexp_extract(name, '^Torch-Compiled Region:? *(.*)$', 1) as region,
        track_id,
        start_ns,
        end_ns,
        phase,
        module_path
    from cpu_event
    where
        category = 'cpu_op'
        and is_compiled_region(name)
        and is_asked($rank, rank)
    qualify is_outermost(start_ns, end_ns, (rank, track_id), depth)
),

-- one row per call, with the start of the forward pass around the call
region_in_pass as (
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

forward_pass as (
    select
        rank,
        track_id,
        pass_ns,
        count(distinct region) as regions
    from region_in_pass
    where pass_ns is not null
    group by rank, track_id, pass_ns
),

-- one row per call, with the number of distinct regions in the pass
counted_region as (
    select
        region_in_pass.*,
        coalesce(forward_pass.regions, 0) as regions
    from region_in_pass
    left join forward_pass
        on
            region_in_pass.rank = forward_pass.rank
            and region_in_pass.track_id = forward_pass.track_id
            and region_in_pass.pass_ns = forward_pass.pass_ns
),

-- one row per call with launches: the duration of the launched GPU work
gpu_time_of_call as (
    select
        region.rank,
        region.event_id,
        sum(gpu_event.dur_ns) as gpu_ns
    from gpu_event
    asof inner join region
        on
            gpu_event.rank = region.rank
            and gpu_event.call_track_id = region.track_id
            and gpu_event.call_start_ns >= region.start_ns
    where gpu_event.runtime_id is not null and gpu_event.call_start_ns < region.end_ns
    group by region.rank, region.event_id
)

select
    counted_region.rank,
    counted_region.region,
    case
        when count(distinct counted_region.module_path) = 1 and count(counted_region.module_path) = count(*)
            then any_value(counted_region.module_path)
    end as module_path,
    count(distinct counted_region.module_path) as module_count,
    count(*) as call_count,
    count(distinct(counted_region.track_id, counted_region.pass_ns)) filter (where counted_region.pass_ns is not null)
        as pass_count,
    max(counted_region.regions) as regions_in_pass,
    sum(counted_region.end_ns - counted_region.start_ns)::bigint as cpu_ns,
    coalesce(sum(gpu_time_of_call.gpu_ns), 0)::bigint as gpu_ns,
    arg_max(counted_region.event_id, (counted_region.end_ns - counted_region.start_ns, -counted_region.event_id))
        as longest_id
from counted_region
left join gpu_time_of_call
    on counted_region.rank = gpu_time_of_call.rank and counted_region.event_id = gpu_time_of_call.event_id
group by counted_region.rank, counted_region.region
order by counted_region.rank, cpu_ns desc, counted_region.region
