-- Functions running in the steps, sampled by a capture or by Nsight Systems, located by the marks of the step.
--
-- `analyze` samples the python stack of the training thread before the recording begins, and stores the counts in the
-- trace (`hotline_samples`). Marks are calls of the data loader, the model, the loss, backward, `Optimizer.step` and
-- `zero_grad` on the stack. A place is inside a mark or between two marks. In both cases, `after_mark` and
-- `before_mark` are the marks before and after the place. Steps repeat: the last mark of a step comes before the first
-- mark of the next step, even at both ends of the sampling. A mark much shorter than the sampling interval is missed in
-- some steps; the place is then between the neighbouring marks.
--
-- User code is code outside of the standard library, installed packages, torch and this package. `sample_count` counts
-- each sample once among the user's rows: for the user's innermost function on the stack. Rows with `is_user = false`
-- have two sources. They show the innermost function of those samples if it is not user code (`fsync` called by
-- `save_grid`), and samples without any user code. The training loop (`is_loop`) has a row per line; other functions
-- have one row per place.
--
-- A capture's samples show the warm-up steps, never the recorded steps. For a recorded step, they are likely but not
-- certain. Nsight Systems samples the recorded steps themselves (`cpu_sample`). The marks are then the phases of the
-- main thread. A function is the training loop if it is on the stack of nearly all samples of two marks
-- (`around_mark_share()`); the stack of such a sample does not show its mark, so `is_caller` is false.
--
-- :reads rank_info, event, event_args, main_track, phase_span
-- :column after_mark VARCHAR       previous mark, named after its phase; NULL without marks
-- :column before_mark VARCHAR      next mark, named after its phase; NULL without marks
-- :column inside_mark VARCHAR      mark with its call on the stack; NULL between marks
-- :column function VARCHAR         qualified name of the function
-- :column file VARCHAR             file of the function
-- :column line BIGINT              most frequent line of the function in these samples, for example the line of a call
-- :column first_line BIGINT        line where the function begins
-- :column module VARCHAR           python module of the function; NULL if unknown
-- :column sample_count BIGINT      samples with the function as the innermost of its kind (see above)
-- :column inclusive_count BIGINT   samples with the function on the stack, also around other user functions
-- :column gap_sample_count BIGINT  all samples with the same marks after, before and inside
-- :column is_user BOOLEAN          the function is user code
-- :column is_loop BOOLEAN          the function also calls marks: the training loop, or code around it
-- :column is_caller BOOLEAN        the function calls the mark around the place: `line` is the line of the call
with stored_entry as (
    -- Entries of the list stored by the capture.
    select
        unnest(
            json_transform(
                json_extract(metadata, '$.hotline_samples.frames'),
                '[{
                    "after": "VARCHAR", "before": "VARCHAR", "inside": "VARCHAR", "function": "VARCHAR",
                    "file": "VARCHAR", "line": "BIGINT", "first_line": "BIGINT", "module": "VARCHAR",
                    "count": "BIGINT", "inclusive": "BIGINT", "gap": "BIGINT", "is_user": "BOOLEAN",
                    "is_loop": "BOOLEAN", "is_caller": "BOOLEAN"
                }]'
            )
        ) as frame
    from rank_info
),

-- Phases of the main thread, with the phases before and after. Steps repeat, so the last comes before the first.
mark as (
    select
        start_ns,
        end_ns,
        phase,
        coalesce(lag(phase) over in_order, last(phase) over whole) as previous_phase,
        coalesce(lead(phase) over in_order, first(phase) over whole) as next_phase
    from phase_span
    where is_main and phase != 'other' and end_ns > start_ns
    window
        in_order as (order by phase_span.start_ns),
        whole as (order by phase_span.start_ns rows between unbounded preceding and unbounded following)
),

-- The last mark, which is also before the first.
final as (
    select * from mark
    order by start_ns desc
    limit 1
),

-- Different stacks at different places of the step, each with the number of samples.
stack_at_place as (
    select
        event_args.args,
        case when event.start_ns < mark.end_ns then mark.phase end as inside_mark,
        case
            when event.start_ns < mark.end_ns then mark.previous_phase
            else coalesce(mark.phase, (select final.phase from final))
        end as after_mark,
        coalesce(mark.next_phase, (select final.next_phase from final)) as before_mark,
        count(*) as sample_count
    from event
    inner join main_track on event.track_id = main_track.track_id
    inner join event_args on event.event_id = event_args.event_id
    asof left join mark on event.start_ns >= mark.start_ns
    where event.category = 'cpu_sample'
    group by all
),

