-- Gradients of an index or an embedding, summed after sorting the indices.
--
-- Condition: in backward, ops with a sort on the GPU (cub, Thrust, rocPRIM). Bound: the longest of the op's other
-- kernels, which sums the gradients, stays, and all other kernels of the op take no time. Source: PyTorch,
-- aten/src/ATen/native/cuda/Indexing.cu (`index_put_with_sort_kernel`) and EmbeddingBackwardKernel.cu. The backward of
-- index_select and gather uses atomic additions instead, in IndexKernel.cu and ScatterGatherKernel.cu.
--
-- :reads gpu_event
-- :only_with gpu_event where phase = 'backward' and is_sort_kernel(name)
-- :finding kernels of index and embedding gradients that sort first, in {name}
-- :remedy Where an index picks whole rows, use torch.index_select or gather, whose gradients need no sorting. Sort or
--     deduplicate the indices of embeddings once, while loading data.
with kernel as (
    select
        *,
        is_sort_kernel(name) as is_sort
    from gpu_event
    where rank = $rank and step = $step and phase = 'backward' and op_id is not null
),

ranked_kernel as (
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
from ranked_kernel
where has_sort
order by event_id
