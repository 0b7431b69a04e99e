-- Collectives that several ranks of the run took part in: who came last, who waited how long, how fast it went then.
--
-- Times are on the clock of the lowest rank (`collective_match` says how clocks are aligned). Each rank's duration is
-- `wait_ns`, until the last of these ranks started, plus `transfer_ns`. Ranks that the run lacks may have come later
-- still; waiting for them counts as transfer. The bandwidths take the shortest transfer of the ranks, and bytes and
-- factors as NCCL's tests define them (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for all-reduce, (n-1)/n for
-- all-gather, reduce-scatter and all-to-all, 1 for the others.
--
-- :param rank BIGINT = NULL          only this rank
-- :param step BIGINT = NULL          only this step
-- :param phase VARCHAR = NULL        only collectives launched in this phase
-- :param module VARCHAR = NULL       only collectives launched in this module or one in it, by path
-- :reads collective_match, label, model_op
-- :column step BIGINT                number of the training step
-- :column match_id BIGINT            rows with the same number are one collective
-- :column name VARCHAR               allreduce, allgather, …
-- :column group_name VARCHAR         process group; NULL when the trace does not say
-- :column group_size BIGINT          ranks that take part; NULL when unknown
-- :column rank_count BIGINT          of them, in this run
-- :column bytes BIGINT               size of the message; NULL when unknown
-- :column rank BIGINT                process rank
-- :column event_id BIGINT            the kernel or span
-- :column start_ns BIGINT            start, on the lowest rank's clock
-- :column dur_ns BIGINT              duration
-- :column wait_ns BIGINT             of it, waiting for the last rank
-- :column transfer_ns BIGINT         the rest
-- :column late_ns BIGINT             start after the middle rank's
-- :column is_last BOOLEAN            it started last
-- :column algorithm_gb_per_s DOUBLE  bytes by transfer time; NULL when the size is unknown
-- :column bus_gb_per_s DOUBLE        the same times the factor; NULL when the size or the number of ranks is unknown
with timed as (
    select
        collective_match.*,
        label.phase,
        model_op.path as module_path,
        min(nullif(collective_match.transfer_ns, 0)) over (partition by collective_match.match_id) as shortest_ns
    from collective_match
    left join label on collective_match.rank = label.rank and collective_match.event_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
)

select
    step,
    match_id,
    name,
    group_name,
    group_size,
    rank_count,
    bytes,
    rank,
    event_id,
    start_ns,
    end_ns - start_ns as dur_ns,
    wait_ns,
    transfer_ns,
    late_ns,
    is_last,
    bytes::double / shortest_ns as algorithm_gb_per_s,
    bytes::double / shortest_ns * case
        when group_size is null then null
        when name = 'allreduce' then 2.0 * (group_size - 1) / group_size
        when name in ('allgather', 'reducescatter', 'alltoall') then 1.0 * (group_size - 1) / group_size
        else 1.0
    end as bus_gb_per_s
from timed
where
    ($rank is null or rank = $rank)
    and ($step is null or step = $step)
    and ($phase is null or phase = $phase)
    and ($module is null or module_path = $module or starts_with(module_path, $module || '.'))
order by step, match_id, rank
