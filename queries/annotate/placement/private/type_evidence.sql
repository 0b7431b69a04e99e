-- How well the name of an op fits the type of a module: 8 for the op that such a module is made of, 4 for one that it
-- may be made of, by rule or by likeness of the names.
--
-- Types and ops are compared in lower case, without namespace, punctuation and dimension (`Conv2d` and `Conv` are
-- `conv`). Rules are about PyTorch's modules (torch/nn/modules), and about common names of layers that PyTorch has no
-- module for.
--
-- :reads leaf_type, forward_item
-- :column type VARCHAR    a type of modules or parts, as in `type_part` without its mark
-- :column name VARCHAR    name of an op of `forward_item`
-- :column weight INTEGER  8 for the op that such a module is made of, 4 for one that it may be made of
with rule as (
    select * from (
        values
        ('(^|mask|lazy|causal|depthwise|pointwise)conv$', '^conv(_tbc)?$', 8),
        ('(^|lazy)convtranspose$', '^conv_transpose$', 8),
        ('conv(olution)?(transpose)?$', '(^|_)(cudnn|mkldnn|miopen|slow|thnn)?_?conv(olution)?(_overrideable)?$', 4),
        ('conv[123]d', '^conv$', 8),
        ('convtranspose[123]d', '^conv_transpose$', 8),
        -- `Conv1D` of GPT-2
        ('^conv$', '^addmm$', 4),
        ('batchnorm$', '^batch_norm$', 8),
        ('batchnorm$', '(cudnn|native|miopen)_batch_norm', 4),
        ('^sync', '^batch_norm', 8),
        ('layernorm$', '^layer_norm$', 8),
        ('layernorm$', '^native_layer_norm$', 4),
        ('groupnorm$', '^group_norm$', 8),
        ('instancenorm$', '^instance_norm$', 8),
        ('rmsnorm$', '^(fused_)?rms_norm$', 8),
        ('(linear|dense|projection|^fc|^proj)\d*$', '^linear$', 8),
        ('(linear|dense|projection|^fc|^proj)\d*$', '^(addmm|matmul|mm)$', 4),
        ('^bilinear$', '^bilinear$', 8),
        ('^relu$', '^relu$', 8),
        ('^relu$', '^(clamp_min|threshold|relu6|clamp)$', 4),
        ('^(relu6|hardtanh)$', '^(hardtanh|relu6)$', 8),
        ('^(relu6|hardtanh)$', '^clamp', 4),
        ('^(silu|swish)$', '^silu$', 8),
        ('gelu(activation)?$', '^gelu$', 8),
        ('dropout$', '^(feature_|alpha_|feature_alpha_)?dropout$', 8),
        ('dropout$', '^native_dropout$', 4),
        ('^(adaptive|global)?maxpool(ing)?$', '^(adaptive_)?max_pool$', 8),
        ('^(adaptive|global)?maxpool(ing)?$', '^(adaptive_)?max_pool_with_indices$', 4),
        ('^(adaptive|global)?(avg|average)pool(ing)?$', '^(adaptive_)?avg_pool$', 8),
        ('^(adaptive|global)?(avg|average)pool(ing)?$', '^mean$', 4),
        ('^embeddingbag(collection)?$', '^embedding_bag$', 8),
        ('embeddings?$', '^embedding$', 8),
        ('embeddings?$', '^(embedding_bag|index_select)$', 4),
        ('^(\w*lstm|lstm\w*|rnn|batchrnn)$', '^lstm$', 8),
        ('^sequencewise$', '^(batch_norm|linear)$', 8),
        ('^(\w*gru|rnn)$', '^gru$', 8),
        ('^rnn$', '^rnn_(tanh|relu)$', 8),
        ('(lstm|gru|rnn)$', '^(_cudnn_rnn|_miopen_rnn|_thnn_fused_\w+_cell|mkldnn_rnn_layer)$', 4),
        ('lstmcell$', '^lstm_cell$', 8),
        ('grucell$', '^gru_cell$', 8),
        ('^(batch(ed)?matmul|bmm)$', '^bmm$', 8),
        ('^(batch(ed)?matmul|bmm)$', '^(matmul|baddbmm|einsum)$', 4),
        ('^(batch(ed)?addmatmul|baddbmm)$', '^baddbmm$', 8),
        ('^(batch(ed)?addmatmul|baddbmm)$', '^(bmm|matmul)$', 4),
        ('^matmul$', '^matmul$', 8),
        ('^matmul$', '^(bmm|mm|addmm)$', 4),
        ('^(scaleddotproduct)?attention$|^sdpa$', '^scaled_dot_product_attention$', 8),
        ('^scaleddotproductattention$', '^(bmm|baddbmm)$', 4),
        ('^multiheadattention$', '^_native_multi_head_attention$', 8),
        ('^transformerencoderlayer$', '^_transformer_encoder_layer_fwd$', 8),
        ('^(concat(enate)?|cat)$', '^(cat|concat(enate)?)$', 8),
        ('^(tile|repeat)$', '^(tile|repeat)$', 8),
        ('^(tile|repeat)$', '^(expand|reshape)$', 4),
        ('^(permute|transpose)$', '^(permute|transpose|t)$', 8),
        ('^(view|reshape|flatten|unflatten)$', '^(view|reshape|flatten|unflatten)$', 8),
        ('^(upsample|interpolate)$', '^upsample_', 8),
        ('^(zero|constant|reflection|replication|circular)pad$', '^((constant|reflection|replication)_)?pad(_nd)?$', 8),
        ('^(layer)?scale$', '^mul$', 4),
        -- parts of hand-written modules, see `type_part`
        ('^standarddeviation$', '^(std|sqrt|rsqrt)$', 8),
        ('^gelucurve$', '^(tanh|erf|sigmoid)$', 8),
        ('^crossentropy(loss)?$', '^cross_entropy_loss$', 8),
        ('^(bce|binarycrossentropy)(loss)?$', '^binary_cross_entropy$', 8),
        ('^bcewithlogits(loss)?$', '^binary_cross_entropy_with_logits$', 8),
        ('^nll(loss)?$', '^nll_loss', 8),
        ('^kldiv(loss)?$', '^kl_div$', 8)
    ) as rules (type_pattern, op_pattern, weight)
),

