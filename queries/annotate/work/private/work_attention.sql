-- Work of attention in one op: forward and backward, of whole and of grouped heads, causal or not.
--
-- For each head, pairs of queries and keys take two products, of a query with a key and of their weight with a value:
-- 2·B·H·pairs·(Dqk + Dv). Causal attention leaves out the keys behind each query: of s queries and keys there are
-- s(s+1)/2 pairs. Of unlike numbers, the first query belongs to the first key, or the last one to the last key
-- (`bottom_right`). `dense_flop` counts all pairs, as PaLM and torch.utils.flop_counter do. The backward does the first
-- product once more, as the weights were not kept: five products in all (`matrix_flop`), of which the model needs four.
-- Softmax is 5 FLOP per pair. Where the lengths of sequences are data, the longest stand for all: a bound. Source: Dao
-- et al., "FlashAttention", NeurIPS 2022, algorithms 2 and 4; schemas: torch 2.13, native_functions.yaml.
--
-- :reads op_shape
-- :only_with op_shape where family in ('attention', 'attention_backward')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the queries
-- :column batch BIGINT         sequences times heads
-- :column m BIGINT             queries of a sequence
-- :column n BIGINT             keys of a sequence
-- :column k BIGINT             width of a head
-- :column matrix_flop BIGINT   2 for each multiply-add that the kernels do
-- :column model_flop BIGINT    without the product that the backward repeats
-- :column dense_flop BIGINT    of these, as if nothing were causal
-- :column vector_flop BIGINT   of the softmax
-- :column bytes BIGINT         operands read and results written once
-- :column evidence VARCHAR     shapes; bound, where lengths are data, or where it is not known whether it is causal
with operand as (
    select
        *,
        family = 'attention_backward' as is_backward,
        sizes[roles['q'] + 1] as q,
        sizes[roles['k'] + 1] as k,
        sizes[roles['v'] + 1] as v,
        dtypes[roles['q'] + 1] as dtype,
        item_bytes[roles['q'] + 1] as q_bytes,
        coalesce(read_counts[roles['bias'] + 1] * item_bytes[roles['bias'] + 1], 0) as bias_bytes,
        coalesce(lower(concrete[roles['causal'] + 1]) in ('true', '1', '2'), false) as is_causal,
        -- 2 is CausalFromBottomRight, of the op which has a number for it.
        coalesce(roles['bottom_right'] = 1 or concrete[roles['causal'] + 1] = '2', false) as is_bottom_right,
        len(sizes[roles['q'] + 1]) = 3 or coalesce(counts[roles['lengths'] + 1] > 0, false) as has_lengths,
        roles['causal'] is not null and concrete is null as is_unsure,
        read_counts[roles['q'] + 1] + read_counts[roles['k'] + 1] + read_counts[roles['v'] + 1] as read_count,
        counts[roles['q'] + 1] + counts[roles['k'] + 1] + counts[roles['v'] + 1] as gradient_count,
        try_cast(concrete[roles['max_q'] + 1] as bigint) as longest_q,
        try_cast(concrete[roles['max_k'] + 1] as bigint) as longest_k
    from op_shape
    where family in ('attention', 'attention_backward')
),

-- Calls with lengths: `rows` queries in all, each with up to `keys` keys.
sized as (
    select
        *,
        if(len(q) = 4, q[1], 1)::double as sequences,
        q[roles['heads'] + len(q) - 3]::double as heads,
        q[roles['tokens'] + len(q) - 3]::double as queries,
        k[roles['tokens'] + len(k) - 3]::double as keys,
        q[-1]::double as width,
        v[-1]::double as value_width
    from operand
    where len(q) in (3, 4) and len(k) = len(q) and len(v) = len(q)
),

paired as (
    select
        *,
        least(queries, keys) as least_length,
        queries * if(has_lengths, least(longest_k, keys), keys) as all_pairs,
        case
            when has_lengths or not is_causal then all_pairs
            when is_bottom_right
                then least_length * (least_length + 1) / 2 + greatest(0, keys - queries) * queries
            else least_length * (least_length + 1) / 2 + greatest(0, queries - keys) * keys
        end as pairs,
        -- Widths that each pair multiplies: by the model, and by the kernels.
        if(is_backward, 2 * width + 2 * value_width, width + value_width) as model_width,
        if(is_backward, 3 * width + 2 * value_width, width + value_width) as done_width
    from sized
)

select
    shape_id,
    dtype,
    whole(sequences * heads) as batch,
    whole(coalesce(if(has_lengths, longest_q, null), queries)) as m,
    whole(coalesce(if(has_lengths, longest_k, null), keys)) as n,
    whole(width) as k,
    whole(2 * sequences * heads * pairs * done_width) as matrix_flop,
    whole(2 * sequences * heads * pairs * model_width) as model_flop,
    whole(2 * sequences * heads * all_pairs * model_width) as dense_flop,
    whole(if(is_backward, 4, 5) * sequences * heads * pairs) as vector_flop,
    whole(
        q_bytes * (
            read_count
            + if(is_backward, 2, 1) * sequences * heads * queries * value_width
            + if(is_backward, gradient_count, 0)
        ) + bias_bytes
    ) as bytes,
    if(has_lengths or is_unsure, 'bound', 'shapes') as evidence
from paired
