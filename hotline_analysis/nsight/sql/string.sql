-- Strings of an export, each also converted to a kernel name and to a call name.
select
    id,
    any_value("value") as "value",
    any_value(kernel_name("value")) as kernel_name,
    any_value(call_name("value")) as call_name
from string_row
group by id
