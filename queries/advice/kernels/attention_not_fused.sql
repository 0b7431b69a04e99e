-- Attention as single ops: a product, a softmax and a product, which write the whole matrix of scores to memory.
--
-- Condition: on one stream, between two batched products (`aten::bmm`, `aten::baddbmm`), a softmax or its gradient and
-- nothing but ops on the scores (scaling, masks, dropout, casts). Bound: all between the products takes no time, as a
-- fused kernel does it while it multiplies. Source: Dao et al., "FlashAttention", NeurIPS 2022; PyTorch,
-- torch.nn.functional.scaled_dot_product_attention.
--
-- :reads gpu_work
-- :only_with gpu_work where op in ('aten::_softmax', 'aten::_softmax_backward_data', 'aten::_masked_softmax')
-- :what kernels between the two products of attention that is not fused
-- :do Call torch.nn.functional.scaled_dot_product_attention, which does all of it in one kernel (in Hugging Face
--     models: attn_implementation="sdpa").
with kernel as (
    select
        *,
        op in ('aten::bmm', 'aten::baddbmm') as is_product,
        op in ('aten::_softmax', 'aten::_softmax_backward_data', 'aten::_masked_softmax') as is_softmax,
        coalesce(op in (
            'aten::add', 'aten::add_', 'aten::sub', 'aten::mul', 'aten::mul_', 'aten::div', 'aten::div_', 'aten::copy_',
            'aten::masked_fill', 'aten::masked_fill_', 'aten::where', 'aten::fill_', 'aten::triu', 'aten::tril',
            'aten::native_dropout', 'aten::native_dropout_backward', 'aten::bernoulli_', 'aten::eq',
            'aten::clamp', 'aten::clamp_', 'aten::maximum', 'aten::max', 'aten::nan_to_num', 'aten::tanh'
        ), false) as is_of_scores
    from gpu_work
    where rank = $rank and step = $step and class = 'computation'
),

stretch as (
    select
        *,
        -- each product, and all that is not of the scores, starts a new stretch
        count(*) filter (where is_product or not (is_softmax or is_of_scores)) over (
            partition by device, stream order by start_ns, event_id
        ) as number
    from kernel
),

ends as (
    select
        device,
        stream,
        number,
        arg_min(is_product, (start_ns, event_id)) as after_product,
        bool_or(is_softmax) as has_softmax
    from stretch
    group by device, stream, number
),

around as (
    select
        *,
        lead(after_product) over (partition by device, stream order by number) as before_product
    from ends
)

select
    stretch.event_id,
    'work' as effect,
    stretch.track_id,
    stretch.start_ns,
    stretch.end_ns,
    stretch.dur_ns as saved_ns,
    stretch.short_name as name
from stretch
inner join around
    on
        stretch.device = around.device
        and stretch.stream is not distinct from around.stream
        and stretch.number = around.number
where around.after_product and around.before_product and around.has_softmax and not stretch.is_product
order by stretch.event_id
