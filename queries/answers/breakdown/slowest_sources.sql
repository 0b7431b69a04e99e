-- Source locations by the time of their modules, over all passes.
--
-- A module is attributed to one location, see `module_source`. With python stacks, the location of a module is its own
-- `forward`. A module of torch has the location of the function that calls it first, usually the user's `forward`. The
-- row of this function includes the module's time. Modules without a known location share one row. `allocated_bytes`
-- and `saved_bytes` are sums over the selection (`profile_memory`), not memory alive at one time.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param sort VARCHAR in (gpu_self, cpu_self) = 'gpu_self'
--                                 column to order by
-- :param limit BIGINT >= 0 = 10   maximum number of rows
-- :reads module_source, module_time, model_op, memory_block, model_state
-- :column source VARCHAR               file and line; NULL for modules without a known location
-- :column function VARCHAR             function starting at the line; NULL for a line stored by a capture
-- :column module_count BIGINT          modules of this location
-- :column type VARCHAR                 class with the most time among these modules
-- :column cpu_self_ns BIGINT           CPU self time of these modules
-- :column gpu_self_ns BIGINT           duration of the GPU work of these modules, without submodules
-- :column forward_gpu_ns BIGINT        part of the GPU time in forward
-- :column backward_gpu_ns BIGINT       part of the GPU time in backward, including recomputed forward
-- :column allocated_bytes BIGINT       bytes allocated by these modules; NULL without memory events
-- :column saved_bytes BIGINT           bytes saved for backward; NULL without memory events
-- :column param_bytes BIGINT           bytes of the parameters; NULL if unknown
-- :column cpu_self_pct DOUBLE          share of the CPU self time of all modules
-- :column gpu_self_pct DOUBLE          share of the GPU self time of all modules; NULL without GPU work
-- :column example_rank BIGINT          rank of the longest own event of these modules, a GPU event if possible
-- :column example_event_id BIGINT      the longest own event; NULL if these modules have no events
with place as (
    select
        model_op.path,
        min(model_op.type) as type,
        min({'source': module_source.source, 'function': module_source.function}) as place
    from model_op
    left join module_source on model_op.rank = module_source.rank and model_op.module_id = module_source.module_id
    where is_asked($rank, model_op.rank)
    group by model_op.path
),

-- one row per module path: CPU and GPU self time, and the longest event
module_total as (
    select
        model_op.path,
        sum(module_time.cpu_self_ns)::bigint as cpu_self_ns,
        sum(module_time.gpu_self_ns)::bigint as gpu_self_ns,
        coalesce(sum(module_time.gpu_self_ns) filter (where module_time.pass = 'forward'), 0)::bigint as forward_gpu_ns,
        max(
            longest_own(
                module_time.rank, module_time.longest_id, module_time.longest_ns, module_time.longest_is_gpu
            )
        ) as longest
    from module_time
    inner join model_op on module_time.rank = model_op.rank and module_time.module_id = model_op.module_id
    where is_asked($rank, module_time.rank) and is_asked($step, module_time.step)
    group by model_op.path
),

-- one row per module path: bytes allocated and bytes saved for backward
memory_of_path as (
    select
        model_op.path,
        coalesce(sum(memory_block.bytes) filter (where memory_block.start_ns is not null), 0)::bigint
            as allocated_bytes,
        coalesce(
            sum(memory_block.bytes) filter (
                where memory_block.evidence = 'forward_to_backward'
            ), 0
        )::bigint as saved_bytes
    from memory_block
    inner join model_op on memory_block.rank = model_op.rank and memory_block.module_id = model_op.module_id
    where is_asked($rank, memory_block.rank) and is_asked($step, memory_block.step)
    group by model_op.path
),

parameters_of_path as (
    select
        module_path as path,
        max(bytes) as param_bytes
    from model_state
    where category = 'parameter' and is_asked($rank, rank)
    group by module_path
),

-- one row per location and class
place_class as (
    select
        place.place.source,
        place.place.function,
        place.type,
        count(*) as module_count,
        sum(module_total.cpu_self_ns)::bigint as cpu_self_ns,
        sum(module_total.gpu_self_ns)::bigint as gpu_self_ns,
        sum(module_total.forward_gpu_ns)::bigint as forward_gpu_ns,
        max(module_total.longest) as longest,
        sum(memory_of_path.allocated_bytes)::bigint as allocated_bytes,
        sum(memory_of_path.saved_bytes)::bigint as saved_bytes,
        sum(parameters_of_path.param_bytes)::bigint as param_bytes
    from module_total
    inner join place on module_total.path = place.path
    left join memory_of_path on module_total.path = memory_of_path.path
    left join parameters_of_path on module_total.path = parameters_of_path.path
    group by place.place.source, place.place.function, place.type
),

-- one row per location
source_place as (
    select
        source,
        function,
        sum(module_count)::bigint as module_count,
        arg_max(type, (if($sort = 'cpu_self', cpu_self_ns, gpu_self_ns), cpu_self_ns, type)) as type,
        sum(cpu_self_ns)::bigint as cpu_self_ns,
        sum(gpu_self_ns)::bigint as gpu_self_ns,
        sum(forward_gpu_ns)::bigint as forward_gpu_ns,
        max(longest) as longest,
        sum(allocated_bytes)::bigint as allocated_bytes,
        sum(saved_bytes)::bigint as saved_bytes,
        sum(param_bytes)::bigint as param_bytes
    from place_class
    group by source, function
)

select
    source,
    function,
    module_count,
    type,
    cpu_self_ns,
    gpu_self_ns,
    forward_gpu_ns,
    gpu_self_ns - forward_gpu_ns as backward_gpu_ns,
    allocated_bytes,
    saved_bytes,
    param_bytes,
    100.0 * cpu_self_ns / nullif(sum(cpu_self_ns) over (), 0) as cpu_self_pct,
    100.0 * gpu_self_ns / nullif(sum(gpu_self_ns) over (), 0) as gpu_self_pct,
    -longest.minus_rank as example_rank,
    -longest.minus_event_id as example_event_id
from source_place
order by if($sort = 'cpu_self', cpu_self_ns, gpu_self_ns) desc, cpu_self_ns desc, source, function
limit $limit
