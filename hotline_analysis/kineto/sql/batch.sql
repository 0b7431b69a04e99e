-- Fields of events → one typed row each. The other files of this folder read the result, `batch`.
--
-- `from_json` reads numbers as doubles. A double holds microseconds with three decimals exactly up to 2^53 ns; later
-- time stamps (since 1970, with decimals) are taken from the text. DECIMAL keeps the nanosecond either way.
--
-- Times and durations that no clock shows stay in `fields` only. Within the limits, ends and distances fit 64 bits.
with timed as (
    select
        * exclude (ts, dur),
        case
            when not contains(ts, '.') then try(try_cast(ts as bigint) * 1000)
            when try_cast(ts as double) < 9007199254740.0 then try_cast(try_cast(ts as decimal(38, 3)) * 1000 as bigint)
            else try_cast(try_cast(list_filter(
                regexp_extract_all("text", '"ts"\s*:\s*"?\s*(-?[0-9.eE+]+)', 1),
                lambda digits: try_cast(digits as double) = try_cast(ts as double)
            )[1] as decimal(38, 3)) * 1000 as bigint)
        end as raw_start_ns,
        case
            when contains(dur, '.') then try_cast(try_cast(dur as decimal(38, 3)) * 1000 as bigint)
            else try(try_cast(dur as bigint) * 1000)
        end as raw_dur_ns,
        case when raw_start_ns between -1000000000000000000 and 4600000000000000000 then raw_start_ns end as start_ns,
        case when raw_dur_ns between 0 and 1000000000000000000 then raw_dur_ns end as dur_ns,
        from_json(args_object, '{"correlation":"BIGINT","External id":"BIGINT"}') as ids
    from parsed
)

select
    timed.event_id,
    timed.ph,
    coalesce(spelling.category, lower(timed.cat)) as category,
    case when coalesce(spelling.category, lower(timed.cat)) != timed.cat then timed.cat end as raw_category,
    timed.name,
    timed.pid,
    timed.tid,
    timed.start_ns,
    timed.dur_ns,
    timed.ids.correlation,
    coalesce(
        timed.ids."External id",
        case
            when contains(timed.args_object, '"external id"')
                then try_cast(json_extract_string(timed.args_object, '$."external id"') as bigint)
        end
    ) as external_id,
    timed.s as scope,
    timed.id as flow_id,
    timed.bp,
    timed.args_object as args,
    case
        when timed.args_object is null then 0
        when starts_with(timed.args_object, '{') then len(json_keys(timed.args_object))
        else 1
    end as arg_count,
    case
        when
            timed.field_count > (timed.ph is not null)::integer + (timed.cat is not null)::integer
            + (timed.name is not null)::integer + (timed.pid is not null)::integer + (timed.tid is not null)::integer
            + (timed.start_ns is not null)::integer + (timed.dur_ns is not null)::integer
            + (timed.s is not null)::integer + (timed.args_object is not null)::integer
            + case
                when timed.ph in ('s', 't', 'f')
                    then (timed.id is not null)::integer + (timed.bp is not null)::integer
                else 0
            end
            then timed."text"
    end as fields
from timed
left join category_spelling as spelling on lower(timed.cat) = spelling.spelling
