-- Traits of the GPU work of some steps that determine its time on another GPU: work, bytes, grid and block.
--
-- :param rank BIGINT              the process rank
-- :param start_ns BIGINT          start of the first step on the CPU
-- :param end_ns BIGINT            end of the last step on the CPU
-- :reads gpu_event, op_claim, op_work, kernel_shape
-- :column event_id BIGINT         the GPU event
-- :column dur_ns BIGINT           duration
-- :column busy_ns BIGINT          part of the duration in which no earlier work keeps the GPU busy
-- :column class KERNEL_CLASS
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column name VARCHAR            name of the GPU event
-- :column unit VARCHAR            unit of a kernel of matrix products: matrix (tensor cores) or vector; NULL for other
--                                 work
-- :column precision VARCHAR       precision of the matrix products: fp64, fp32, tf32, bf16, fp16, …; NULL if unknown
-- :column family VARCHAR          formula for the work; NULL without a formula
-- :column matrix_flop BIGINT      FLOP of matrix products; NULL if unknown, like the next two columns
-- :column vector_flop BIGINT      FLOP of other arithmetic
-- :column bytes BIGINT            least bytes read and written
-- :column blocks BIGINT           number of blocks in the grid; NULL if not in the trace
-- :column resident_blocks BIGINT  maximum number of blocks per multiprocessor; NULL if unknown
-- :column grid VARCHAR            grid; NULL if not in the trace
-- :column block VARCHAR           block; NULL if not in the trace
select
    gpu_event.event_id,
    gpu_event.dur_ns,
    gpu_event.busy_ns,
    gpu_event.class,
    gpu_event.category,
    gpu_event.name,
    gpu_event.unit,
    gpu_event.precision,
    op_work.family,
    op_claim.matrix_flop,
    op_claim.vector_flop,
    op_claim.bytes,
    kernel_shape.blocks,
    kernel_shape.resident_blocks,
    kernel_shape.grid,
    kernel_shape.block
from gpu_event
left join op_claim on gpu_event.rank = op_claim.rank and gpu_event.event_id = op_claim.event_id
left join op_work on op_claim.rank = op_work.rank and op_claim.work_id = op_work.event_id
left join kernel_shape on gpu_event.rank = kernel_shape.rank and gpu_event.event_id = kernel_shape.event_id
where
    gpu_event.rank = $rank
    and if(gpu_event.runtime_id is null, gpu_event.start_ns, gpu_event.call_start_ns) >= $start_ns
    and if(gpu_event.runtime_id is null, gpu_event.start_ns, gpu_event.call_start_ns) < $end_ns
order by gpu_event.event_id