-- Types, with the plain name that rules look at.
type_name as (
    select
        type,
        regexp_replace(
            regexp_replace(regexp_replace(lower(type), '^.*(::|\.)', ''), '[^a-z0-9]', '', 'g'), '[123]d$', ''
        ) as plain
    from leaf_type
),

-- Ops without namespace and dimension.
op_name as (
    select
        name,
        regexp_replace(regexp_replace(regexp_replace(lower(name), '^[^ ]*::', ''), '_$', ''), '[123]d', '') as base
    from (select distinct name from forward_item) as distinct_name
),

-- Ops, with the plain name that is compared with that of a type.
plain_op_name as (
    select
        *,
        replace(base, '_', '') as plain_op
    from op_name
),

-- Pairs that a rule matches.
by_rule as (
    select
        type_name.type,
        plain_op_name.name,
        max(rule.weight) as weight
    from type_name
    inner join rule on regexp_matches(type_name.plain, rule.type_pattern)
    inner join plain_op_name on regexp_matches(plain_op_name.base, rule.op_pattern)
    group by type_name.type, plain_op_name.name
),

-- Pairs whose names are alike.
by_name as (
    select
        type_name.type,
        plain_op_name.name,
        case when type_name.plain = plain_op_name.plain_op then 8 else 4 end as weight
    from type_name
    inner join plain_op_name
        on
            type_name.plain = plain_op_name.plain_op
            or (length(plain_op_name.plain_op) >= 4 and ends_with(type_name.plain, plain_op_name.plain_op))
            or (length(type_name.plain) >= 4 and starts_with(plain_op_name.plain_op, type_name.plain))
    where type_name.plain != ''
)

select
    type,
    name,
    max(weight) as weight
from (select * from by_rule union all select * from by_name) as found
group by type, name
order by type, name
