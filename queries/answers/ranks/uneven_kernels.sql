-- Kernels that take longer on one rank than on the others: of each name, the rank on which most time is lost.
--
-- What is usual is the median of the ranks' mean durations, so that a rank with more steps counts like any other. A GPU
-- that is slower than the others, as one that is too hot, has many rows. Ranks that do something else, as the stages of
-- a pipeline, may run a kernel of one name with other shapes. Collectives are not compared: there, the rank that takes
-- longest has waited for the others (`stragglers`).
--
-- :param limit BIGINT >= 0 or NULL = 10  so many rows; NULL for all
-- :reads kernel_summary
-- :column rank BIGINT             the rank
-- :column name VARCHAR            full name of the kernel, copy or memset
-- :column category VARCHAR        kernel, gpu_memcpy or gpu_memset
-- :column rank_count BIGINT       ranks that run it, at least two
-- :column usual_ns DOUBLE         median of their mean durations
-- :column event_count BIGINT      how often this rank runs it
-- :column mean_ns DOUBLE          mean duration on this rank
-- :column slower DOUBLE           how many times as long as usual
-- :column excess_ns BIGINT        time that this rank would save if it took as long as usual
-- :column oddity DOUBLE           modified z-score of the mean among the ranks, as in `ranks`; NULL where all are equal
-- :column is_outlier BOOLEAN      it is above 3.5
-- :column example_event_id BIGINT event of the longest on this rank
with mean_of_rank as (
    select
        *,
        time_ns / event_count as mean_ns
    from kernel_summary
    where class is distinct from 'communication'
),

compared as (
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
    from compared
    where rank_count > 1
),

judged as (
    select
        *,
        modified_z_score(off_ns, median(off_ns) over of_name, avg(off_ns) over of_name) as oddity
    from distance
    window of_name as (partition by category, name)
),

slowest as (
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
    from judged
    where mean_ns > usual_ns
    qualify row_number() over (partition by category, name order by (mean_ns - usual_ns) * event_count desc, rank) = 1
)

select *
from slowest
qualify $limit is null or row_number() over (order by excess_ns desc, name, category) <= $limit
order by excess_ns desc, name, category
