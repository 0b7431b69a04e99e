-- Samples and tokens per second of the loop, of each kind of step, or of each step.
--
-- The number of samples of a step is the first dimension of the input of the first op with a parameter in the forward
-- pass: a convolution, the product of a linear layer, or an embedding (its indices are tokens). If several forward
-- passes of a step begin with the same op, their samples add up.
--
-- Give the number with `samples` if the model folds other dimensions into the first, such as the frames of a video. A
-- linear layer has all tokens of a batch as rows, so its first dimension counts rows, not samples. Data-parallel ranks
-- each have their own samples. Recorded steps are slower than others: recorded work of the profiler is subtracted,
-- except for single steps.
--
-- :param by VARCHAR in (run, kind, step) = 'run'
--                                  `run`: all samples of the counted steps over the time of the loop (`step_kinds`);
--                                  `kind`: the samples of a kind's steps over their time; `step`: each step
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param samples BIGINT >= 1 or NULL = NULL
--                                  samples per step and rank, if known
-- :reads step, step_length, phase_span, label, event, op, captured_op, op_work, rank_info
-- :column rank RANK
-- :column step STEP                NULL for the run and for a kind
-- :column kind BIGINT              kind of the step; NULL for the run, and for a step that does not count
-- :column step_ns BIGINT           duration of the step; for the run and a kind, the mean step length
-- :column samples BIGINT           samples per step on this rank, as a mean over steps; NULL if no op shows the number
-- :column tokens BIGINT            tokens per step on this rank; NULL unless an embedding comes first
-- :column sample_source VARCHAR    op and sizes of its input, or `given` for the parameter `samples`
-- :column world_size BIGINT        ranks of the job; NULL if not in the file
-- :column samples_per_s DOUBLE     samples of this rank per second
-- :column tokens_per_s DOUBLE      tokens of this rank per second
-- :column job_samples_per_s DOUBLE samples of all ranks per second, if each has as many; NULL without a world size

-- one row per op with a parameter in forward, with the sizes of its input
with weighted_op as (
    select
        op_work.rank,
        op_work.event_id,
        op_work.shape_id,
        op_work.family,
        event.name,
        event.track_id,
        event.start_ns,
        label.step,
        try_cast(coalesce(op.input_dims, captured_op.input_dims) -> case
            when op_work.family = 'embedding' or event.name in ('aten::addmm', 'aten::_addmm_activation') then 1
            else 0
        end as bigint[]) as sizes
    from op_work
    inner join event on op_work.rank = event.rank and op_work.event_id = event.event_id
    inner join label on op_work.rank = label.rank and op_work.event_id = label.event_id
    inner join op on op_work.rank = op.rank and op_work.event_id = op.event_id
    left join captured_op on op_work.rank = captured_op.rank and op_work.event_id = captured_op.event_id
    where
        op_work.is_outermost
        and label.phase = 'forward'
        and label.step is not null
        and op_work.family in ('gemm', 'linear', 'convolution', 'transposed_convolution', 'embedding')
        and is_asked($rank, op_work.rank)
        and is_asked($step, label.step)
),

-- The first such op of each forward phase, and the start of the phase.
first_op as (
    select
        weighted_op.rank,
        weighted_op.step,
        phase_span.start_ns as phase_ns,
        arg_min(weighted_op, (weighted_op.start_ns, weighted_op.event_id)) as op
    from weighted_op
    asof inner join phase_span
        on
            weighted_op.rank = phase_span.rank
            and weighted_op.track_id = phase_span.track_id
            and weighted_op.start_ns >= phase_span.start_ns
    group by weighted_op.rank, weighted_op.step, phase_span.start_ns
),

step_op as (
    select
        rank,
        step,
        arg_min(op, phase_ns) as op
    from first_op
    group by rank, step
),

pass_count as (
    select
        step_op.rank,
        step_op.step,
        count(*) as pass_count
    from step_op
    inner join first_op on step_op.rank = first_op.rank and step_op.step = first_op.step
    where first_op.op.shape_id = step_op.op.shape_id
    group by step_op.rank, step_op.step
),

-- Steps with a duration, with their samples.
sampled_step as (
    select
        step.rank,
        step.step,
        step_length.kind,
        step.end_ns - step.start_ns as step_ns,
        step_length.begin_ns,
        step_length.length_ns,
        step_length.profiler_ns,
        coalesce($samples, pass_count.pass_count * step_op.op.sizes[1]) as samples,
        case
            when step_op.op.family = 'embedding' then pass_count.pass_count * list_product(step_op.op.sizes)::bigint
        end as tokens,
        case when pass_count.pass_count > 1 then ', ' || pass_count.pass_count || ' passes' end as passes,
        case
            when $samples is not null then 'given'
            else 'input of ' || step_op.op.name || ' ' || step_op.op.sizes::varchar || coalesce(passes, '')
        end as sample_source,
        rank_info.world_size
    from step
    inner join step_length on step.rank = step_length.rank and step.step = step_length.step
    inner join rank_info on step.rank = rank_info.rank
    left join step_op on step.rank = step_op.rank and step.step = step_op.step
    left join pass_count on step.rank = pass_count.rank and step.step = pass_count.step
    where is_asked($rank, step.rank) and is_asked($step, step.step) and step.end_ns > step.start_ns
),

-- One row per step, kind or run: the sums of time, samples and tokens, and the number of steps.
sample_total as (
    select
        rank,
        step,
        kind,
        step_ns as time_ns,
        1 as step_count,
        samples,
        tokens,
        sample_source,
        world_size
    from sampled_step
    where $by = 'step'
    union all
    select
        rank,
        null,
        case when $by = 'kind' then kind end as kind_asked,
        case
            when $by = 'run' then max(begin_ns + length_ns) - min(begin_ns) - sum(profiler_ns)
            else sum(length_ns - profiler_ns)
        end,
        count(*),
        sum(samples),
        sum(tokens),
        mode(sample_source),
        any_value(world_size)
    from sampled_step
    where $by != 'step' and kind is not null
    group by rank, kind_asked
)

select
    rank,
    step,
    kind,
    round(time_ns / step_count)::bigint as step_ns,
    round(samples / step_count)::bigint as samples,
    round(tokens / step_count)::bigint as tokens,
    sample_source,
    world_size,
    1e9 * samples / nullif(time_ns, 0) as samples_per_s,
    1e9 * tokens / nullif(time_ns, 0) as tokens_per_s,
    1e9 * samples * world_size / nullif(time_ns, 0) as job_samples_per_s
from sample_total
order by rank, step, kind
