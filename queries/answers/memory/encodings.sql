-- Maps saved for backward that fit into fewer bits, by producing and consuming op (Gist).
--
-- Rules of Gist (Jain et al., ISCA 2018), per step:
--   binarize  the result of a ReLU before max pooling: backward only needs to know whether a value is above 0, which is
--             one bit
--   pool_map  the indices of max pooling: int64 in PyTorch, but 4 bits are enough for windows of up to 16 values
--   sparse    the result of a ReLU, or of pooling after a ReLU, before a convolution or linear layer: only the nonzero
--             values, each with one byte for its position. This saves memory above `break_even_zeros_pct`. The share of
--             zeros is known after a capture with `analyze(count_zeros=True)`; otherwise pass `zeros_pct`
--   half      any other map in half of its bits, which loses precision (`is_lossless`)
--
-- A storage counts once: a map changed by an in-place ReLU counts as the ReLU's. Needs `profile_memory`.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param zeros_pct DOUBLE = NULL   share of zeros in the maps after a ReLU; overrides the counted share
-- :param item_bytes BIGINT >= 1 <= 8 = 4
--                                  bytes of a value
-- :reads memory_block, model_op, cpu_event, nesting, step, rank_info
-- :column rank RANK
-- :column module_path VARCHAR      module producing the maps; NULL if unknown
-- :column made_by VARCHAR          op producing the maps; NULL if unknown
-- :column used_by VARCHAR          next op; NULL without a next op
-- :column scheme VARCHAR           binarize, pool_map, sparse or half
-- :column is_lossless BOOLEAN      backward gives the same result with this encoding
-- :column map_count BIGINT         number of maps in all selected steps
-- :column bytes BIGINT             current size of the maps, per step
-- :column zeros_pct DOUBLE         share of zeros in sparse maps, as passed or counted; NULL if unknown, and for other
--                                  schemes
-- :column encoded_bytes BIGINT     size after encoding; NULL for sparse maps without `zeros_pct`
-- :column freed_bytes BIGINT       saved bytes, at least 0; NULL if `encoded_bytes` is NULL
-- :column break_even_zeros_pct DOUBLE
--                                  share of zeros above which a sparse map saves memory; NULL for other schemes
with asked_step as (
    select
        rank,
        count(*) as step_count
    from step
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
),

-- One row per module with counted zeros in the results of its ReLUs and max pooling.
counted_module as (
    select
        rank,
        unnest(json_keys(metadata, '$.hotline_zeros_pct')) as module_path,
        unnest(json_extract(metadata, '$.hotline_zeros_pct.*')) as share
    from rank_info
),

module_zeros as (
    select
        rank,
        module_path,
        min(try_cast(json_extract_string(share, '$') as double)) as zeros_pct
    from counted_module
    where try_cast(json_extract_string(share, '$') as double) between 0 and 100
    group by rank, module_path
),

-- Outermost ops, with the next two ops on the thread.
own_op as (
    select
        cpu_event.rank,
        cpu_event.event_id,
        cpu_event.name,
        lead(cpu_event.name) over of_track as next_name,
        lead(cpu_event.name, 2) over of_track as second_name
    from cpu_event
    left join nesting as around on cpu_event.rank = around.rank and cpu_event.parent_id = around.event_id
    where
        cpu_event.category = 'cpu_op'
        and contains(cpu_event.name, '::')
        and not is_op_of_autograd(cpu_event.name)
        and is_asked($rank, cpu_event.rank)
        and around.op_id is null
        -- views of a tensor
        and not is_shape_op(cpu_event.name)
    window of_track as (partition by cpu_event.rank, cpu_event.track_id order by cpu_event.start_ns, cpu_event.event_id)
),

-- one row per saved map, with the producing and the consuming op
saved_map as (
    select
        memory_block.rank,
        model_op.path as module_path,
        memory_block.bytes,
        if(own_op.next_name = 'aten::relu_', own_op.next_name, own_op.name) as made_by,
        if(own_op.next_name = 'aten::relu_', own_op.second_name, own_op.next_name) as used_by,
        row_number() over (
            partition by memory_block.rank, memory_block.op_id
            order by memory_block.start_ns desc, memory_block.block_id desc
        ) as place_from_end
    from memory_block
    left join model_op on memory_block.rank = model_op.rank and memory_block.module_id = model_op.module_id
    left join own_op on memory_block.rank = own_op.rank and memory_block.op_id = own_op.event_id
    where
        memory_block.evidence = 'forward_to_backward'
        and memory_block.step is not null
        and is_asked($rank, memory_block.rank)
        and is_asked($step, memory_block.step)
),

-- Max pooling is monotonic, so pooling after a ReLU keeps its zeros.
schemed_map as (
    select
        *,
        case
            when is_max_pool_op(made_by) and place_from_end = 1 then 'pool_map'
            when is_relu_op(made_by) and is_max_pool_op(used_by) then 'binarize'
            when (is_relu_op(made_by) or is_max_pool_op(made_by)) and is_weighted_op(used_by) then 'sparse'
            else 'half'
        end as scheme
    from saved_map
),

map_with_zeros as (
    select
        schemed_map.*,
        if(schemed_map.scheme = 'sparse', coalesce($zeros_pct, module_zeros.zeros_pct), null) as zeros_pct
    from schemed_map
    left join module_zeros
        on schemed_map.rank = module_zeros.rank and schemed_map.module_path = module_zeros.module_path
),

-- one row per saved map, with its encoded size
encoded_map as (
    select
        *,
        case scheme
            when 'binarize' then bytes / $item_bytes / 8
            when 'pool_map' then bytes / 8 / 2
            when 'sparse' then bytes / $item_bytes * (1 - zeros_pct / 100) * ($item_bytes + 1)
            else bytes / 2
        end as encoded_bytes
    from map_with_zeros
),

-- one row per module, pair of ops, scheme and share of zeros
map_group as (
    select
        rank,
        module_path,
        made_by,
        used_by,
        scheme,
        zeros_pct,
        count(*) as map_count,
        sum(bytes) as bytes,
        case when count(*) = count(encoded_bytes) then sum(encoded_bytes) end as encoded_bytes
    from encoded_map
    group by rank, module_path, made_by, used_by, scheme, zeros_pct
)

select
    map_group.rank,
    map_group.module_path,
    map_group.made_by,
    map_group.used_by,
    map_group.scheme,
    map_group.scheme != 'half' as is_lossless,
    map_group.map_count,
    (map_group.bytes // asked_step.step_count)::bigint as bytes,
    map_group.zeros_pct,
    round(map_group.encoded_bytes / asked_step.step_count)::bigint as encoded_bytes,
    case
        when map_group.encoded_bytes is not null
            then round(greatest(0, map_group.bytes - map_group.encoded_bytes) / asked_step.step_count)::bigint
    end as freed_bytes,
    case when map_group.scheme = 'sparse' then 100.0 / ($item_bytes + 1) end as break_even_zeros_pct
from map_group
inner join asked_step on map_group.rank = asked_step.rank
order by
    map_group.rank, map_group.bytes desc, map_group.scheme, map_group.made_by nulls last,
    map_group.used_by nulls last, map_group.module_path nulls last
