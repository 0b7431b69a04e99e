-- Collectives matched between ranks, on one clock. One row per collective and rank that the run has of it.
--
-- The n-th collective of one process group, step, kind, type and size on a rank is the n-th on every other. Of a rank
-- that has more or fewer of them in the step than most ranks have (a sampled or cut trace), it is not known which is
-- which, and its are not matched; without a majority, none is. The sizes of an all-to-all differ between ranks and do
-- not count. Point-to-point calls are not matched.
--
-- Clocks: no rank can end a collective that all ranks take part in before the last one joins, and all end it at about
-- the same time. So a rank's clock is off by the median difference of its ends from those of the lowest rank. A rank
-- that shares no collective with the lowest one is compared with a rank that does, and so on, along as few ranks as
-- possible. Matched calls that then do not overlap are no match.
--
-- :reads collective_call, rank_info
-- :kept
-- :column rank BIGINT            process rank
-- :column match_id BIGINT        rows with the same number are one collective
-- :column event_id BIGINT        the kernel or span
-- :column on_gpu BOOLEAN         it is a kernel
-- :column name VARCHAR           allreduce, allgather, …
-- :column group_name VARCHAR     process group; NULL when the trace does not say
-- :column group_size BIGINT      ranks that take part; NULL when unknown
-- :column rank_count BIGINT      ranks of this run that take part
-- :column dtype VARCHAR          element type; NULL when unknown
-- :column bytes BIGINT           size of the message; NULL when unknown
-- :column step BIGINT            number of the training step
-- :column phase VARCHAR          phase that launched it; NULL when unknown
-- :column module_path VARCHAR    module that launched it; NULL when unknown
-- :column offset_ns BIGINT       how far the rank's clock is ahead of the lowest rank's; NULL when no chain of shared
--                                collectives leads there
-- :column error_ns BIGINT        median distance of single collectives from that offset; of a chain, the sum
-- :column shift_ns BIGINT        what was added to the times in the rank's own file
-- :column start_ns BIGINT        start, on the lowest rank's clock
-- :column end_ns BIGINT          end, on the lowest rank's clock
-- :column first_start_ns BIGINT  when the first rank started
-- :column last_start_ns BIGINT   when the last rank started
-- :column wait_ns BIGINT         of the duration, waiting for the last rank
-- :column transfer_ns BIGINT     the rest of the duration
-- :column late_ns BIGINT         how much later than the middle rank it started, 0 for those before
-- :column is_last BOOLEAN        it started last; false for all if they started together
-- :column is_first BOOLEAN       it started first; likewise
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

numbered as (
    select
        *,
        name in ('allreduce', 'allgather', 'reducescatter', 'alltoall', 'barrier') as synchronises,
        row_number() over (partition by rank, kind, step order by start_ns, event_id) as number,
        count(*) over (partition by rank, kind, step) as own_count
    from call
),

-- Calls of the ranks that have as many in the step as most ranks have.
candidate as (
    select
        numbered.*,
        dense_rank() over (order by numbered.kind, numbered.step, numbered.number) - 1 as match_id,
        count(*) over (partition by numbered.kind, numbered.step, numbered.number) as rank_count
    from numbered
    semi join (
        select
            kind,
            step,
            own_count
        from (from numbered) as first_call
        where number = 1
        group by kind, step, own_count
        qualify 2 * count(*) > sum(count(*)) over (partition by kind, step)
    ) as usual
        on
            numbered.kind = usual.kind
            and numbered.step = usual.step
            and numbered.own_count = usual.own_count
    qualify rank_count > 1
),

-- One row per rank and the lowest one that it shares collectives with: how far its clock is ahead of that one's.
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

-- Ranks, and over how many others they can be compared with the lowest one.
reached as (
    select
        min(rank) as rank,
        0 as hop_count
    from rank_info
    union
    select
        neighbour.rank,
        reached.hop_count + 1
    from reached
    inner join neighbour on reached.rank = neighbour.known_rank
    where reached.hop_count < most_clock_hops()
),

-- The rank that each is compared with: of those that are nearer to the lowest rank, the one with most shared calls.
way as (
    select neighbour.*
    from neighbour
    inner join (select rank, min(hop_count) as hop_count from reached group by rank) as own  -- noqa: ST05
        on neighbour.rank = own.rank
    inner join (select rank, min(hop_count) as hop_count from reached group by rank) as known  -- noqa: ST05
        on neighbour.known_rank = known.rank and own.hop_count = known.hop_count + 1
    qualify
        row_number() over (
            partition by neighbour.rank
            order by neighbour.call_count desc, neighbour.error_ns, neighbour.known_rank
        ) = 1
),

clock as (
    select
        min(rank) as rank,
        0::bigint as offset_ns,
        0::bigint as error_ns
    from rank_info
    union all
    select
        way.rank,
        clock.offset_ns + way.offset_ns,
        clock.error_ns + way.error_ns
    from clock
    inner join way on clock.rank = way.known_rank
),

met as (
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
from met
where not synchronises or last_start_ns <= first_end_ns + clock_drift_ns() + 3 * worst_error_ns
