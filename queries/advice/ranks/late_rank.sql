-- Collectives in which this rank waits for another rank.
--
-- Condition: collectives matched between the ranks of the run, and the time from this rank's arrival to the arrival of
-- the last rank (`rank_wait`), for kernels and for threads waiting for a collective on the CPU. Waits caused by a later
-- start of the other rank's recording do not count. Bound: all ranks arrive at the same time. Source: Li et al.,
-- "PyTorch distributed", VLDB 2020, section 5; derived for the match.
--
-- :reads rank_wait
-- :finding collectives that wait for another rank, most of all for {name}
-- :remedy Find out what makes that rank late: uneven batches, its own data loading, a slower GPU, logging on one rank.
--     The report's section on ranks names its delay.
select
    rank_wait.event_id,
    case when rank_wait.on_gpu then 'work' else 'host' end as effect,
    rank_wait.track_id,
    rank_wait.start_ns + if(rank_wait.on_gpu, 0, rank_wait.start_wait_ns) as start_ns,
    case
        when rank_wait.on_gpu then rank_wait.end_ns
        else rank_wait.start_ns + rank_wait.start_wait_ns + rank_wait.wait_ns
    end as end_ns,
    rank_wait.wait_ns as saved_ns,
    'rank ' || rank_wait.late_rank as name
from rank_wait
where
    rank_wait.rank = $rank
    and rank_wait.step = $step
    and rank_wait.wait_ns > 0
    and rank_wait.late_rank != rank_wait.rank
order by rank_wait.event_id, rank_wait.start_ns
