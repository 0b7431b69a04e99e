-- CPU ops and annotations. `claimed` counts the args stored in a column. Shapes and types that are not valid JSON are
-- not stored, because queries parse these columns.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"Sequence number":"BIGINT","Fwd thread id":"BIGINT","Record function id":"BIGINT","Ev Idx":"BIGINT",
              "Profiler Event Index":"BIGINT","Input Dims":"VARCHAR","Input type":"VARCHAR","Input Strides":"VARCHAR",
              "Concrete Inputs":"VARCHAR","kernel_flop":"DOUBLE","kernel_num_gb":"DOUBLE","Module Hierarchy":"VARCHAR","Call stack":"VARCHAR",
              "Trace name":"VARCHAR","Trace iteration":"BIGINT"}'
        ) as a
    from batch
    where category in ('cpu_op', 'user_annotation') and args is not null
)

select
    event_id,
    a."Sequence number" as sequence_number,
    a."Fwd thread id" as forward_thread,
    a."Record function id" as record_function_id,
    coalesce(a."Ev Idx", a."Profiler Event Index") as profiler_index,
    case when json_valid(a."Input Dims") then a."Input Dims" end as input_dims,
    case when json_valid(a."Input type") then a."Input type" end as input_types,
    case when json_valid(a."Input Strides") then a."Input Strides" end as input_strides,
    case when json_valid(a."Concrete Inputs") then a."Concrete Inputs" end as concrete_inputs,
    a.kernel_flop,
    a.kernel_num_gb as kernel_gb,
    nullif(a."Module Hierarchy", '') as module_hierarchy,
    nullif(a."Call stack", '') as call_stack,
    a."Trace name" as trace_name,
    a."Trace iteration" as trace_iteration,
    (a."Trace name" is not null)::integer + (a."Trace iteration" is not null)::integer
    + (a."Sequence number" is not null)::integer + (a."Fwd thread id" is not null)::integer
    + (a."Record function id" is not null)::integer
    + (a."Ev Idx" is not null or a."Profiler Event Index" is not null)::integer
    + (input_dims is not null)::integer + (input_types is not null)::integer
    + (input_strides is not null)::integer + (concrete_inputs is not null)::integer
    + (a.kernel_flop is not null)::integer + (a.kernel_num_gb is not null)::integer
    + (a."Module Hierarchy" is not null)::integer + (a."Call stack" is not null)::integer as claimed
from parsed_event
