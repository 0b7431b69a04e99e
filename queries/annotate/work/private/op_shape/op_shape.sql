-- One row per different call of an op whose work can be counted: the op, and the shapes and values of its arguments.
--
-- A model calls few ops with the same shapes many times, so formulas read this table and not every call. Which argument
-- of an op is what, is a rule (`rules/op_signatures.csv`); those of the user (`op_signature`) come first. Positions
-- count from 0, as in the schemas of torch; the lists here have an element for each argument.
--
-- :reads shaped_call, shaped_argument
-- :column shape_id BIGINT          number of the row
-- :column name VARCHAR             name of the op
-- :column family VARCHAR           which formula counts its work
-- :column roles MAP(VARCHAR, BIGINT) the position of the argument that plays each role, or a number of the rule
-- :column in_place BOOLEAN         the op writes its result into its first argument
-- :column argument_count BIGINT    arguments
-- :column sizes BIGINT[][]         sizes of each tensor; NULL for other arguments, and likewise what follows
-- :column counts DOUBLE[]          elements of each tensor
-- :column read_counts DOUBLE[]     different elements: of dimensions with stride 0, one is read again and again
-- :column item_bytes DOUBLE[]      bytes of an element
-- :column dtypes VARCHAR[]         the type, as in `op_work`
-- :column floats BOOLEAN[]         the type is of floating point
-- :column list_counts DOUBLE[]     elements of all tensors of each argument that is a list of them; NULL for others
-- :column concrete VARCHAR[]       values of those that are no tensors, as text; NULL when not recorded
-- :column input_dims JSON          the shapes, as recorded
-- :column input_types JSON         the types, as recorded
-- :column input_strides JSON       the strides, as recorded
-- :column concrete_inputs JSON     the values, as recorded
with arguments as (
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
    -- A tensor without sizes is damage.
    having bool_and(element_count(sizes) is not null or (dtype is null and sizes is null))
)

select
    shaped_call.shape_id,
    shaped_call.name,
    shaped_call.family,
    shaped_call.roles,
    regexp_matches(shaped_call.name, '[^_]_$') as in_place,
    arguments.* exclude (shape_id),
    json_extract_string(shaped_call.concrete_inputs, '$[*]') as concrete,
    shaped_call.input_dims,
    shaped_call.input_types,
    shaped_call.input_strides,
    shaped_call.concrete_inputs
from shaped_call
inner join arguments on shaped_call.shape_id = arguments.shape_id
