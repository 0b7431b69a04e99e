-- Event texts → typed fields. The other files in this folder read the result, `batch`.
--
-- Times are microseconds with up to three decimals. JSON numbers are read as doubles, which are exact to the nanosecond
-- up to 2^43 microseconds. Later time stamps with decimals (since 1970) are marked in `is_rounded`, and
-- `exact_start.sql` reads their digits from the text.
--
-- Times and durations outside the range of any real clock become NULL. The duration is also NULL for events without a
-- start and for events with a phase other than `X`. An event counts as a span of time exactly when its duration is
-- known. A value lost in this way shows in `has_more`: the event has more content than the columns. Within the limits,
-- ends and distances fit 64 bits.
with parsed_event as (
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

timed_event as (
    select
        * exclude (ts, dur, args),
        nullif(args, 'null') as args,
        contains(ts, '.') as has_decimals,
        try_cast(ts as double) as start_us,
        try_cast(dur as double) as dur_us
    from parsed_event
),

typed_event as (
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
        case
            -- torch_npu writes step marks as ops.
            when starts_with(name, 'ProfilerStep#') and lower(cat) = 'cpu_op' then 'user_annotation'
            else category_of(cat)
        end as category,
        from_json(args, '{"correlation":"BIGINT","External id":"BIGINT"}') as ids
    from timed_event
)

select
    typed_event.event_id,
    typed_event.ph,
    typed_event.category,
    case when typed_event.category != typed_event.cat then typed_event.cat end as raw_category,
    -- Timed events are looked up by name, even by an empty name.
    coalesce(typed_event.name, case when typed_event.dur_ns is not null then '' end) as name,
    typed_event.pid,
    typed_event.tid,
    typed_event.start_ns,
    typed_event.dur_ns,
    typed_event.is_rounded,
    typed_event.ids.correlation,
    coalesce(
        typed_event.ids."External id",
        case
            when contains(typed_event.args, '"external id"')
                then try_cast(json_extract_string(typed_event.args, '$."external id"') as bigint)
        end
    ) as external_id,
    typed_event.s as scope,
    typed_event.id as flow_id,
    typed_event.bp,
    typed_event.args,
    case
        when typed_event.args is null then 0
        when starts_with(typed_event.args, '{') then len(json_keys(typed_event.args))
        else 1
    end as arg_count,
    -- Count the missing fields, in small integers: this expression runs for every event.
    typed_event.field_count > 9 - (typed_event.ph is null)::tinyint - (typed_event.cat is null)::tinyint
    - (typed_event.name is null)::tinyint - (typed_event.pid is null)::tinyint - (typed_event.tid is null)::tinyint
    - (typed_event.start_ns is null)::tinyint - (typed_event.dur_ns is null)::tinyint
    - (typed_event.s is null)::tinyint - (typed_event.args is null)::tinyint
    + case
        when typed_event.ph in ('s', 't', 'f')
            then (typed_event.id is not null)::tinyint + (typed_event.bp is not null)::tinyint
        else 0
    end as has_more
from typed_event
