-- Collectives matched between ranks, on one clock. One row per collective and participating rank of the run.
--
-- The n-th collective of one process group, step, kind, type and size on a rank matches the n-th on every other rank. A
-- rank with another count in the step than most ranks (a sampled or cut trace) is not matched, since the missing calls
-- are unknown. Without a majority, no rank is matched. The sizes of an all-to-all differ between ranks and are ignored.
-- Point-to-point calls are not matched.
--
-- Clocks: no rank can finish a collective of all ranks before the last rank joins, and all ranks finish at about the
-- same time. The offset of a rank's clock is therefore the median difference between its ends and the ends of the
-- lowest rank. A rank without a common collective with the lowest rank is compared to a rank with one, and so on, over
-- as few ranks as possible. Matched calls that do not overlap on this clock are dropped.
--
-- :reads collective_call, rank_info
-- :kept
-- :column rank RANK
-- :column match_id BIGINT        rows with the same number are one collective
-- :column event_id BIGINT        the kernel or span
-- :column on_gpu BOOLEAN         the collective is a kernel
-- :column name VARCHAR           allreduce, allgather, …
-- :column group_name VARCHAR     process group; NULL if unknown
-- :column group_size BIGINT      number of ranks in the group; NULL if unknown
-- :column rank_count BIGINT      number of participating ranks of this run
-- :column dtype VARCHAR          element type; NULL if unknown
-- :column bytes BIGINT           size of the message; NULL if unknown
-- :column step STEP
-- :column phase PHASE            of the launch; NULL if unknown
-- :column module_path VARCHAR    launching module; NULL if unknown
-- :column offset_ns BIGINT       how far the rank's clock is ahead of the lowest rank's clock; NULL without a chain of
--                                common collectives
-- :column error_ns BIGINT        median deviation of single collectives from that offset; the sum for a chain
-- :column shift_ns BIGINT        value added to the times in the rank's own file
-- :column start_ns BIGINT        start, on the lowest rank's clock
-- :column end_ns BIGINT          end, on the lowest rank's clock
-- :column first_start_ns BIGINT  start on the first rank
-- :column last_start_ns BIGINT   start on the last rank
-- :column wait_ns BIGINT         part of the duration spent waiting for the last rank
-- :column transfer_ns BIGINT     remaining duration
-- :column late_ns BIGINT         delay after the start of the median rank; 0 for earlier ranks
-- :column is_last BOOLEAN        the rank started last; false for all ranks if they started together
-- :column is_first BOOLEAN       the rank started first; false for all ranks if they started together
with recursive base as (
    select
        rank,
        case
            when count(*) over () = count(base_time_ns) over ()
                then base_time_ns - first_value(base_time_ns) over (order by rank)
            else 0
        end as base_ns
    from rank_info
),

-- one row per collective call in a step, on a rough common clock, with its kind
call as (
    select
        collective_call.* exclude (start_ns, end_ns),
        collective_call.start_ns + base.base_ns as start_ns,
        collective_call.end_ns + base.base_ns as end_ns,
        base.base_ns,
        coalesce(collective_call.group_name, '') || ' ' || coalesce(collective_call.group_ranks, '') || ' '
        || collective_call.name || ' ' || coalesce(collective_call.dtype, '') || ' '
        || case
            when collective_call.name in ('alltoall', 'gather', 'scatter') then ''
            else coalesce(collective_call.bytes::varchar, '')
        end as kind
    from collective_call
    inner join base on collective_call.rank = base.rank
    where
        collective_call.name is not null
        and collective_call.name not in ('send', 'recv', 'sendrecv')
        and collective_call.step is not null
),

numbered_call as (
    select
        *,
        name in ('allreduce', 'allgather', 'reducescatter', 'alltoall', 'barrier') as synchronises,
        row_number() over (partition by rank, kind, step order by start_ns, event_id) as number,
        count(*) over (partition by rank, kind, step) as own_count
    from call
),

-- Calls of the ranks with the most common number of calls in the step.
candidate as (
    select
        numbered_call.*,
        dense_rank() over (order by numbered_call.kind, numbered_call.step, numbered_call.number) - 1 as match_id,
        count(*) over (partition by numbered_call.kind, numbered_call.step, numbered_call.number) as rank_count
    from numbered_call
    semi join (
        select
            kind,
            step,
            own_count
        from (from numbered_call) as first_call
        where number = 1
        group by kind, step, own_count
        qualify 2 * count(*) > sum(count(*)) over (partition by kind, step)
    ) as usual
        on
            numbered_call.kind = usual.kind
            and numbered_call.step = usual.step
            and numbered_call.own_count = usual.own_count
    qualify rank_count > 1
),

