-- Work of attention in one op: forward and backward, of whole and of grouped heads, causal or not.
--
-- For each head, pairs of queries and keys take two products, of a query with a key and of their weight with a value:
-- 2·B·H·pairs·(Dqk + Dv). Causal attention leaves out the keys behind each query: of s queries and keys there are
-- s(s+1)/2 pairs. `dense_flop` counts all pairs, as PaLM and torch.utils.flop_counter do. The backward makes the first
-- product once more, as the weights were not kept: five products in all (`matrix_flop`), of which the model needs four.
-- Softmax is 5 FLOP per pair. Where the lengths of sequences are data, the longest stand for all: a bound. Source: Dao
-- et al., "FlashAttention", NeurIPS 2022, algorithms 2 and 4; schemas: torch 2.13, native_functions.yaml.
--
-- :reads op_shape
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
-- :column evidence VARCHAR     shapes; bound, where lengths are data
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
        try_cast(concrete[roles['max_q'] + 1] as bigint) as longest_q,
        try_cast(concrete[roles['max_k'] + 1] as bigint) as longest_k
    from op_shape
    where family in ('attention', 'attention_backward')
),

-- Calls with lengths: `rows` queries in all, each with up to `keys` keys.
sized as (
    select
        *,
        if(len(q) = 4, q[1], 1) as sequences,
        q[roles['heads'] + len(q) - 3] as heads,
        k[roles['heads'] + len(k) - 3] as kv_heads,
        q[roles['tokens'] + len(q) - 3] as queries,
        k[roles['tokens'] + len(k) - 3] as keys,
        q[-1] as width,
        v[-1] as value_width
    from operand
    where len(q) in (3, 4) and len(k) = len(q) and len(v) = len(q)
),

paired as (
    select
        *,
        least(queries, keys)::double as least_length,
        case
            when len(q) = 3 then queries::double * least(longest_k, keys)
            else queries::double * keys
        end as all_pairs,
        case
            when len(q) = 3 or not is_causal then all_pairs
            when coalesce(roles['bottom_right'], 0) = 1 and keys > queries
                then queries::double * (keys - queries) + least_length * (least_length + 1) / 2
            when coalesce(roles['bottom_right'], 0) = 1 then least_length * (least_length + 1) / 2
            else least_length * (least_length + 1) / 2 + greatest(0, queries - keys)::double * keys
        end as pairs,
        -- Widths that each pair multiplies: by the model, and by the kernels.
        if(is_backward, 2 * width + 2 * value_width, width + value_width) as model_width,
        if(is_backward, 3 * width + 2 * value_width, width + value_width) as done_width
    from sized
)

select
    shape_id,
    dtype,
    whole(sequences * heads::double) as batch,
    whole(coalesce(if(len(q) = 3, longest_q, null), queries)) as m,
    whole(coalesce(if(len(q) = 3, longest_k, null), keys)) as n,
    whole(width) as k,
    whole(2.0 * sequences * heads * pairs * done_width) as matrix_flop,
    whole(2.0 * sequences * heads * pairs * model_width) as model_flop,
    whole(2.0 * sequences * heads * all_pairs * model_width) as dense_flop,
    whole(if(is_backward, 4.0, 5.0) * sequences * heads * pairs) as vector_flop,
    whole(
        q_bytes * sequences * if(is_backward, 2.0, 1.0) * (
            queries::double * heads * width + keys::double * kv_heads * width + keys::double * kv_heads * value_width
            + queries::double * heads * value_width
        ) + bias_bytes
    ) as bytes,
    if(len(q) = 3, 'bound', 'shapes') as evidence
from paired
