-- Graph breaks: torch.compile ends a graph in the middle of a function, python runs, and the next graph begins.
--
-- Condition: a region of compiled code inside a region with another number. The rest of a function is compiled as a
-- separate function, called from the first region (torch/_dynamo/resume_execution.py; the number of a region is its
-- compile id, torch/_dynamo/utils.py). If the trace has python stacks, the name of this function,
-- `torch_dynamo_resume_in_NAME_at_LINE`, shows where the graph ended. Bound: the time from the end of the first graph
-- to the next region takes no time. Source: PyTorch, "Working with Graph Breaks" (torch.compile programming model).
--
-- :reads name_info, cpu_event, step, user_frame
-- :only_with name_info where is_compiled_region(name)
-- :finding breaks between graphs of compiled code, {name}
-- :remedy Move the code that ends the graph out of the compiled function (print, logging, .item(), branches on values
--     of tensors, functions of other libraries), or compile with fullgraph=True, which fails at the line and says why;
--     TORCH_LOGS=graph_breaks lists all reasons.
with op_of_step as (
    -- One row per op or annotation of the step.
    select
        cpu_event.event_id,
        cpu_event.name,
        cpu_event.track_id,
        cpu_event.depth,
        cpu_event.start_ns,
        cpu_event.end_ns
    from cpu_event
    inner join step
        on
            cpu_event.rank = step.rank
            and cpu_event.start_ns >= step.start_ns
            and cpu_event.start_ns < step.end_ns
    where step.rank = $rank and step.step = $step and cpu_event.category in ('cpu_op', 'user_annotation')
),

-- One row per region of compiled code, with the number of the compiled function.
region as (
    select
        op_of_step.*,
        regexp_extract(op_of_step.name, '(\d+)/\d+', 1) as code_number
    from op_of_step
    inner join name_info on op_of_step.name = name_info.name
    where
        name_info.rank = $rank
        and name_info.category = 'cpu_op'
        and is_compiled_region(name_info.name)
),

-- One row per region inside another function's region, with the start of the innermost enclosing region.
resumed_region as (
    select
        region.event_id,
        region.track_id,
        region.start_ns,
        region.end_ns,
        max(around.start_ns) as around_start_ns
    from region
    inner join region as around
        on
            region.track_id = around.track_id
            and region.depth > around.depth
            and around.start_ns <= region.start_ns
            and around.end_ns >= region.end_ns
            and around.code_number != region.code_number
    group by all
),

-- One row per break, with the end of the graph before it: the end of the graph's mark, or else of its last op.
graph_end as (
    select
        resumed_region.event_id,
        resumed_region.track_id,
        resumed_region.start_ns as resumed_ns,
        resumed_region.end_ns as resumed_end_ns,
        coalesce(
            max(op_of_step.end_ns) filter (
                where is_compiled_graph(op_of_step.name)
            ),
            max(op_of_step.end_ns) filter (where not starts_with(op_of_step.name, 'TorchDynamo')),
            max(resumed_region.around_start_ns)
        ) as end_ns
    from resumed_region
    left join op_of_step
        on
            resumed_region.track_id = op_of_step.track_id
            and resumed_region.around_start_ns <= op_of_step.start_ns
            and resumed_region.start_ns >= op_of_step.end_ns
    group by all
),

resumed_frame as (
    select
        track_id,
        start_ns,
        'in ' || regexp_extract(function, 'resume_in_(.+)_at_\d+', 1) || ' (' || source || ')' as name
    from user_frame
    where rank = $rank and contains(function, 'torch_dynamo_resume_in_')
)

select
    graph_end.event_id,
    'host' as effect,
    graph_end.track_id,
    graph_end.end_ns as start_ns,
    graph_end.resumed_ns as end_ns,
    graph_end.resumed_ns - graph_end.end_ns as saved_ns,
    coalesce(min_by(resumed_frame.name, resumed_frame.start_ns), 'in one function') as name
from graph_end
left join resumed_frame
    on
        graph_end.track_id = resumed_frame.track_id
        and graph_end.resumed_ns <= resumed_frame.start_ns
        and graph_end.resumed_end_ns > resumed_frame.start_ns
group by all
order by graph_end.event_id
