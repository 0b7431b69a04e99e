-- Events of some steps, and GPU work that these launch: what the edits of a scenario can choose from.
--
-- :param rank BIGINT       the process rank
-- :param start_ns BIGINT   start of the first step on the CPU
-- :param end_ns BIGINT     end of the last step on the CPU
-- :reads annotated_event, gpu_op, gpu_work, nesting
-- :column event_id BIGINT        position in the file's `traceEvents` array
-- :column track_id BIGINT        the thread or stream
-- :column category VARCHAR       kind of event
-- :column name VARCHAR           the event's name
-- :column start_ns BIGINT        start
-- :column end_ns BIGINT          end
-- :column dur_ns BIGINT          duration
-- :column step BIGINT            the step; of GPU work, that of its launch; NULL outside
-- :column phase VARCHAR          phase of the step, likewise
-- :column module_path VARCHAR    path of the module, likewise; NULL where none is known
-- :column pass VARCHAR           forward, backward or recompute; NULL where no module is known
-- :column class VARCHAR          of GPU work: computation, communication or memory; NULL on the CPU
-- :column short_name VARCHAR     of GPU work: the name without template arguments; NULL on the CPU
-- :column op VARCHAR             of GPU work: the innermost op around its launch; NULL without one, and on the CPU
-- :column unit VARCHAR           of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all else
-- :column precision VARCHAR      of these: fp64, fp32, tf32, bf16, fp16, …; NULL if unknown
-- :column is_compiled BOOLEAN    launched inside of code that torch.compile made; NULL on the CPU
-- :column device BIGINT          device of GPU work; NULL on the CPU
-- :column stream BIGINT          stream of GPU work; NULL on the CPU
-- :column bytes BIGINT           of copies and memsets: bytes moved
-- :column runtime_id BIGINT      of GPU work: the call that launched it; NULL if unknown, and on the CPU
-- :column call_track_id BIGINT   the thread of this call
-- :column call_start_ns BIGINT   its start
-- :column call_end_ns BIGINT     its end
with work as materialized (
    select
        gpu_work.*,
        gpu_op.bytes,
        call.track_id as call_track_id,
        call.start_ns as call_start_ns,
        call.end_ns as call_end_ns
    from gpu_work
    left join gpu_op on gpu_work.rank = gpu_op.rank and gpu_work.event_id = gpu_op.event_id
    left join nesting as call on gpu_work.rank = call.rank and gpu_work.runtime_id = call.event_id
    where
        gpu_work.rank = $rank
        and coalesce(call.start_ns, gpu_work.start_ns) >= $start_ns
        and coalesce(call.start_ns, gpu_work.start_ns) < $end_ns
),

placed as materialized (
    select *
    from annotated_event
    where rank = $rank
)

select
    placed.event_id,
    placed.track_id,
    placed.category,
    placed.name,
    placed.start_ns,
    placed.end_ns,
    placed.dur_ns,
    placed.step,
    placed.phase,
    placed.module_path,
    placed.pass,
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
from placed
left join work on placed.event_id = work.event_id
where
    work.event_id is not null
    or (
        placed.category not in ('kernel', 'gpu_memcpy', 'gpu_memset')
        and placed.start_ns < $end_ns
        and (placed.end_ns > $start_ns or placed.start_ns >= $start_ns)
    )
order by placed.event_id
