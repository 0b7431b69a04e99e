-- CPU samples of the recorded time: what a thread ran at a moment. Only Nsight Systems takes such samples.
--
-- The function is the innermost function of the user's code on the stack, else the innermost python function, else the
-- innermost function of all. A stack without python shows the functions of the interpreter and of libraries, and not
-- the program's.
--
-- :reads event, event_args
-- :only_with event where category = 'cpu_sample'
-- :column event_id BIGINT       the event
-- :column track_id BIGINT       thread; NULL if unknown
-- :column start_ns BIGINT       time of the sample
-- :column function VARCHAR      the function (see above)
-- :column file VARCHAR          its file: of python code, else the library; NULL if unknown
-- :column line BIGINT           line of python code; NULL if unknown
-- :column is_user BOOLEAN       the function is user code
-- :column inner_function VARCHAR the innermost function of all
-- :column inner_file VARCHAR    its file or library; NULL if unknown
with stack_text as (
    -- One row per different stack, because many samples have the same.
    select distinct args from event_args
    where event_id in (select event_id from event where category = 'cpu_sample')
),

stack_frame as (
    -- Frames of each stack, numbered from the innermost.
    select
        args,
        unnest(frames) as frame,
        unnest(range(len(frames))) as depth
    from (
        select
            args,
            json_transform(
                json_extract(args, '$.stack'),
                '[{"function": "VARCHAR", "file": "VARCHAR", "line": "BIGINT", "is_python": "BOOLEAN"}]'
            ) as frames
        from stack_text
    )
),

named_stack as (
    select
        args,
        arg_min(
            frame,
            depth + case
                when frame.is_python and code_origin(frame.file) = 'user' then 0
                when frame.is_python then 1000000
                else 2000000
            end
        ) as frame,
        arg_min(frame, depth) as inner_frame
    from stack_frame
    where frame.function is not null
    group by args
)

select
    event.event_id,
    event.track_id,
    event.start_ns,
    named_stack.frame.function,
    named_stack.frame.file,
    named_stack.frame.line,
    coalesce(named_stack.frame.is_python and code_origin(named_stack.frame.file) = 'user', false) as is_user,
    named_stack.inner_frame.function as inner_function,
    named_stack.inner_frame.file as inner_file
from event
inner join event_args on event.event_id = event_args.event_id
inner join named_stack on event_args.args = named_stack.args
where event.category = 'cpu_sample' and event.start_ns is not null
order by event.event_id
