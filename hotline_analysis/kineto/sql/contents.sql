-- The kinds of events in a batch. Queries for absent kinds are skipped.
select
    coalesce(bool_or(category in ('cpu_op', 'user_annotation')), false) as ops,
    coalesce(bool_or(category = 'python_function'), false) as python_calls,
    coalesce(bool_or(category in ('cuda_runtime', 'cuda_driver')), false) as runtime_calls,
    coalesce(bool_or(category in ('kernel', 'gpu_memcpy', 'gpu_memset')), false) as gpu_ops,
    coalesce(bool_or(category = 'cpu_instant_event'), false) as memory_events,
    coalesce(bool_or(category = 'cuda_sync'), false) as syncs,
    coalesce(bool_or(ph = 'C'), false) as counters,
    coalesce(bool_or(ph in ('s', 't', 'f')), false) as flows,
    coalesce(bool_or(has_more), false) as leftovers,
    coalesce(sum(arg_count - (correlation is not null)::integer - (external_id is not null)::integer), 0) as args,
    coalesce(bool_or(is_rounded), false) as rounded
from batch
