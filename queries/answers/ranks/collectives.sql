-- Collectives of each rank: time waiting for the last rank, transfer time, and bandwidth.
--
-- Times are on the clock of the lowest rank (`collective_match` explains the clock alignment). If several ranks of the
-- run take part, each rank's duration is `wait_ns` (until the last of these ranks started) plus `transfer_ns`. Ranks
-- missing from the run may have started later still; waiting for them counts as transfer. If the run has no other rank
-- of the collective, or calls cannot be matched, the waiting time is unknown and the bandwidth is a lower bound.
--
-- Bandwidths use the shortest transfer of the ranks, else the duration. Bytes and factors follow NCCL's tests
-- (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and all-to-all, 1
-- for other collectives (macro `bus_factor`).
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL          only collectives launched in this phase
-- :param module VARCHAR = NULL       only collectives launched in this module or its submodules, by path
-- :reads collective_match, collective_call
-- :column step STEP                  NULL outside every step
-- :column match_id BIGINT            rows with the same number are one collective; NULL without another rank
-- :column name VARCHAR               allreduce, allgather, …; NULL if unknown
-- :column group_name VARCHAR         process group; NULL if unknown
-- :column group_size BIGINT          number of ranks in the group; NULL if unknown
-- :column rank_count BIGINT          number of these ranks in this run and matched
-- :column bytes BIGINT               size of the message; NULL if unknown
-- :column rank RANK
-- :column event_id BIGINT            the kernel or span
-- :column start_ns BIGINT            start on the lowest rank's clock, or on the rank's own clock without a common
--                                    collective
-- :column dur_ns BIGINT              duration
-- :column wait_ns BIGINT             part of the duration spent waiting for the last rank; NULL without another rank
-- :column transfer_ns BIGINT         remaining duration; NULL without another rank
-- :column late_ns BIGINT             delay after the start of the median rank; 0 for earlier ranks; NULL without
--                                    another rank
-- :column is_last BOOLEAN            the rank started last; NULL without another rank
-- :column algorithm_gb_per_s DOUBLE  bytes divided by the transfer time, in 10^9 per second; NULL if the size is
--                                    unknown
-- :column bus_gb_per_s DOUBLE        algorithm bandwidth times the bus factor; NULL if the size or the number of ranks
--                                    is unknown
with matched_call as materialized (
    select
        *,
        min(nullif(transfer_ns, 0)) over (partition by match_id) as shortest_ns
    from collective_match
),

clock as (
    select
        rank,
        min(shift_ns) as shift_ns
    from matched_call
    group by rank
),

-- one row per call of a collective, matched or not
any_call as (
    select
        rank,
        event_id,
        step,
        phase,
        module_path,
        match_id,
        name,
        group_name,
        group_size,
        rank_count,
        bytes,
        start_ns,
        end_ns,
        wait_ns,
        transfer_ns,
        late_ns,
        is_last,
        shortest_ns
    from matched_call
    union all
    select
        call.rank,
        call.event_id,
        call.step,
        call.phase,
        call.module_path,
        null as match_id,
        call.name,
        call.group_name,
        call.group_size,
        1 as rank_count,
        call.bytes,
        call.start_ns + coalesce(clock.shift_ns, 0) as start_ns,
        call.end_ns + coalesce(clock.shift_ns, 0) as end_ns,
        null as wait_ns,
        null as transfer_ns,
        null as late_ns,
        null as is_last,
        call.end_ns - call.start_ns as shortest_ns
    from collective_call as call
    left join clock on call.rank = clock.rank
    where (call.rank, call.event_id) not in (select (rank, event_id) from matched_call)
)

select
    any_call.step,
    any_call.match_id,
    any_call.name,
    any_call.group_name,
    any_call.group_size,
    any_call.rank_count,
    any_call.bytes,
    any_call.rank,
    any_call.event_id,
    any_call.start_ns,
    any_call.end_ns - any_call.start_ns as dur_ns,
    any_call.wait_ns,
    any_call.transfer_ns,
    any_call.late_ns,
    any_call.is_last,
    any_call.bytes::double / any_call.shortest_ns as algorithm_gb_per_s,
    any_call.bytes::double / any_call.shortest_ns * bus_factor(any_call.name, any_call.group_size) as bus_gb_per_s
from any_call
where
    is_asked($rank, any_call.rank)
    and is_asked($step, any_call.step)
    and is_asked($phase, any_call.phase)
    and in_module(any_call.module_path, $module)
order by any_call.step, any_call.match_id, any_call.rank, any_call.start_ns, any_call.event_id
