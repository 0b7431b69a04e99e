-- Work of ops on lists of tensors: concatenation, `_foreach_…`, and fused optimizers.
--
-- For a list, the trace has the shapes but not the type. The type is taken from the kernel's name: PyTorch's kernels
-- have the type, or its size, as a template argument. For lists of more than 30 tensors, the shapes are also missing,
-- and the work is unknown. A concatenation reads and writes all elements. A `_foreach_` op reads all lists and writes
-- one list as long as the first (with `writes=0`: only writes or only reads a list). A fused optimizer reads
-- parameters, gradients and its state, all of equal length, and writes all except the gradients, with `steps` FLOP per
-- parameter.
--
-- :reads op_shape, op_call, launch, event, dtypes
-- :only_with op_shape where family in ('concatenation', 'foreach', 'fused_optimizer')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the elements; NULL if not in the kernel's name
-- :column batch BIGINT         NULL
-- :column m BIGINT             elements of the first list
-- :column n BIGINT             NULL
-- :column k BIGINT             NULL
-- :column matrix_flop BIGINT   always 0
-- :column model_flop BIGINT    always 0
-- :column dense_flop BIGINT    always 0
-- :column vector_flop BIGINT   steps times elements
-- :column bytes BIGINT         bytes read and written, each counted once; NULL for an unknown type
-- :column evidence VARCHAR     shapes
with list_call as (
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

-- Element types from the names of kernels, or only the element size. Joined only if all calls agree.
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
    where op_call.shape_id in (select shape_id from list_call)
    group by op_call.shape_id
),

sized_call as (
    select
        list_call.*,
        element_type.word as dtype,
        coalesce(
            bytes_of_dtype(element_type.name),
            if(len(element.sizes) = 1 and len(element.type_names) = 0, element.sizes[1], null)
        ) as item_bytes
    from list_call
    left join element on list_call.shape_id = element.shape_id
    left join dtypes as element_type
        on len(element.type_names) = 1 and element.type_names[1] = element_type.name
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
from sized_call
