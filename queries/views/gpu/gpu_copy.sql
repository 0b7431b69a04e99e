-- Every copy and memset: its kind, and its bandwidth.
--
-- No memory moves 10^15 bytes per second, and no copy has 10^14 bytes: what says so is damaged.
--
-- :reads gpu_work, gpu_op
-- :column rank BIGINT          process rank
-- :column event_id BIGINT      the copy or memset
-- :column device BIGINT        device number; -1 when the event names none
-- :column kind VARCHAR         Memcpy HtoD, Memcpy DtoH, Memcpy DtoD, Memset, …
-- :column is_pageable BOOLEAN  from or to host memory that is not pinned
-- :column start_ns BIGINT      start
-- :column dur_ns BIGINT        duration
-- :column end_ns BIGINT        end
-- :column bytes BIGINT         bytes moved or set; NULL when the trace does not say
-- :column bytes_per_s BIGINT   bandwidth as the trace has it, else bytes by duration; NULL when it does not say
-- :column step BIGINT          number of the training step; NULL outside every step or when unlinked
-- :column phase VARCHAR        phase that launched it, likewise
-- :column module_path VARCHAR  path of the module that launched it; NULL where none is known
select
    gpu_work.rank,
    gpu_work.event_id,
    gpu_work.device,
    coalesce(
        nullif(regexp_extract(gpu_work.name, '^(Memcpy \w+|Memset)'), ''),
        case gpu_work.category when 'gpu_memset' then 'Memset' else 'Memcpy' end
    ) as kind,
    gpu_work.name ilike '%pageable%' as is_pageable,
    gpu_work.start_ns,
    gpu_work.dur_ns,
    gpu_work.end_ns,
    case when gpu_op.bytes between 0 and 1e14 then gpu_op.bytes end as bytes,
    coalesce(
        case when gpu_op.bandwidth_gb_per_s between 0 and 1e6 then round(gpu_op.bandwidth_gb_per_s * 1e9)::bigint end,
        case
            when gpu_op.bytes * 1e9 / nullif(gpu_work.dur_ns, 0) between 0 and 1e15
                then round(gpu_op.bytes * 1e9 / gpu_work.dur_ns)::bigint
        end
    ) as bytes_per_s,
    gpu_work.step,
    gpu_work.phase,
    gpu_work.module_path
from gpu_work
inner join gpu_op on gpu_work.rank = gpu_op.rank and gpu_work.event_id = gpu_op.event_id
where gpu_work.category in ('gpu_memcpy', 'gpu_memset')
