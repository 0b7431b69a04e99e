-- Op attributes from the text of PyTorch's ranges.
select
    event_id,
    sequence_number,
    null::bigint as forward_thread,
    record_function_id,
    null::bigint as profiler_index,
    input_dims,
    null::varchar as input_types,
    null::varchar as input_strides,
    null::varchar as concrete_inputs,
    null::double as kernel_flop,
    null::double as kernel_gb,
    null::varchar as module_hierarchy,
    null::varchar as call_stack,
    null::varchar as trace_name,
    null::bigint as trace_iteration
from batch
where sequence_number is not null or record_function_id is not null or input_dims is not null
