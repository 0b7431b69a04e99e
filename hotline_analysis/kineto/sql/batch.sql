-- Texts of events → their fields, typed. The other files of this folder read the result, `batch`.
--
-- Times are microseconds with up to three decimals, and doubles tell nanoseconds apart up to 2^43 microseconds; JSON
-- numbers are read as doubles. Later time stamps (since 1970, with decimals) are marked in `is_rounded` and taken from
-- the text by `exact_start.sql`. Times and durations that no clock shows become NULL, and so does the duration of an
-- event that has no start or is not complete (`X`): what has a duration lies in time and counts, nothing else does.
-- `has_more` then tells that the event says more than the columns do. Within the limits, ends and distances fit 64
-- bits.
with parsed as (
    select
        event_id,
        field_count,
        unnest(from_json(
            "text",
            '{"ph":"VARCHAR","cat":"VARCHAR","name":"VARCHAR","pid":"VARCHAR","tid":"VARCHAR","ts":"VARCHAR",
              "dur":"VARCHAR","id":"VARCHAR","bp":"VARCHAR","s":"VARCHAR","args":"JSON"}'
        ))
    from texts
),

timed as (
    select
        * exclude (ts, dur, args),
        nullif(args, 'null') as args,
        contains(ts, '.') as has_decimals,
        try_cast(ts as double) as start_us,
        try_cast(dur as double) as dur_us
    from parsed
),

limited as (
    select
        * exclude (has_decimals, start_us, dur_us),
        case
            when start_us between -1e15 and 4.6e15
                then trunc(start_us)::bigint * 1000 + round((start_us - trunc(start_us)) * 1000)::bigint
        end as start_ns,
        case
            when ph = 'X' and start_us between -1e15 and 4.6e15 and dur_us between 0 and 1e15
                then trunc(dur_us)::bigint * 1000 + round((dur_us - trunc(dur_us)) * 1000)::bigint
        end as dur_ns,
        has_decimals and start_us > 8796093022208 as is_rounded,
        from_json(args, '{"correlation":"BIGINT","External id":"BIGINT"}') as ids
    from timed
)

select
    limited.event_id,
    limited.ph,
    category_of(limited.cat) as category,
    case when category_of(limited.cat) != limited.cat then limited.cat end as raw_category,
    -- what counts is found by its name, even if it has none
    coalesce(limited.name, case when limited.dur_ns is not null then '' end) as name,
    limited.pid,
    limited.tid,
    limited.start_ns,
    limited.dur_ns,
    limited.is_rounded,
    limited.ids.correlation,
    coalesce(
        limited.ids."External id",
        case
            when contains(limited.args, '"external id"')
                then try_cast(json_extract_string(limited.args, '$."external id"') as bigint)
        end
    ) as external_id,
    limited.s as scope,
    limited.id as flow_id,
    limited.bp,
    limited.args,
    case
        when limited.args is null then 0
        when starts_with(limited.args, '{') then len(json_keys(limited.args))
        else 1
    end as arg_count,
    -- Counted by what is missing, and in small integers, since this is asked of every event.
    limited.field_count > 9 - (limited.ph is null)::tinyint - (limited.cat is null)::tinyint
    - (limited.name is null)::tinyint - (limited.pid is null)::tinyint - (limited.tid is null)::tinyint
    - (limited.start_ns is null)::tinyint - (limited.dur_ns is null)::tinyint
    - (limited.s is null)::tinyint - (limited.args is null)::tinyint
    + case
        when limited.ph in ('s', 't', 'f')
            then (limited.id is not null)::tinyint + (limited.bp is not null)::tinyint
        else 0
    end as has_more
from limited
