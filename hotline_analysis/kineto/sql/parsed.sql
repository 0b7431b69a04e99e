-- Texts of events → their top-level fields, as text. A text that is no JSON object gives a row of NULLs, `failed`.
-- A table of its own, since the engine would parse again for each use of a common table expression.
with parsed as (
    select
        event_id,
        "text",
        try(from_json(
            "text",
            '{"ph":"VARCHAR","cat":"VARCHAR","name":"VARCHAR","pid":"VARCHAR","tid":"VARCHAR","ts":"VARCHAR",
              "dur":"VARCHAR","id":"VARCHAR","bp":"VARCHAR","s":"VARCHAR","args":"JSON"}'
        )) as e,
        len(json_keys("text")) as field_count
    from texts
)

select
    event_id,
    "text",
    field_count,
    unnest(e),
    nullif(e.args, 'null') as args_object
from parsed
