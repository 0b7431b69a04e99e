-- Work of ops on lists of tensors: concatenation, `_foreach_…`, and fused optimizers.
--
-- Of a list the trace has the shapes and not the type, which the name of the kernel tells: PyTorch's kernels have it,
-- or its size, as an argument of their template. Of lists with more than 30 tensors it has not even the shapes: their
-- work is unknown. A concatenation reads and writes all elements. An op of `_foreach_` reads all its lists and writes
-- one as long as the first. Fused optimizers read and write several lists (`reads`, `writes`), with `steps` FLOP per
-- parameter.
--
-- :reads op_shape, op_call, launch, event
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the elements; NULL where the kernel does not tell
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the first list
-- :column n BIGINT             NULL
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   0
-- :column model_flop BIGINT    0
-- :column dense_flop BIGINT    0
-- :column vector_flop BIGINT   steps times elements
-- :column bytes BIGINT         what is read and written once; NULL where the kernel does not tell the type
-- :column evidence VARCHAR     shapes
with list as (
    select
        shape_id,
        family,
        roles,
        list_counts[1] as first_count,
        list_sum(list_counts) as count
    from op_shape
    where family in ('concatenation', 'foreach', 'fused_optimizer') and list_counts[1] > 0
),

-- Elements by the names of kernels: of known type, or of known size alone.
element as (
    select
        op_call.shape_id,
        min(regexp_extract(kernel.name, 'Functor<(float|double|c10::Half|c10::BFloat16)\b', 1)) as type_name,
        min(try_cast(regexp_extract(kernel.name, 'OpaqueType<(\d+)u?>', 1) as bigint)) as bytes
    from op_call
    inner join launch on op_call.event_id = launch.op_id
    inner join event as kernel on launch.event_id = kernel.event_id
    where op_call.shape_id in (select shape_id from list)
    group by op_call.shape_id
),

sized as (
    select
        list.*,
        case element.type_name
            when 'float' then 'fp32'
            when 'double' then 'fp64'
            when 'c10::Half' then 'fp16'
            when 'c10::BFloat16' then 'bf16'
        end as dtype,
        case element.type_name
            when 'float' then 4
            when 'double' then 8
            when '' then element.bytes
            else 2
        end as item_bytes
    from list
    left join element on list.shape_id = element.shape_id
)

select
    shape_id,
    dtype,
    null::bigint as batch,
    whole(first_count) as m,
    null::bigint as n,
    null::bigint as k,
    0::bigint as matrix_flop,
    0::bigint as model_flop,
    0::bigint as dense_flop,
    whole(first_count * if(family = 'concatenation', 0, coalesce(roles['steps'], 1))) as vector_flop,
    whole(item_bytes * case family
        when 'concatenation' then 2 * count
        when 'foreach' then count + first_count
        else (roles['reads'] + roles['writes']) * first_count
    end) as bytes,
    'shapes' as evidence
from sized