-- One row per rank and the lowest rank with common collectives: the clock offset between the two.
pair_clock as (
    select
        rank,
        low_rank,
        any_value(offset_ns) as offset_ns,
        quantile_disc(abs(apart_ns - offset_ns), 0.5)::bigint as error_ns,
        count(*) as call_count
    from (
        select
            *,
            quantile_disc(apart_ns, 0.5) over (partition by rank, low_rank)::bigint as offset_ns
        from (
            select
                rank,
                min(rank) over of_match as low_rank,
                end_ns - arg_min(end_ns, rank) over of_match as apart_ns
            from candidate
            where synchronises
            window of_match as (partition by match_id)
        ) as met_by_low
        where rank > low_rank
    ) as apart
    group by rank, low_rank
),

-- one row per pair of ranks with a known offset, in both directions
neighbour as (
    select
        rank,
        low_rank as known_rank,
        offset_ns,
        error_ns,
        call_count
    from pair_clock
    union all
    select
        low_rank,
        rank,
        -offset_ns,
        error_ns,
        call_count
    from pair_clock
),

-- Ranks, with the number of hops to the lowest rank.
reached_rank as (
    select
        min(rank) as rank,
        0 as hop_count
    from rank_info
    union
    select
        neighbour.rank,
        reached_rank.hop_count + 1
    from reached_rank
    inner join neighbour on reached_rank.rank = neighbour.known_rank
    where reached_rank.hop_count < most_clock_hops()
),

-- The rank each rank is compared to: of the ranks closer to the lowest rank, the rank with the most common calls.
clock_link as (
    select neighbour.*
    from neighbour
    inner join (select rank, min(hop_count) as hop_count from reached_rank group by rank) as own  -- noqa: ST05
        on neighbour.rank = own.rank
    inner join (select rank, min(hop_count) as hop_count from reached_rank group by rank) as known  -- noqa: ST05
        on neighbour.known_rank = known.rank and own.hop_count = known.hop_count + 1
    qualify
        row_number() over (
            partition by neighbour.rank
            order by neighbour.call_count desc, neighbour.error_ns, neighbour.known_rank
        ) = 1
),

-- one row per rank: the offset from the lowest rank
clock as (
    select
        min(rank) as rank,
        0::bigint as offset_ns,
        0::bigint as error_ns
    from rank_info
    union all
    select
        clock_link.rank,
        clock.offset_ns + clock_link.offset_ns,
        clock.error_ns + clock_link.error_ns
    from clock
    inner join clock_link on clock.rank = clock_link.known_rank
),

-- one row per matched call, with the times on the common clock and over all ranks
aligned_call as (
    select
        *,
        max(common_start_ns) over of_match as last_start_ns,
        min(common_start_ns) over of_match as first_start_ns,
        min(common_end_ns) over of_match as first_end_ns,
        quantile_disc(common_start_ns, 0.5) over of_match as middle_start_ns,
        max(coalesce(error_ns, 0)) over of_match as worst_error_ns
    from (
        select
            candidate.*,
            clock.offset_ns,
            clock.error_ns,
            candidate.base_ns - coalesce(clock.offset_ns, 0) as shift_ns,
            candidate.start_ns - coalesce(clock.offset_ns, 0) as common_start_ns,
            candidate.end_ns - coalesce(clock.offset_ns, 0) as common_end_ns
        from candidate
        left join clock on candidate.rank = clock.rank
    ) as aligned
    window of_match as (partition by match_id)
)

select
    rank,
    match_id,
    event_id,
    on_gpu,
    name,
    group_name,
    group_size,
    rank_count,
    dtype,
    bytes,
    step,
    phase,
    module_path,
    offset_ns,
    error_ns,
    shift_ns,
    common_start_ns as start_ns,
    common_end_ns as end_ns,
    first_start_ns,
    last_start_ns,
    least(last_start_ns - common_start_ns, common_end_ns - common_start_ns) as wait_ns,
    common_end_ns - common_start_ns - least(last_start_ns - common_start_ns, common_end_ns - common_start_ns)
        as transfer_ns,
    greatest(0, common_start_ns - middle_start_ns) as late_ns,
    last_start_ns > first_start_ns
    and row_number() over (partition by match_id order by common_start_ns desc, rank) = 1 as is_last,
    last_start_ns > first_start_ns
    and row_number() over (partition by match_id order by common_start_ns, rank) = 1 as is_first
from aligned_call
where not synchronises or last_start_ns <= first_end_ns + clock_drift_ns() + 3 * worst_error_ns
