-- The places in the code whose modules take the most time, all passes together.
--
-- A module counts to one place, see `module_source`; with python stacks, that is the `forward` the user wrote, which
-- has the time of the torch modules it calls. Modules of unknown place have a row of their own. Bytes are what these
-- modules allocated and saved for backward in all that is asked for (`profile_memory`), not what is alive at once.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param sort VARCHAR in (gpu_self, cpu_self) = 'gpu_self'
--                                 the time to order by
-- :param limit BIGINT >= 0 = 10   so many rows
-- :reads module_source, module_time, model_op, memory_block, model_state, label, event
-- :column source VARCHAR               file and line; NULL for modules of unknown place
-- :column function VARCHAR             the function that begins there; NULL for a line that a capture stored
-- :column module_count BIGINT          modules of this place
-- :column type VARCHAR                 class of them that takes the most time
-- :column cpu_self_ns BIGINT           CPU time in these modules, not in others that they call
-- :column gpu_self_ns BIGINT           duration of their GPU work, likewise
-- :column forward_gpu_ns BIGINT        of this, in forward
-- :column backward_gpu_ns BIGINT       of this, in backward, and in forward that is computed again there
-- :column allocated_bytes BIGINT       what they allocate; NULL without memory events, and likewise what follows
-- :column saved_bytes BIGINT           what they save for backward
-- :column param_bytes BIGINT           their parameters; NULL where the trace does not say
-- :column cpu_self_pct DOUBLE          share of all modules' CPU self time
-- :column gpu_self_pct DOUBLE          share of all modules' GPU self time; NULL without GPU work
-- :column example_rank BIGINT          rank of the longest event of its own, of GPU work if it launched any
-- :column example_event_id BIGINT      that event; NULL where these modules have no events
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

whole as (
    select
        model_op.path,
        sum(module_time.cpu_self_ns)::bigint as cpu_self_ns,
        sum(module_time.gpu_self_ns)::bigint as gpu_self_ns,
        coalesce(sum(module_time.gpu_self_ns) filter (where module_time.pass = 'forward'), 0)::bigint as forward_gpu_ns,
        max(own.longest) as longest
    from module_time
    inner join model_op on module_time.rank = model_op.rank and module_time.module_id = model_op.module_id
    left join longest_in_module('label', 'event', $rank, $step) as own
        on
            module_time.rank = own.rank
            and module_time.module_id = own.module_id
            and module_time.pass = own.pass
    where is_asked($rank, module_time.rank) and is_asked($step, module_time.step)
    group by model_op.path
),

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

by_class as (
    select
        place.place.source,
        place.place.function,
        place.type,
        count(*) as module_count,
        sum(whole.cpu_self_ns)::bigint as cpu_self_ns,
        sum(whole.gpu_self_ns)::bigint as gpu_self_ns,
        sum(whole.forward_gpu_ns)::bigint as forward_gpu_ns,
        max(whole.longest) as longest,
        sum(memory_of_path.allocated_bytes)::bigint as allocated_bytes,
        sum(memory_of_path.saved_bytes)::bigint as saved_bytes,
        sum(parameters_of_path.param_bytes)::bigint as param_bytes
    from whole
    inner join place on whole.path = place.path
    left join memory_of_path on whole.path = memory_of_path.path
    left join parameters_of_path on whole.path = parameters_of_path.path
    group by place.place.source, place.place.function, place.type
),

by_place as (
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
    from by_class
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
from by_place
order by if($sort = 'cpu_self', cpu_self_ns, gpu_self_ns) desc, cpu_self_ns desc, source, function
limit $limit
