-- Every copy and memset, with its kind and bandwidth.
--
-- No memory moves 10^15 bytes per second, and no copy has 10^14 bytes. Larger values are damaged and become NULL.
--
-- :reads gpu_event, gpu_op
-- :column rank RANK
-- :column event_id BIGINT      the copy or memset
-- :column device DEVICE        -1 without a device
-- :column kind VARCHAR         Memcpy HtoD, Memcpy DtoH, Memcpy DtoD, Memset, …
-- :column is_pageable BOOLEAN  from or to host memory that is not pinned
-- :column start_ns BIGINT      start
-- :column dur_ns BIGINT        duration
-- :column end_ns BIGINT        end
-- :column bytes BIGINT         bytes moved or set; NULL if unknown
-- :column bytes_per_s BIGINT   bandwidth in the trace, else bytes divided by duration; NULL if unknown
-- :column step STEP            NULL outside every step or without a launch
-- :column phase PHASE          of the launch; NULL outside every phase or without a launch
-- :column module_path VARCHAR  path of the launching module; NULL if unknown
select
    gpu_event.rank,
    gpu_event.event_id,
    gpu_event.device,
    coalesce(
        nullif(regexp_extract(gpu_event.name, '^(Memcpy \w+|Memset)'), ''),
        case gpu_event.category when 'gpu_memset' then 'Memset' else 'Memcpy' end
    ) as kind,
    is_pageable_copy(gpu_event.name) as is_pageable,
    gpu_event.start_ns,
    gpu_event.dur_ns,
    gpu_event.end_ns,
    case when gpu_op.bytes between 0 and 1e14 then gpu_op.bytes end as bytes,
    coalesce(
        case when gpu_op.bandwidth_gb_per_s between 0 and 1e6 then round(gpu_op.bandwidth_gb_per_s * 1e9)::bigint end,
        case
            when gpu_op.bytes * 1e9 / nullif(gpu_event.dur_ns, 0) between 0 and 1e15
                then round(gpu_op.bytes * 1e9 / gpu_event.dur_ns)::bigint
        end
    ) as bytes_per_s,
    gpu_event.step,
    gpu_event.phase,
    gpu_event.module_path
from gpu_event
inner join gpu_op on gpu_event.rank = gpu_op.rank and gpu_event.event_id = gpu_op.event_id
where gpu_event.category in ('gpu_memcpy', 'gpu_memset')