-- Frames of each stack, numbered from the innermost.
stack_frame as (
    select
        args,
        unnest(frames, recursive := true),
        unnest(range(len(frames))) as depth
    from (
        select
            args,
            json_transform(
                json_extract(args, '$.stack'),
                '[{"function": "VARCHAR", "file": "VARCHAR", "line": "BIGINT", "is_python": "BOOLEAN"}]'
            ) as frames
        from stack_at_place
        group by args
    )
),

-- Functions of the user on each stack, once for a recursive function, and the innermost function of another kind.
counted_frame as (
    select
        args,
        function,
        file,
        arg_min(line, depth) as line,
        coalesce(is_python and code_origin(file) = 'user', false) as is_user,
        min(depth) = min(min(depth)) over (partition by args, is_user) as is_innermost
    from stack_frame
    where function is not null
    group by args, function, file, is_user
    qualify is_user or min(depth) = 0
),

-- Functions on the stack of nearly all samples of two or more marks.
loop_function as (
    select
        function,
        file
    from (
        select
            counted_frame.function,
            counted_frame.file,
            stack_at_place.inside_mark,
            sum(stack_at_place.sample_count) as sample_count
        from stack_at_place
        inner join counted_frame on stack_at_place.args = counted_frame.args
        where counted_frame.is_user and stack_at_place.inside_mark is not null
        group by all
    ) as function_in_mark
    inner join (
        select
            inside_mark,
            sum(sample_count) as sample_count
        from stack_at_place
        group by inside_mark
    ) as mark_total on function_in_mark.inside_mark = mark_total.inside_mark
    where function_in_mark.sample_count >= around_mark_share() * mark_total.sample_count
    group by function, file
    having count(*) > 1
),

sampled_function as (
    select
        stack_at_place.after_mark,
        stack_at_place.before_mark,
        stack_at_place.inside_mark,
        counted_frame.function,
        counted_frame.file,
        counted_frame.is_user,
        loop_function.function is not null as is_loop,
        case when is_loop then counted_frame.line end as loop_line,
        mode(counted_frame.line) as line,
        sum(case when counted_frame.is_innermost then stack_at_place.sample_count else 0 end)::bigint as sample_count,
        sum(stack_at_place.sample_count)::bigint as inclusive_count
    from stack_at_place
    inner join counted_frame on stack_at_place.args = counted_frame.args
    left join loop_function
        on
            counted_frame.is_user
            and counted_frame.function = loop_function.function
            and counted_frame.file is not distinct from loop_function.file
    group by all
),

place_total as (
    select
        after_mark,
        before_mark,
        inside_mark,
        sum(sample_count)::bigint as sample_count
    from stack_at_place
    group by all
)

select
    frame.after as after_mark,
    frame.before as before_mark,
    frame.inside as inside_mark,
    frame.function,
    frame.file,
    frame.line,
    frame.first_line,
    frame.module,
    coalesce(frame.count, 0) as sample_count,
    coalesce(frame.inclusive, 0) as inclusive_count,
    coalesce(frame.gap, 0) as gap_sample_count,
    coalesce(frame.is_user, false) as is_user,
    coalesce(frame.is_loop, false) as is_loop,
    coalesce(frame.is_caller, false) as is_caller
from stored_entry
where frame.function is not null
union all
select
    sampled_function.after_mark,
    sampled_function.before_mark,
    sampled_function.inside_mark,
    sampled_function.function,
    sampled_function.file,
    sampled_function.line,
    null as first_line,
    null as module,
    sampled_function.sample_count,
    sampled_function.inclusive_count,
    place_total.sample_count as gap_sample_count,
    sampled_function.is_user,
    sampled_function.is_loop,
    false as is_caller
from sampled_function
inner join place_total
    on
        sampled_function.after_mark is not distinct from place_total.after_mark
        and sampled_function.before_mark is not distinct from place_total.before_mark
        and sampled_function.inside_mark is not distinct from place_total.inside_mark
order by all
