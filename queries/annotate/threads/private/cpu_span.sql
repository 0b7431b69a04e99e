-- Events with a duration on CPU threads, as intervals.
--
-- `layer` decides the nesting of two events with equal times: an annotation or frame is outside of an op, and an op is
-- outside of a runtime call. Events that only look like CPU work (the profiler's own overhead, spans of the whole
-- trace) are excluded.
--
-- :reads timed
-- :column event_id BIGINT   the event
-- :column track_id BIGINT   thread
-- :column category VARCHAR  kind of event; NULL if absent
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column class_id BIGINT   class of the name, of `name_class`; NULL for names without a class
-- :column is_op BOOLEAN     a CPU op
-- :column layer INTEGER     nesting order of spans with equal times, lower is outside: 0 annotations and frames, 1 ops,
--                           2 all others
-- :column is_cut BOOLEAN    the end was moved to make spans nest; false here
select
    event_id,
    track_id,
    category,
    start_ns,
    end_ns,
    class_id,
    category = 'cpu_op' as is_op,
    case
        when category in ('user_annotation', 'python_function') then 0
        when category = 'cpu_op' then 1
        else 2
    end as layer,
    false as is_cut
from timed
where
    track_id is not null
    and coalesce(category, '') not in (
        'kernel', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync', 'cuda_profiler_range', 'overhead',
        'trace', 'mtia_insight', 'collective_comm', 'hotline', 'device_unknown', 'device_summary'
    )
