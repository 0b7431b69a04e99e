-- Collectives with one late rank, and the early rank for comparison.
--
-- Candidates are the four ranks of the same process group that are most often first when this rank is last. The limit
-- of four bounds the number of events read. Of these four, the early rank is the rank that started the collective
-- first. Collectives with all starts within a microsecond are left out.
--
-- :reads collective_match
-- :column rank RANK              of the last process
-- :column match_id BIGINT        the collective
-- :column early_rank BIGINT      the early rank
-- :column early_start_ns BIGINT  start of the early rank, on the lowest rank's clock
-- :column step STEP
with late_call as (
    select
        rank,
        match_id,
        group_name,
        step
    from collective_match
    where is_last and last_start_ns > first_start_ns + rounding_ns()
),

-- one row per late rank, group and early rank: the four most frequent first ranks
early_candidate as (
    select
        late_call.rank,
        late_call.group_name,
        collective_match.rank as early_rank
    from late_call
    inner join collective_match on late_call.match_id = collective_match.match_id
    where collective_match.is_first
    group by late_call.rank, late_call.group_name, collective_match.rank
    qualify row_number() over (
        partition by late_call.rank, late_call.group_name order by count(*) desc, collective_match.rank
    ) <= 4
)

select
    late_call.rank,
    late_call.match_id,
    arg_min(early_candidate.early_rank, (collective_match.start_ns, early_candidate.early_rank)) as early_rank,
    min(collective_match.start_ns) as early_start_ns,
    late_call.step
from late_call
inner join early_candidate
    on late_call.rank = early_candidate.rank and late_call.group_name is not distinct from early_candidate.group_name
inner join collective_match
    on late_call.match_id = collective_match.match_id and early_candidate.early_rank = collective_match.rank
group by late_call.rank, late_call.match_id, late_call.step
