-- Consecutive elementwise kernels: each reads the previous kernel's result from memory.
--
-- Condition: on one stream, two or more consecutive elementwise kernels of PyTorch without other work in between,
-- outside of the optimizer and of code compiled by torch.compile. Bound: a chain takes as long as its longest kernel,
-- because one fused kernel must read and write at least the same data. Source: PyTorch performance tuning guide, "Fuse
-- operations".
--
-- :reads gpu_event
-- :only_with gpu_event where starts_with(short_name, 'elementwise ')
-- :finding elementwise kernels in chains that one kernel each could do
-- :remedy Let torch.compile fuse them (the module they are in is enough), or use the fused module if there is one
--     (torch.nn.RMSNorm, for example).
-- :scenario compile
with kernel as (
    select
        *,
        starts_with(short_name, 'elementwise ')
        and not coalesce(is_compiled, false)
        and phase not in ('clipping', 'optimizer', 'zero_grad') as is_elementwise
    from gpu_event
    where rank = $rank and step = $step
),

numbered_kernel as (
    select
        *,
        sum(coalesce(not is_elementwise, false)::integer) over (
            partition by device, stream order by start_ns, event_id rows unbounded preceding
        ) as number
    from kernel
),

ranked_kernel as (
    select
        *,
        count(*) over each as length,
        row_number() over (each order by dur_ns desc, event_id) as place
    from numbered_kernel
    where is_elementwise
    window each as (partition by device, stream, number)
)

select
    event_id,
    'work' as effect,
    track_id,
    start_ns,
    end_ns,
    if(place = 1, 0, dur_ns) as saved_ns,
    short_name as name
from ranked_kernel
where length >= 2
order by event_id
