-- The collectives that one rank came last to, with the rank that its time is compared with.
--
-- That is one of the four ranks that, of those in the same process group, come first most often where this rank is
-- last: of each rank that is compared, all events are read. Of these four, it is the one that started the collective
-- first. Collectives that the ranks started within a microsecond are left out.
--
-- :reads collective_match
-- :column rank BIGINT            the rank that came last
-- :column match_id BIGINT        the collective
-- :column early_rank BIGINT      the rank that it is compared with
-- :column early_start_ns BIGINT  when that one started, on the lowest rank's clock
-- :column step BIGINT            number of the training step
with late as (
    select
        rank,
        match_id,
        group_name,
        step
    from collective_match
    where is_last and last_start_ns > first_start_ns + rounding_ns()
),

early as (
    select
        late.rank,
        late.group_name,
        collective_match.rank as early_rank
    from late
    inner join collective_match on late.match_id = collective_match.match_id
    where collective_match.is_first
    group by late.rank, late.group_name, collective_match.rank
    qualify row_number() over (
        partition by late.rank, late.group_name order by count(*) desc, collective_match.rank
    ) <= 4
)

select
    late.rank,
    late.match_id,
    arg_min(early.early_rank, (collective_match.start_ns, early.early_rank)) as early_rank,
    min(collective_match.start_ns) as early_start_ns,
    late.step
from late
inner join early on late.rank = early.rank and late.group_name is not distinct from early.group_name
inner join collective_match
    on late.match_id = collective_match.match_id and early.early_rank = collective_match.rank
group by late.rank, late.match_id, late.step
