-- Forward passes of a training step without a backward pass: an evaluation, a rollout, samples for a picture.
--
-- Condition: a step with a backward pass, and with forward passes after its last backward pass and optimizer whose ops
-- have no backward nodes in the trace. One shared sequence number is not evidence of a backward pass, because an op
-- without a node has the number of the next node (torch/csrc/autograd/profiler). Bound: the CPU time of these passes,
-- from the first to the last, and the GPU work launched by them take no time. Source: PyTorch, "Autograd mechanics":
-- inference mode and no-grad mode; Lightning, `check_val_every_n_epoch` and `val_check_interval`.
--
-- :reads phase_span, step, cpu_event, op, gpu_event, user_frame, user_region, sampled_frame
-- :only_with phase_span where phase = 'backward'
-- :finding stretches of forward passes after the optimizer, without a backward pass, {name}
-- :remedy Evaluate every some steps or once per epoch, on a part of the data and with a larger batch, inside
--     torch.inference_mode(); do not read values back for each batch.
with span_of_step as (
    -- One row per phase of the main thread in the step.
    select phase_span.*
    from phase_span
    inner join step
        on
            phase_span.rank = step.rank
            and phase_span.start_ns >= step.start_ns
            and phase_span.start_ns < step.end_ns
    where step.rank = $rank and step.step = $step and phase_span.is_main
),

-- One row: the end of the last backward pass or optimizer, in a step with a backward pass.
last_update as (
    select max(end_ns) as end_ns
    from span_of_step
    where phase in ('backward', 'clipping', 'optimizer')
    having bool_or(phase = 'backward')
),

-- One row per thread: from the first forward pass after the last update to the end of the last one.
stretch as (
    select
        span_of_step.track_id,
        min(span_of_step.start_ns) filter (where span_of_step.phase = 'forward') as start_ns,
        max(span_of_step.end_ns) as end_ns
    from span_of_step
    inner join last_update on span_of_step.start_ns >= last_update.end_ns
    where span_of_step.phase in ('forward', 'loss')
    group by span_of_step.track_id
    having bool_or(span_of_step.phase = 'forward')
),

-- One row per op in the stretch.
forward_op as (
    select
        cpu_event.event_id,
        cpu_event.start_ns,
        op.sequence_number
    from stretch
    inner join cpu_event
        on
            cpu_event.rank = $rank
            and stretch.track_id = cpu_event.track_id
            and cpu_event.start_ns >= stretch.start_ns
            and cpu_event.start_ns < stretch.end_ns
    left join op on cpu_event.rank = op.rank and cpu_event.event_id = op.event_id
    where cpu_event.category = 'cpu_op'
),

-- One row: the number of distinct sequence numbers shared with later backward nodes.
shared_count as (
    select count(distinct forward_op.sequence_number) as number_count
    from forward_op
    inner join op as node on node.rank = $rank and forward_op.sequence_number = node.sequence_number
    inner join cpu_event on node.rank = cpu_event.rank and node.event_id = cpu_event.event_id
    where node.forward_thread > 0 and cpu_event.start_ns > forward_op.start_ns
),

-- One row per call of a user function, or per user region.
named_code as (
    select
        'in ' || function || ' (' || source || ')' as name,
        track_id,
        depth,
        start_ns,
        end_ns,
        0 as preference
    from user_frame
    where rank = $rank
    union all
    select
        'in the region "' || name || '"' as name,
        track_id,
        depth,
        start_ns,
        end_ns,
        1 as preference
    from user_region
    where rank = $rank
),

-- One row per function or region begun after the last update and around the start of the stretch.
code_around as (
    select
        named_code.name,
        named_code.depth,
        named_code.preference
    from named_code
    inner join stretch on named_code.track_id = stretch.track_id
    inner join last_update on named_code.start_ns >= last_update.end_ns
    where named_code.start_ns <= stretch.start_ns and named_code.end_ns > stretch.start_ns
    union all
    -- Samples: the function calling the model, if the next mark is not a loss, backward pass or update.
    select
        format('most likely in {} ({}:{})', sampled_frame.function, sampled_frame.file, sampled_frame.line) as name,
        -sum(sampled_frame.inclusive_count) as depth,
        2 as preference
    from sampled_frame
    where
        sampled_frame.rank = $rank
        and sampled_frame.is_user
        and sampled_frame.is_caller
        and sampled_frame.inside_mark = 'forward'
        and sampled_frame.before_mark in ('forward', 'load_data')
    group by sampled_frame.function, sampled_frame.file, sampled_frame.line
),

innermost_code as (
    select coalesce((select name from code_around order by preference, depth, name limit 1), 'in the loop') as name
)

select
    (select min_by(event_id, start_ns) from forward_op) as event_id,
    'host' as effect,
    stretch.track_id,
    stretch.start_ns,
    stretch.end_ns,
    stretch.end_ns - stretch.start_ns as saved_ns,
    innermost_code.name
from stretch
cross join innermost_code
where exists (select 1 from forward_op) and (select number_count from shared_count) <= 1
union all
select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    innermost_code.name
from gpu_event
inner join stretch on gpu_event.launch_start_ns >= stretch.start_ns and gpu_event.launch_start_ns < stretch.end_ns
cross join innermost_code
where
    gpu_event.rank = $rank
    and gpu_event.step = $step
    and exists (select 1 from forward_op)
    and (select number_count from shared_count) <= 1
order by effect, event_id
