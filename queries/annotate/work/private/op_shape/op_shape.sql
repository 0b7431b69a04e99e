-- Distinct op calls with a known formula: the op, and the shapes and values of the arguments.
--
-- A model calls few ops with the same shapes many times. Formulas read this table instead of every call. Rules assign
-- roles to an op's arguments (`rules/op_signatures.csv`); the user's rules (`op_signature`) come first. Positions count
-- from 0, as in torch's schemas. The lists here have one element per argument.
--
-- :reads shaped_call, shaped_argument
-- :column shape_id BIGINT          number of the row
-- :column name VARCHAR             name of the op
-- :column family VARCHAR           family of the formula
-- :column roles MAP(VARCHAR, BIGINT) the position of the argument that plays each role, or a number of the rule
-- :column in_place BOOLEAN         the op writes its result into its first argument
-- :column argument_count BIGINT    number of arguments
-- :column sizes BIGINT[][]         sizes of each tensor; NULL for other arguments, as are the following columns
-- :column counts DOUBLE[]          elements of each tensor
-- :column read_counts DOUBLE[]     distinct elements: dimensions with stride 0 count as size 1
-- :column item_bytes DOUBLE[]      bytes per element
-- :column dtypes VARCHAR[]         the type, as in `op_work`
-- :column floats BOOLEAN[]         the type is a floating-point type
-- :column list_counts DOUBLE[]     elements of all tensors of each tensor list argument; NULL for other arguments
-- :column concrete VARCHAR[]       values of arguments other than tensors, as text; NULL if not recorded
-- :column input_dims JSON          the shapes, as recorded
-- :column input_types JSON         the types, as recorded
-- :column input_strides JSON       the strides, as recorded
-- :column concrete_inputs JSON     the values, as recorded
with argument_list as (
    select
        shape_id,
        count(*) as argument_count,
        list(sizes order by position) as sizes,
        list(element_count(sizes) order by position) as counts,
        list(read_count order by position) as read_counts,
        list(item_bytes order by position) as item_bytes,
        list(dtype order by position) as dtypes,
        list(is_float order by position) as floats,
        list(list_count order by position) as list_counts
    from shaped_argument
    group by shape_id
    -- A tensor without sizes is damaged.
    having bool_and(element_count(sizes) is not null or (dtype is null and sizes is null))
)

select
    shaped_call.shape_id,
    shaped_call.name,
    shaped_call.family,
    shaped_call.roles,
    regexp_matches(shaped_call.name, '[^_]_$') as in_place,
    argument_list.* exclude (shape_id),
    json_extract_string(shaped_call.concrete_inputs, '$[*]') as concrete,
    shaped_call.input_dims,
    shaped_call.input_types,
    shaped_call.input_strides,
    shaped_call.concrete_inputs
from shaped_call
inner join argument_list on shaped_call.shape_id = argument_list.shape_id
