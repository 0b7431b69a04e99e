-- Events of some steps, and the GPU work they launch: the events available to the edits of a scenario.
--
-- :param rank BIGINT       the process rank
-- :param start_ns BIGINT   start of the first step on the CPU
-- :param end_ns BIGINT     end of the last step on the CPU
-- :reads annotated_event, gpu_event
-- :column event_id BIGINT        position in the file's `traceEvents` array
-- :column track_id BIGINT        the thread or stream
-- :column category VARCHAR       kind of event
-- :column name VARCHAR           name of the event
-- :column start_ns BIGINT        start
-- :column end_ns BIGINT          end
-- :column dur_ns BIGINT          duration
-- :column step STEP              of the event, for GPU work of its launch; NULL outside every step
-- :column phase PHASE            of the event, for GPU work of its launch; NULL outside every step
-- :column module_path VARCHAR    path of the module, for GPU work of its launch; NULL if unknown
-- :column pass VARCHAR           forward, backward or recompute; NULL if the module is unknown
-- :column class KERNEL_CLASS     NULL on the CPU
-- :column short_name VARCHAR     name of GPU work without template arguments; NULL on the CPU
-- :column op VARCHAR             innermost op around the launch of GPU work; NULL without an op, and on the CPU
-- :column unit VARCHAR           unit of a kernel of matrix products: matrix (tensor cores) or vector; NULL for other
--                                events
-- :column precision VARCHAR      precision of the matrix products: fp64, fp32, tf32, bf16, fp16, …; NULL if unknown
-- :column is_compiled BOOLEAN    launched inside code compiled by torch.compile; NULL on the CPU
-- :column device DEVICE          of GPU work; NULL on the CPU
-- :column stream BIGINT          stream of GPU work; NULL on the CPU
-- :column bytes BIGINT           bytes moved by a copy or memset
-- :column runtime_id BIGINT      launching call of GPU work; NULL if unknown, and on the CPU
-- :column call_track_id BIGINT   thread of the launching call
-- :column call_start_ns BIGINT   start of the launching call
-- :column call_end_ns BIGINT     end of the launching call
with work as materialized (
    select
        * replace (
            if(runtime_id is null, null, call_track_id) as call_track_id,
            if(runtime_id is null, null, call_start_ns) as call_start_ns,
            if(runtime_id is null, null, call_end_ns) as call_end_ns
        )
    from gpu_event
    where
        rank = $rank
        and if(runtime_id is null, start_ns, gpu_event.call_start_ns) >= $start_ns
        and if(runtime_id is null, start_ns, gpu_event.call_start_ns) < $end_ns
),

labelled_event as materialized (
    select *
    from annotated_event
    where rank = $rank
)

select
    labelled_event.event_id,
    labelled_event.track_id,
    labelled_event.category,
    labelled_event.name,
    labelled_event.start_ns,
    labelled_event.end_ns,
    labelled_event.dur_ns,
    labelled_event.step,
    labelled_event.phase,
    labelled_event.module_path,
    labelled_event.pass,
    work.class,
    work.short_name,
    work.op,
    work.unit,
    work.precision,
    work.is_compiled,
    work.device,
    work.stream,
    work.bytes,
    work.runtime_id,
    work.call_track_id,
    work.call_start_ns,
    work.call_end_ns
from labelled_event
left join work on labelled_event.event_id = work.event_id
where
    work.event_id is not null
    or (
        labelled_event.category not in ('kernel', 'gpu_memcpy', 'gpu_memset')
        and labelled_event.start_ns < $end_ns
        and (labelled_event.end_ns > $start_ns or labelled_event.start_ns >= $start_ns)
    )
order by labelled_event.event_id
