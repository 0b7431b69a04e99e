-- Work of attention in one op: forward and backward, whole and grouped heads, causal or not.
--
-- For each head, a pair of query and key takes two products, of the query with the key and of their weight with the
-- value: 2·B·H·pairs·(Dqk + Dv). Causal attention leaves out the keys after each query: s queries and keys have
-- s(s+1)/2 pairs. If the numbers of queries and keys differ, the first query is aligned with the first key, or the last
-- query with the last key (`bottom_right`). `dense_flop` counts all pairs, as in PaLM and torch.utils.flop_counter. The
-- backward repeats the first product, because the weights were not kept: five products in all (`matrix_flop`), four of
-- them needed by the model. Softmax takes 5 FLOP per pair. If sequence lengths are data, the longest length is used for
-- all sequences: a bound. Source: Dao et al., "FlashAttention", NeurIPS 2022, algorithms 2 and 4; schemas: torch 2.13,
-- native_functions.yaml.
--
-- :reads op_shape
-- :only_with op_shape where family in ('attention', 'attention_backward')
-- :column shape_id BIGINT      the call
-- :column dtype VARCHAR        type of the queries
-- :column batch BIGINT         sequences times heads
-- :column m BIGINT             queries per sequence
-- :column n BIGINT             keys per sequence
-- :column k BIGINT             width of a head
-- :column matrix_flop BIGINT   2 for each multiply-add of the kernels
-- :column model_flop BIGINT    `matrix_flop` without the product repeated by the backward
-- :column dense_flop BIGINT    `model_flop` without the savings of causal attention
-- :column vector_flop BIGINT   FLOP of the softmax
-- :column bytes BIGINT         operands read and results written once
-- :column evidence VARCHAR     shapes; bound, if lengths are data, or if it is unknown whether the attention is causal
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
        -- 2 is CausalFromBottomRight, in the op with a number for this argument.
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

-- Calls with lengths: `queries` in total, each with up to `keys` keys.
sized_call as (
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

paired_call as (
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
        -- Widths multiplied for each pair, by the model and by the kernels.
        if(is_backward, 2 * width + 2 * value_width, width + value_width) as model_width,
        if(is_backward, 3 * width + 2 * value_width, width + value_width) as done_width
    from sized_call
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
from paired_call
