-- The bias of a convolution before a batch norm: the norm subtracts the mean, and thereby the bias.
--
-- Condition: an `aten::add_` directly inside a convolution, or MIOpen's bias kernel, and a batch norm as the next op
-- after the convolution on the thread. Bound: the kernels adding the bias do not run. Source: PyTorch performance
-- tuning guide, "Disable bias for convolutions directly followed by a batch norm".
--
-- :reads cpu_event, gpu_event
-- :only_with gpu_event
-- :finding kernels that add the bias of a convolution before a batch norm
-- :remedy Make the convolutions before batch norms without a bias: torch.nn.Conv2d(..., bias=False).
with op as (
    -- One row per CPU op, with a flag for convolutions.
    select
        event_id,
        name,
        track_id,
        parent_id,
        start_ns,
        end_ns,
        is_convolution_op(name) as is_convolution
    from cpu_event
    where rank = $rank and category = 'cpu_op'
),

-- One row per outermost convolution op.
convolution as (
    select op.*
    from op
    left join op as around on op.parent_id = around.event_id
    where op.is_convolution and not coalesce(around.is_convolution, false)
),

normed_convolution as (
    select convolution.*
    from convolution
    asof inner join op as following
        on convolution.track_id = following.track_id and convolution.end_ns <= following.start_ns
    where is_batch_norm_op(following.name)
)

select
    gpu_event.event_id,
    'work' as effect,
    gpu_event.track_id,
    gpu_event.start_ns,
    gpu_event.end_ns,
    gpu_event.dur_ns as saved_ns,
    gpu_event.short_name as name
from gpu_event
inner join op on gpu_event.op_id = op.event_id
asof inner join normed_convolution
    on op.track_id = normed_convolution.track_id and op.start_ns >= normed_convolution.start_ns
where
    gpu_event.rank = $rank
    and gpu_event.step = $step
    and op.end_ns <= normed_convolution.end_ns
    and (op.name = 'aten::add_' or is_bias_kernel(gpu_event.name))
order by gpu_event.event_id
