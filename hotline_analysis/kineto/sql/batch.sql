-- Texts of events → their fields, typed. The other files of this folder read the result, `batch`.
--
-- `from_json` reads numbers as doubles. A double holds microseconds with three decimals exactly up to 2^53 ns; later
-- time stamps (since 1970, with decimals) are marked in `is_rounded` and taken from the text by `exact_start.sql`.
-- DECIMAL keeps the nanosecond. Times and durations that no clock shows become NULL; `has_more` then tells that the
-- event says more than the columns do. Within the limits, ends and distances fit 64 bits.
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
        case
            when contains(ts, '.') then try_cast(try_cast(ts as decimal(38, 3)) * 1000 as bigint)
            else try(try_cast(ts as bigint) * 1000)
        end as raw_start_ns,
        case
            when contains(dur, '.') then try_cast(try_cast(dur as decimal(38, 3)) * 1000 as bigint)
            else try(try_cast(dur as bigint) * 1000)
        end as raw_dur_ns,
        contains(ts, '.') and raw_start_ns > 9007199254740000 as is_rounded
    from parsed
),

limited as (
    select
        * exclude (raw_start_ns, raw_dur_ns),
        case when raw_start_ns between -1000000000000000000 and 4600000000000000000 then raw_start_ns end as start_ns,
        case when raw_dur_ns between 0 and 1000000000000000000 then raw_dur_ns end as dur_ns,
        from_json(args, '{"correlation":"BIGINT","External id":"BIGINT"}') as ids
    from timed
)

select
    limited.event_id,
    limited.ph,
    category_of(limited.cat) as category,
    case when category_of(limited.cat) != limited.cat then limited.cat end as raw_category,
    limited.name,
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
