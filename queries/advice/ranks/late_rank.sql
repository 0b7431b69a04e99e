-- Collectives in which this rank waits until another rank comes.
--
-- Condition: collectives on the GPU that are matched between the ranks of the run (`collective_match`), and the time
-- from where this rank comes to where the last one does. Bound: all ranks come at the same time. Source: Li et al.,
-- "PyTorch distributed", VLDB 2020, section 5; derived for the match.
--
-- :reads collective_match, event
-- :what collectives that wait for another rank, most of all for {name}
-- :do Find out what makes that rank late: uneven batches, its own data loading, a slower GPU, logging on one rank. The
--     report's section on ranks names its delay.
with last_one as (
    select
        match_id,
        'rank ' || rank as name
    from collective_match
    where is_last
)

select
    event.event_id,
    'work' as effect,
    event.track_id,
    event.start_ns,
    event.end_ns,
    collective_match.wait_ns as saved_ns,
    last_one.name
from collective_match
inner join last_one on collective_match.match_id = last_one.match_id
inner join event on collective_match.rank = event.rank and collective_match.event_id = event.event_id
where
    collective_match.rank = $rank
    and collective_match.step = $step
    and collective_match.on_gpu
    and collective_match.wait_ns > 0
order by event.event_id
