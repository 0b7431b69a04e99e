-- Work of ops, from what the profiler recorded of their arguments.
--
-- Sizes are DOUBLE, as damaged shapes multiply to more than any integer: up to 9e15 they are exact.

-- Elements of a tensor of these sizes; one of no dimension has one. NULL without a tensor.
create or replace macro element_count(sizes) as
list_product(sizes || [1::bigint]);

-- The numbers of a list in text, such as `[2, 2]`, or of a single one.
create or replace macro numbers_of(text) as
list_transform(regexp_extract_all(text, '-?\d+'), lambda number: try_cast(number as bigint));

-- Whether the text of an argument says yes.
create or replace macro is_true(text) as
lower(text) in ('true', '1');

-- The value for an axis of a list that has one for each, or one for all, or none.
create or replace macro of_axis(list, axis, otherwise) as
coalesce(if(len(list) = 1, list[1], list[axis]), otherwise);

-- A count as an integer; NULL if there is none, or if it is too large for one.
create or replace macro whole(number) as
try_cast(number as bigint);

-- Elements along one axis after a window has moved over it, of a pooling or convolution; NULL for a stride of 0.
create or replace macro pooled_size(size, kernel, stride, pad, dilation) as
(size + 2 * pad - dilation * (kernel - 1) - 1) // nullif(stride, 0) + 1;

-- Elements along one axis of what a transposed convolution gives.
create or replace macro widened_size(size, kernel, stride, pad, dilation, output_padding) as
(size - 1) * stride - 2 * pad + dilation * (kernel - 1) + output_padding + 1;
