-- Work of ops on lists of tensors: concatenation, `_foreach_…`, and fused optimizers.
--
-- Of a list the trace has the shapes and not the type, which the name of the kernel tells: PyTorch's kernels have it,
-- or its size, as an argument of their template. Of lists with more than 30 tensors it has not even the shapes: their
-- work is unknown. A concatenation reads and writes all elements. An op of `_foreach_` reads all its lists and writes
-- one as long as the first (but `writes=0`: it only writes one, or reads one). A fused optimizer reads parameters,
-- gradients and its state, which are as long as each other, and writes all but the gradients, with `steps` FLOP per
-- parameter.
--
-- :reads op_shape, op_call, launch, event, dtypes
-- :only_with op_shape where family in ('concatenation', 'foreach', 'fused_optimizer')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the elements; NULL where the kernel does not tell
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the first list
-- :column n BIGINT             NULL
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   none: 0
-- :column model_flop BIGINT    none: 0
-- :column dense_flop BIGINT    none: 0
-- :column vector_flop BIGINT   steps times elements
-- :column bytes BIGINT         what is read and written once; NULL where the kernel does not tell the type
-- :column evidence VARCHAR     shapes
with list as (
    select
        shape_id,
        family,
        roles,
        list_counts[1] as first_count,
        list_sum(list_counts) as count,
        list_count(list_filter(list_counts, lambda each: each = list_counts[1])) as long_lists
    from op_shape
    where family in ('concatenation', 'foreach', 'fused_optimizer') and list_counts[1] > 0
),

-- Elements by the names of kernels: of known type, or of known size alone. NULL where calls differ.
element as (
    select
        op_call.shape_id,
        list_distinct(list(nullif(
            regexp_extract(kernel.name, 'Functor<(float|double|c10::Half|c10::BFloat16)\b', 1), ''
        ))) as type_names,
        list_distinct(list(try_cast(regexp_extract(kernel.name, 'OpaqueType<(\d+)u?>', 1) as bigint))) as sizes
    from op_call
    inner join launch on op_call.event_id = launch.op_id
    inner join event as kernel on launch.event_id = kernel.event_id
    where op_call.shape_id in (select shape_id from list)
    group by op_call.shape_id
),

sized as (
    select
        list.*,
        dtypes.word as dtype,
        coalesce(dtypes.bytes, if(len(element.sizes) = 1 and len(element.type_names) = 0, element.sizes[1], null))
            as item_bytes
    from list
    left join element on list.shape_id = element.shape_id
    left join dtypes on len(element.type_names) = 1 and element.type_names[1] = dtypes.name
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
        when 'foreach' then count + first_count * coalesce(roles['writes'], 1)
        else (2 * long_lists - 1) * first_count
    end) as bytes,
    'shapes' as evidence
from sized
