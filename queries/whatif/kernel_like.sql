-- Durations of kernels by name, grid and block, for comparison with kernels of another trace.
--
-- :param rank BIGINT              the process rank
-- :reads gpu_event, kernel_shape
-- :column name VARCHAR            name of the kernels
-- :column grid VARCHAR            grid of the kernels
-- :column block VARCHAR           block of the kernels
-- :column kernel_count BIGINT     number of kernels
-- :column mean_ns DOUBLE          mean duration
-- :column short_ns DOUBLE         10th percentile of the durations
-- :column long_ns DOUBLE          90th percentile of the durations
select
    gpu_event.name,
    kernel_shape.grid,
    kernel_shape.block,
    count(*) as kernel_count,
    avg(gpu_event.dur_ns) as mean_ns,
    quantile_cont(gpu_event.dur_ns, 0.1)::double as short_ns,
    quantile_cont(gpu_event.dur_ns, 0.9)::double as long_ns
from gpu_event
inner join kernel_shape on gpu_event.rank = kernel_shape.rank and gpu_event.event_id = kernel_shape.event_id
where
    gpu_event.rank = $rank
    and gpu_event.class = 'computation'
    and kernel_shape.grid is not null
    and gpu_event.dur_ns > 0
group by gpu_event.name, kernel_shape.grid, kernel_shape.block
order by gpu_event.name, kernel_shape.grid, kernel_shape.block
