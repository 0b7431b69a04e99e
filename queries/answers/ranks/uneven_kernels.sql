-- Kernels that take longer on one rank than on others: for each name, the rank with the most lost time.
--
-- The usual duration is the median of the mean durations of the ranks, so a rank with more steps has no more weight. A
-- slow GPU, for instance because of heat, has many rows. Ranks with different work, such as pipeline stages, may run a
-- kernel of one name with other shapes. Collectives are not compared: the rank with the longest collective waited for
-- the others (`stragglers`).
--
-- :param limit BIGINT >= 0 or NULL = 10  maximum number of rows; NULL for all
-- :reads kernel_summary
-- :column rank RANK
-- :column name VARCHAR            full name of the kernel, copy or memset
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column rank_count BIGINT       number of ranks with the kernel, at least two
-- :column usual_ns DOUBLE         median of the mean durations of the ranks
-- :column event_count BIGINT      number of runs on this rank
-- :column mean_ns DOUBLE          mean duration on this rank
-- :column slower DOUBLE           mean duration divided by the usual duration
-- :column excess_ns BIGINT        time saved on this rank if the kernel took as long as usual
-- :column oddity DOUBLE           modified z-score of the mean among the ranks, as in `ranks`; NULL if all are equal
-- :column is_outlier BOOLEAN      `oddity` is above 3.5
-- :column example_event_id BIGINT event of the longest on this rank
with mean_of_rank as (
    select
        *,
        time_ns / event_count as mean_ns
    from kernel_summary
    where class is distinct from 'communication'
),

compared_mean as (
    select
        *,
        count(*) over of_name as rank_count,
        median(mean_ns) over of_name as usual_ns
    from mean_of_rank
    window of_name as (partition by category, name)
),

distance as (
    select
        *,
        abs(mean_ns - usual_ns) as off_ns
    from compared_mean
    where rank_count > 1
),

kernel_score as (
    select
        *,
        modified_z_score(off_ns, median(off_ns) over of_name, avg(off_ns) over of_name) as oddity
    from distance
    window of_name as (partition by category, name)
),

-- one row per kernel name: the rank with the most lost time
slowest_rank as (
    select
        rank,
        name,
        category,
        rank_count,
        usual_ns,
        event_count,
        mean_ns,
        mean_ns / nullif(usual_ns, 0) as slower,
        round((mean_ns - usual_ns) * event_count)::bigint as excess_ns,
        oddity,
        coalesce(oddity > most_usual_z_score(), false) as is_outlier,
        longest_id as example_event_id
    from kernel_score
    where mean_ns > usual_ns
    qualify row_number() over (partition by category, name order by (mean_ns - usual_ns) * event_count desc, rank) = 1
)

select *
from slowest_rank
qualify $limit is null or row_number() over (order by excess_ns desc, name, category) <= $limit
order by excess_ns desc, name, category
