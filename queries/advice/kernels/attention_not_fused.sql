-- Kernels of attention in separate ops: a product, a softmax and a product. They write the whole score matrix to
-- memory. One row per kernel between the two products.
--
-- Condition: two batched products (`aten::bmm`, `aten::baddbmm`) follow each other on one stream. Between them are a
-- softmax or its gradient, and otherwise only ops on the scores (scaling, masks, dropout, casts). Bound: all kernels
-- between the products take no time, because a fused kernel does this work during the multiplication. Source: Dao et
-- al., "FlashAttention", NeurIPS 2022; PyTorch, torch.nn.functional.scaled_dot_product_attention.
--
-- :reads gpu_event
-- :only_with gpu_event where is_softmax_op(op)
-- :finding kernels between the two products of attention that is not fused
-- :remedy Call torch.nn.functional.scaled_dot_product_attention, which does all of it in one kernel (in Hugging Face
--     models: attn_implementation="sdpa").
with kernel as (
    -- One row per kernel, with its role in attention: product, softmax or op on the scores.
    select
        *,
        is_batched_product(op) as is_product,
        is_softmax_op(op) as is_softmax,
        coalesce(is_op_on_scores(op), false) as is_of_scores
    from gpu_event
    where rank = $rank and step = $step and class = 'computation'
),

numbered_kernel as (
    select
        *,
        -- Each product, and each kernel other than softmax and ops on the scores, starts a new stretch.
        count(*) filter (where is_product or not (is_softmax or is_of_scores)) over (
            partition by device, stream order by start_ns, event_id
        ) as number
    from kernel
),

stretch_of_kernels as (
    select
        device,
        stream,
        number,
        arg_min(is_product, (start_ns, event_id)) as after_product,
        bool_or(is_softmax) as has_softmax
    from numbered_kernel
    group by device, stream, number
),

bordered_stretch as (
    select
        *,
        lead(after_product) over (partition by device, stream order by number) as before_product
    from stretch_of_kernels
)

select
    numbered_kernel.event_id,
    'work' as effect,
    numbered_kernel.track_id,
    numbered_kernel.start_ns,
    numbered_kernel.end_ns,
    numbered_kernel.dur_ns as saved_ns,
    numbered_kernel.short_name as name
from numbered_kernel
inner join bordered_stretch
    on
        numbered_kernel.device = bordered_stretch.device
        and numbered_kernel.stream is not distinct from bordered_stretch.stream
        and numbered_kernel.number = bordered_stretch.number
where
    bordered_stretch.after_product
    and bordered_stretch.before_product
    and bordered_stretch.has_softmax
    and not numbered_kernel.is_product
order by numbered_kernel.event_id
