-- Arguments of distinct op calls.
--
-- The profiler leaves out the shapes of lists of more than 30 tensors (TENSOR_LIST_DISPLAY_LENGTH_LIMIT in
-- torch/csrc/profiler/util.h). These lists look empty.
--
-- :reads shaped_call, dtypes
-- :column shape_id BIGINT      the call
-- :column position BIGINT      position of the argument, from 1
-- :column dtype VARCHAR        type of the tensor; NULL for other arguments, and for types without a rule
-- :column item_bytes DOUBLE    bytes per element
-- :column is_float BOOLEAN     the type is a floating-point type
-- :column sizes BIGINT[]       sizes of the tensor
-- :column read_count DOUBLE    elements of the tensor distinct in memory
-- :column list_count DOUBLE    elements of all tensors of a list; NULL for other arguments
with argument as (
    select
        shape_id,
        generate_subscripts(types, 1) as position,
        types[position] as type_name,
        dims[position] as dims,
        try_cast(strides[position] as bigint[]) as strides
    from (
        select
            shape_id,
            json_extract_string(input_types, '$[*]') as types,
            json_extract(input_dims, '$[*]') as dims,
            json_extract(input_strides, '$[*]') as strides
        from shaped_call
    ) as parsed
),

sized_argument as (
    select
        argument.*,
        element_type.word as dtype,
        element_type.bytes::double as item_bytes,
        element_type.is_float,
        case
            when element_type.name is not null or (type_name not like '%List%' and json_array_length(dims) > 0)
                then try_cast(argument.dims as bigint[])
        end as sizes
    from argument
    left join (select *, bytes_of_dtype(name) as bytes from dtypes) as element_type
        on argument.type_name = element_type.name
)

select
    shape_id,
    position,
    dtype,
    item_bytes,
    is_float,
    sizes,
    element_count(list_transform(
        range(1, len(sizes) + 1),
        lambda place: if(strides[place] = 0, least(sizes[place], 1), sizes[place])
    )) as read_count,
    case when type_name = 'TensorList' then list_sum(list_transform(
        try_cast(dims as bigint[][]), lambda each: element_count(each)
    )) end as list_count
from sized_argument
