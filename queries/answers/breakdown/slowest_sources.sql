-- The places in the code whose modules take the most time, all passes together.
--
-- A module counts to one place, see `module_source`; with python stacks, that is the `forward` the user wrote, which
-- has the time of the torch modules it calls. Modules of unknown place have a row of their own.
--
-- :param rank BIGINT = NULL       only this rank
-- :param step BIGINT = NULL       only this step
-- :param sort VARCHAR in (gpu_self, cpu_self) = 'gpu_self'
--                                 the time to order by
-- :param limit BIGINT >= 0 = 10   so many rows
-- :reads module_source, module_time, model_op
-- :column source VARCHAR               file and line; NULL for modules of unknown place
-- :column function VARCHAR             the function that begins there; NULL for a line that a capture stored
-- :column module_count BIGINT          modules of this place
-- :column type VARCHAR                 class of them that takes the most time
-- :column cpu_self_ns BIGINT           CPU time in these modules, not in others that they call
-- :column gpu_self_ns BIGINT           duration of their GPU work, likewise
-- :column cpu_self_pct DOUBLE          share of all modules' CPU self time
-- :column gpu_self_pct DOUBLE          share of all modules' GPU self time; NULL without GPU work
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
        sum(module_time.gpu_self_ns)::bigint as gpu_self_ns
    from module_time
    inner join model_op on module_time.rank = model_op.rank and module_time.module_id = model_op.module_id
    where is_asked($rank, module_time.rank) and is_asked($step, module_time.step)
    group by model_op.path
),

by_class as (
    select
        place.place.source,
        place.place.function,
        place.type,
        count(*) as module_count,
        sum(whole.cpu_self_ns)::bigint as cpu_self_ns,
        sum(whole.gpu_self_ns)::bigint as gpu_self_ns
    from whole
    inner join place on whole.path = place.path
    group by place.place.source, place.place.function, place.type
),

by_place as (
    select
        source,
        function,
        sum(module_count)::bigint as module_count,
        arg_max(type, (if($sort = 'cpu_self', cpu_self_ns, gpu_self_ns), cpu_self_ns, type)) as type,
        sum(cpu_self_ns)::bigint as cpu_self_ns,
        sum(gpu_self_ns)::bigint as gpu_self_ns
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
    100.0 * cpu_self_ns / nullif(sum(cpu_self_ns) over (), 0) as cpu_self_pct,
    100.0 * gpu_self_ns / nullif(sum(gpu_self_ns) over (), 0) as gpu_self_pct
from by_place
order by if($sort = 'cpu_self', cpu_self_ns, gpu_self_ns) desc, cpu_self_ns desc, source, function
limit $limit
