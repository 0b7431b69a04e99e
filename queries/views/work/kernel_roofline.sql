-- Each GPU event: what it computes and moves by the shapes of its op, and how fast its GPU could be with that at best.
--
-- The roofline is the longest of three times: matrix products at the peak of the unit and precision that the kernel
-- uses, other arithmetic at the peak of the vector units, and the least bytes at the bandwidth of memory (Williams et
-- al., "Roofline", CACM 52(4), 2009). The kernel's name tells unit and precision, else the type of the operands does.
-- Products on vector units are held against these: half precision there adds up in FP32. Copies between devices or to
-- the host do not go at the speed of memory, so they have no such time. All is NULL where shapes, a formula or the
-- GPU's peaks are missing.
--
-- :reads gpu_event, launch, label, model_op, op, name_info, op_claim, op_work, event, owned_time, device_peak,
--     gpu_model
-- :column rank BIGINT              process rank
-- :column event_id BIGINT          the GPU event
-- :column device BIGINT            device number; -1 when the event names none
-- :column class VARCHAR            computation, communication or memory
-- :column short_name VARCHAR       its name, without namespaces, template arguments and tile sizes
-- :column step BIGINT              step that launched it; NULL outside every step or when unlinked
-- :column phase VARCHAR            phase that launched it, likewise
-- :column module_id BIGINT         module that launched it; NULL where none is known
-- :column module_path VARCHAR      its path
-- :column is_recompute BOOLEAN     it repeats work of the forward pass, as checkpointing does
-- :column is_before BOOLEAN        it was launched before the trace began
-- :column dur_ns BIGINT            its duration
-- :column owned_ns BIGINT          the part of it that counts to this event where several run (`owned_time`)
-- :column work_id BIGINT           the op whose work it does; NULL, like all that follows, where that is unknown
-- :column op VARCHAR               name of that op, or of the innermost op around the launch where no work is known
-- :column shape_id BIGINT          the op's arguments, as in `op_work`
-- :column family VARCHAR           which formula counted the work
-- :column dtype VARCHAR            type of the operands
-- :column has_products BOOLEAN     the op computes matrix products, in this event or another one of it
-- :column time_ns BIGINT           its duration without time in which an earlier event of the same op ran
-- :column matrix_flop BIGINT       its share of the op's work, as in `op_claim`; likewise what follows
-- :column model_flop BIGINT        what the model needs of it; 0 if it is recomputed
-- :column dense_flop BIGINT        the same, with causal attention in full; 0 if it is recomputed
-- :column vector_flop BIGINT       other arithmetic
-- :column bytes BIGINT             least bytes
-- :column unit VARCHAR             matrix (tensor cores) or vector: where products run; NULL without products
-- :column precision VARCHAR        in which precision
-- :column matrix_flop_per_s DOUBLE peak of the GPU for these products; NULL if not known
-- :column vector_flop_per_s DOUBLE peak of its vector units
-- :column bytes_per_s DOUBLE       bandwidth of its memory
-- :column matrix_ns DOUBLE         least time for the products
-- :column vector_ns DOUBLE         least time for other arithmetic
-- :column memory_ns DOUBLE         least time for the bytes
-- :column uncached_ns DOUBLE       the same without what the last cache before memory can hold, before and after the
--                                  work; NULL if its size is not known
-- :column roofline_ns DOUBLE       the longest of the first three
-- :column bound VARCHAR            which it is: matrix, vector or memory
with work as ( -- noqa: ST03
    -- GPU events with the work that they do. Not by `gpu_work`, which looks up twice as much.
    select
        gpu_event.rank,
        gpu_event.event_id,
        gpu_event.device,
        gpu_event.class,
        gpu_event.short_name,
        label.step,
        label.phase,
        label.module_id,
        model_op.path as module_path,
        coalesce(label.pass = 'recompute', false) as is_recompute,
        coalesce(label.bucket = 'pre_window', false) as is_before,
        gpu_event.dur_ns,
        op_claim.work_id,
        op_event.name as op,
        op_work.shape_id,
        op_work.family,
        op_work.dtype,
        op_claim.time_ns,
        op_claim.matrix_flop,
        if(is_recompute, 0, op_claim.model_flop) as model_flop,
        if(is_recompute, 0, op_claim.dense_flop) as dense_flop,
        op_claim.vector_flop,
        op_claim.bytes,
        gpu_event.category = 'gpu_memcpy' and regexp_matches(gpu_event.name, 'HtoD|DtoH|PtoP|HtoH|Host')
            as is_link_copy,
        coalesce(op_work.matrix_flop > 0, false) as has_products,
        unit_of_work(name_info.unit, op_claim.matrix_flop, op_work.dtype) as unit,
        case when unit is not null then coalesce(
            precision_of_kernel(name_info.unit, name_info.precision, op.input_types), op_work.dtype
        ) end as "precision"
    from gpu_event
    inner join launch on gpu_event.rank = launch.rank and gpu_event.event_id = launch.event_id
    inner join label on gpu_event.rank = label.rank and gpu_event.event_id = label.event_id
    left join op on launch.rank = op.rank and launch.op_id = op.event_id
    left join name_info
        on (gpu_event.rank, gpu_event.category, gpu_event.name) = (name_info.rank, name_info.category, name_info.name)
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    left join op_claim on gpu_event.rank = op_claim.rank and gpu_event.event_id = op_claim.event_id
    left join op_work on op_claim.rank = op_work.rank and op_claim.work_id = op_work.event_id
    left join event as op_event
        on launch.rank = op_event.rank and coalesce(op_claim.work_id, launch.op_id) = op_event.event_id
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
