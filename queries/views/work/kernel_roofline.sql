-- Each GPU event with its FLOP and bytes, from the shapes of its op, and its least time on the GPU (roofline).
--
-- The roofline is the longest of three times: matrix products at the peak of the kernel's unit and precision, other
-- arithmetic at the peak of the vector units, and the least bytes at the memory bandwidth (Williams et al., "Roofline",
-- CACM 52(4), 2009). Unit and precision come from the kernel's name, else from the operand type. Products on vector
-- units are compared to the peak of the vector units, where half precision accumulates in FP32. Copies between devices
-- or to the host have no roofline time, since they do not run at memory bandwidth. The values are NULL without shapes,
-- a formula or the peaks of the GPU.
--
-- :reads gpu_event, op_claim, op_work, cpu_event, owned_time, device_peak, gpu_model
-- :column rank RANK
-- :column event_id BIGINT          the GPU event
-- :column device DEVICE            -1 without a device
-- :column class KERNEL_CLASS
-- :column short_name VARCHAR       name without namespaces, template arguments and tile sizes
-- :column step STEP                of the launch; NULL outside every step or without a launch
-- :column phase PHASE              of the launch; NULL outside every phase or without a launch
-- :column module_id BIGINT         launching module; NULL if unknown
-- :column module_path VARCHAR      path of the module
-- :column is_recompute BOOLEAN     the event repeats work of the forward pass, as in checkpointing
-- :column is_before BOOLEAN        the event was launched before the trace
-- :column dur_ns BIGINT            duration
-- :column owned_ns BIGINT          part of the duration attributed to this event if several events run (`owned_time`)
-- :column work_id BIGINT           op with known work for this event; NULL, like all later columns, if unknown
-- :column op VARCHAR               name of this op, or of the innermost op around the launch if the work is unknown
-- :column shape_id BIGINT          arguments of the op, as in `op_work`
-- :column family VARCHAR           formula for the work
-- :column dtype VARCHAR            type of the operands
-- :column has_products BOOLEAN     the op computes matrix products, in this or another event
-- :column time_ns BIGINT           duration without time in which an earlier event of the same op ran
-- :column matrix_flop BIGINT       FLOP of matrix products: this event's share of the op's work, as in `op_claim`
-- :column model_flop BIGINT        share of `matrix_flop` needed by the model; 0 for recomputed work
-- :column dense_flop BIGINT        `model_flop` with causal attention in full; 0 for recomputed work
-- :column vector_flop BIGINT       FLOP of other arithmetic
-- :column bytes BIGINT             least bytes
-- :column unit VARCHAR             unit of the products: matrix (tensor cores) or vector; NULL without products
-- :column precision VARCHAR        precision of the products
-- :column matrix_flop_per_s DOUBLE peak of the GPU for these products; NULL if not known
-- :column vector_flop_per_s DOUBLE peak of its vector units
-- :column bytes_per_s DOUBLE       memory bandwidth of the GPU
-- :column matrix_ns DOUBLE         least time for the products
-- :column vector_ns DOUBLE         least time for other arithmetic
-- :column memory_ns DOUBLE         least time for the bytes
-- :column uncached_ns DOUBLE       `memory_ns` without bytes that fit into the last-level cache before and after the
--                                  work; NULL if the cache size is unknown
-- :column roofline_ns DOUBLE       longest of `matrix_ns`, `vector_ns` and `memory_ns`
-- :column bound VARCHAR            limiting time: matrix, vector or memory

-- one row per GPU event, with its work, unit and precision
with work as ( -- noqa: ST03
    select
        gpu_event.rank,
        gpu_event.event_id,
        gpu_event.device,
        gpu_event.class,
        gpu_event.short_name,
        gpu_event.step,
        gpu_event.phase,
        gpu_event.module_id,
        gpu_event.module_path,
        coalesce(gpu_event.pass = 'recompute', false) as is_recompute,
        coalesce(gpu_event.bucket = 'pre_window', false) as is_before,
        gpu_event.dur_ns,
        op_claim.work_id,
        coalesce(working_op.name, gpu_event.op) as op,
        op_work.shape_id,
        op_work.family,
        op_work.dtype,
        op_claim.time_ns,
        op_claim.matrix_flop,
        if(is_recompute, 0, op_claim.model_flop) as model_flop,
        if(is_recompute, 0, op_claim.dense_flop) as dense_flop,
        op_claim.vector_flop,
        op_claim.bytes,
        gpu_event.category = 'gpu_memcpy' and is_copy_over_link(gpu_event.name)
            as is_link_copy,
        coalesce(op_work.matrix_flop > 0, false) as has_products,
        unit_of_work(gpu_event.unit, op_claim.matrix_flop, op_work.dtype) as unit,
        case when unit is not null then coalesce(gpu_event.precision, op_work.dtype) end as "precision"
    from gpu_event
    left join op_claim on gpu_event.rank = op_claim.rank and gpu_event.event_id = op_claim.event_id
    left join op_work on op_claim.rank = op_work.rank and op_claim.work_id = op_work.event_id
    left join cpu_event as working_op on op_claim.rank = working_op.rank and op_claim.work_id = working_op.event_id
)

select
    timed.rank,
    timed.event_id,
    timed.device,
    timed.class,
    timed.short_name,
    timed.step,
    timed.phase,
    timed.module_id,
    timed.module_path,
    timed.is_recompute,
    timed.is_before,
    timed.dur_ns,
    owned_time.owned_ns,
    timed.work_id,
    timed.op,
    timed.shape_id,
    timed.family,
    timed.dtype,
    timed.has_products,
    timed.time_ns,
    timed.matrix_flop,
    timed.model_flop,
    timed.dense_flop,
    timed.vector_flop,
    timed.bytes,
    timed.unit,
    timed.precision,
    timed.matrix_flop_per_s,
    timed.vector_flop_per_s,
    timed.bytes_per_s,
    timed.matrix_ns,
    timed.vector_ns,
    timed.memory_ns,
    timed.uncached_ns,
    timed.roofline_ns,
    timed.bound
from with_roofline('work', 'device_peak', 'gpu_model') as timed
inner join owned_time on timed.rank = owned_time.rank and timed.event_id = owned_time.event_id
