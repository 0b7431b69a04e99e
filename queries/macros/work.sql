-- Work of ops, from what the profiler recorded of their arguments.
--
-- Sizes are DOUBLE, as damaged shapes multiply to more than any integer: up to 9e15 they are exact.

-- Elements of a tensor of these sizes; one of no dimension has one. NULL without a tensor, or if a size is unknown.
create or replace macro element_count(sizes) as
case when list_count(sizes) = len(sizes) then list_product(sizes || [1::bigint]) end;

-- The numbers of a list in text, such as `[2, 2]`, or of a single one.
create or replace macro numbers_of(text) as
list_transform(regexp_extract_all(text, '-?\d+'), lambda number: try_cast(number as bigint));

-- Whether the text of an argument says yes.
create or replace macro is_true(text) as
lower(text) in ('true', '1');

-- The value for an axis of a list that has one for each, or one for all, or none.
create or replace macro of_axis(list, axis, otherwise) as
coalesce(if(len(list) = 1, list[1], list[axis]), otherwise);

-- Bytes of an element of a type that an argument gives as its number (c10/core/ScalarType.h); NULL without one.
create or replace macro bytes_of_type(number) as
case
    when number in ('0', '1', '11', '23', '24', '25', '26') then 1
    when number in ('2', '5', '15') then 2
    when number in ('3', '6', '8') then 4
    when number in ('4', '7', '9') then 8
    when number = '10' then 16
end;

-- A count as an integer; NULL if there is none, or if it is too large for one.
create or replace macro whole(number) as
try_cast(number as bigint);

-- A number of elements that cannot be negative or none; NULL if it is.
create or replace macro positive(number) as
case when number > 0 then number end;

-- Elements along one axis after a window has moved over it, of a convolution or pooling; NULL where none fits. The last
-- window may end behind the padding if `is_ceiled`, but must begin before it.
create or replace macro pooled_size(size, kernel, stride, pad, dilation, is_ceiled) as
positive(if(
    is_ceiled,
    least(
        ceil((size + 2 * pad::double - dilation::double * (kernel::double - 1) - 1) / positive(stride)) + 1,
        ceil((size + pad::double) / positive(stride))
    ),
    floor((size + 2 * pad::double - dilation::double * (kernel::double - 1) - 1) / positive(stride)) + 1
));

-- Elements along one axis of what a transposed convolution gives.
create or replace macro widened_size(size, kernel, stride, pad, dilation, output_padding) as
positive(
    (size::double - 1) * stride - 2 * pad::double + dilation::double * (kernel::double - 1) + output_padding + 1
);
