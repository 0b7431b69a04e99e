-- Collectives of each rank: how long it waited for the last of the others, and how fast it went then.
--
-- Times are on the clock of the lowest rank (`collective_match` says how clocks are aligned). Where several ranks of
-- the run took part in one, each rank's duration is `wait_ns`, until the last of these ranks started, plus
-- `transfer_ns`. Ranks that the run lacks may have come later still; waiting for them counts as transfer. Where the run
-- has no other rank of it, or calls cannot be told apart, nobody knows how much of the duration was waiting: the
-- bandwidth is then at least what it says.
--
-- The bandwidths take the shortest transfer of the ranks, else the duration, and bytes and factors as NCCL's tests
-- define them (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter and
-- all-to-all, 1 for the others (macro `bus_factor`).
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param phase PHASE = NULL
--                                    only collectives launched in this phase
-- :param module VARCHAR = NULL       only collectives launched in this module or one in it, by path
-- :reads collective_match, collective_call
-- :column step BIGINT                number of the training step; NULL outside every step
-- :column match_id BIGINT            rows with the same number are one collective; NULL when known of no other rank
-- :column name VARCHAR               allreduce, allgather, …; NULL when unknown
-- :column group_name VARCHAR         process group; NULL when the trace does not say
-- :column group_size BIGINT          ranks that take part; NULL when unknown
-- :column rank_count BIGINT          of them, in this run and matched
-- :column bytes BIGINT               size of the message; NULL when unknown
-- :column rank BIGINT                process rank
-- :column event_id BIGINT            the kernel or span
-- :column start_ns BIGINT            start, on the lowest rank's clock; on its own if they share no collective
-- :column dur_ns BIGINT              duration
-- :column wait_ns BIGINT             of it, waiting for the last rank; NULL when known of no other rank
-- :column transfer_ns BIGINT         the rest; NULL likewise
-- :column late_ns BIGINT             start after the middle rank's; NULL likewise
-- :column is_last BOOLEAN            it started last; NULL likewise
-- :column algorithm_gb_per_s DOUBLE  bytes by transfer time; NULL when the size is unknown
-- :column bus_gb_per_s DOUBLE        the same times the factor; NULL when the size or the number of ranks is unknown
with matched as materialized (
    select
        *,
        min(nullif(transfer_ns, 0)) over (partition by match_id) as shortest_ns
    from collective_match
),

clock as (
    select
        rank,
        min(shift_ns) as shift_ns
    from matched
    group by rank
),

done as (
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
    from matched
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
    where (call.rank, call.event_id) not in (select (rank, event_id) from matched)
)

select
    done.step,
    done.match_id,
    done.name,
    done.group_name,
    done.group_size,
    done.rank_count,
    done.bytes,
    done.rank,
    done.event_id,
    done.start_ns,
    done.end_ns - done.start_ns as dur_ns,
    done.wait_ns,
    done.transfer_ns,
    done.late_ns,
    done.is_last,
    done.bytes::double / done.shortest_ns as algorithm_gb_per_s,
    done.bytes::double / done.shortest_ns * bus_factor(done.name, done.group_size) as bus_gb_per_s
from done
where
    is_asked($rank, done.rank)
    and is_asked($step, done.step)
    and is_asked($phase, done.phase)
    and in_module(done.module_path, $module)
order by done.step, done.match_id, done.rank, done.start_ns, done.event_id
