-- How long kernels of one name, grid and block take in a trace, to compare those of another one with.
--
-- :param rank BIGINT              the process rank
-- :reads gpu_work, kernel_shape
-- :column name VARCHAR            name of the kernels
-- :column grid VARCHAR            their grid
-- :column block VARCHAR           their block
-- :column kernel_count BIGINT     how many there are
-- :column mean_ns DOUBLE          their mean duration
-- :column short_ns DOUBLE         what a tenth of them is not longer than
-- :column long_ns DOUBLE          what a tenth of them is not shorter than
select
    gpu_work.name,
    kernel_shape.grid,
    kernel_shape.block,
    count(*) as kernel_count,
    avg(gpu_work.dur_ns) as mean_ns,
    quantile_cont(gpu_work.dur_ns, 0.1)::double as short_ns,
    quantile_cont(gpu_work.dur_ns, 0.9)::double as long_ns
from gpu_work
inner join kernel_shape on gpu_work.rank = kernel_shape.rank and gpu_work.event_id = kernel_shape.event_id
where gpu_work.rank = $rank and gpu_work.class = 'computation' and kernel_shape.grid is not null and gpu_work.dur_ns > 0
group by gpu_work.name, kernel_shape.grid, kernel_shape.block
order by gpu_work.name, kernel_shape.grid, kernel_shape.block
