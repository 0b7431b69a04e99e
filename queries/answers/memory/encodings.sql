-- What is saved for backward and could be stored in fewer bits: maps by what makes and what uses them, as in Gist.
--
-- Rules of Gist (Jain et al., ISCA 2018), per step:
--   binarize  a ReLU's result that goes into max pooling: backward needs only whether a value is above 0, one bit,
--   pool_map  the indices of max pooling: int64 in PyTorch, and 4 bits do for windows of up to 16 values,
--   sparse    the result of a ReLU, or of pooling behind one, that goes into a convolution or linear layer: each value
--             that is not 0, with a byte for its place. It pays above `break_even_zeros_pct`. How many are 0 a trace
--             knows if `analyze(count_zeros=True)` captured it; else say it with `zeros_pct`,
--   half      all else in half of its bits, which loses precision (`is_lossless`).
-- A storage counts once: a map that an in-place ReLU changes is the ReLU's. Needs `profile_memory`.
--
-- :param rank BIGINT = NULL        only this rank
-- :param step BIGINT = NULL        only this step
-- :param zeros_pct DOUBLE = NULL   how much of the maps behind a ReLU is 0, instead of what was counted
-- :param item_bytes BIGINT >= 1 <= 8 = 4  bytes of a value
-- :reads memory_block, model_op, event, nesting, step, rank_info
-- :column rank BIGINT              process rank
-- :column module_path VARCHAR      module that makes the maps; NULL where none is known
-- :column made_by VARCHAR          op that makes them; NULL where none is known
-- :column used_by VARCHAR          op that follows; NULL without one
-- :column scheme VARCHAR           binarize, pool_map, sparse or half
-- :column is_lossless BOOLEAN      backward computes the same with it
-- :column map_count BIGINT         maps in all steps that are asked for
-- :column bytes BIGINT             what they take, per step
-- :column zeros_pct DOUBLE         of sparse ones: how much of them is 0, as given or counted; NULL if neither, and for
--                                  others
-- :column encoded_bytes BIGINT     what they would take; of sparse ones NULL where `zeros_pct` is
-- :column freed_bytes BIGINT       the difference, not below 0; NULL likewise
-- :column break_even_zeros_pct DOUBLE  of sparse ones: with more zeros it pays; NULL for others
with asked_step as (
    select
        rank,
        count(*) as step_count
    from step
    where is_asked($rank, rank) and is_asked($step, step)
    group by rank
),

-- Modules with the zeros that were counted in what their ReLUs and max pooling return.
counted_module as (
    select
        rank,
        unnest(json_keys(metadata, '$.hotline_zeros_pct')) as module_path,
        unnest(json_extract(metadata, '$.hotline_zeros_pct.*')) as share
    from rank_info
),

known_zeros as (
    select
        rank,
        module_path,
        min(try_cast(json_extract_string(share, '$') as double)) as zeros_pct
    from counted_module
    where try_cast(json_extract_string(share, '$') as double) between 0 and 100
    group by rank, module_path
),

-- Ops of a library that no other op calls, with those that follow on their threads.
own_op as (
    select
        event.rank,
        event.event_id,
        event.name,
        lead(event.name) over of_track as next_name,
        lead(event.name, 2) over of_track as second_name
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    left join nesting as around on nesting.rank = around.rank and nesting.parent_id = around.event_id
    where
        event.category = 'cpu_op'
        and contains(event.name, '::')
        and not regexp_matches(event.name, '^(autograd|torch::autograd)::')
        and is_asked($rank, event.rank)
        and around.op_id is null
        -- views
        and not regexp_matches(
            event.name, '^aten::(view|reshape|flatten|transpose|permute|t|unsqueeze|squeeze|detach)$'
        )
    window of_track as (partition by event.rank, nesting.track_id order by nesting.start_ns, event.event_id)
),

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

-- Pooling keeps the order of zero and more: what is pooled behind a ReLU has its zeros.
schemed_map as (
    select
        *,
        case
            when made_by like 'aten::max_pool%' and place_from_end = 1 then 'pool_map'
            when regexp_matches(made_by, '^aten::relu_?$') and used_by like 'aten::max_pool%' then 'binarize'
            when
                regexp_matches(made_by, '^aten::(relu_?|max_pool.*)$')
                and regexp_matches(used_by, '^aten::(conv|_?convolution|linear|addmm|mm$)')
                then 'sparse'
            else 'half'
        end as scheme
    from saved_map
),

map_with_zeros as (
    select
        schemed_map.*,
        if(schemed_map.scheme = 'sparse', coalesce($zeros_pct, known_zeros.zeros_pct), null) as zeros_pct
    from schemed_map
    left join known_zeros on schemed_map.rank = known_zeros.rank and schemed_map.module_path = known_zeros.module_path
),

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
