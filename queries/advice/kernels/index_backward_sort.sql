-- Gradients of an index or an embedding that are added up after sorting the indices.
--
-- Condition: in backward, ops that sort on the GPU (cub, Thrust, rocPRIM). Bound: the longest of an op's other kernels,
-- which adds up the gradients, takes as long as it does, and all that prepares it takes no time. Source: PyTorch,
-- aten/src/ATen/native/cuda/Indexing.cu (`index_put_with_sort_kernel`) and EmbeddingBackwardKernel.cu; the backward of
-- index_select and gather adds with atomic operations instead, in IndexKernel.cu and ScatterGatherKernel.cu.
--
-- :reads gpu_work
-- :only_with gpu_work where phase = 'backward' and regexp_matches(name, '[sS]ort')
-- :what kernels of index and embedding gradients that sort first, in {name}
-- :do Where an index picks whole rows, use torch.index_select or gather, whose gradients need no sorting. Sort or
--     deduplicate the indices of embeddings once, while loading data.
with kernel as (
    select
        *,
        regexp_matches(name, '[sS]ort') as is_sort
    from gpu_work
    where rank = $rank and step = $step and phase = 'backward' and op_id is not null
),

grouped as (
    select
        *,
        bool_or(is_sort) over (partition by op_id) as has_sort,
        row_number() over (partition by op_id order by is_sort, dur_ns desc, event_id) as place
    from kernel
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    if(place = 1 and not is_sort, 0, dur_ns) as saved_ns,
    op as name
from grouped
where has_sort
order by event_id
