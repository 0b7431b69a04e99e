-- Collective communication, from any event with these args. An op or a kernel has the args in addition to its own.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"Collective name":"VARCHAR","dtype":"VARCHAR","In msg nelems":"BIGINT","Out msg nelems":"BIGINT",
              "Group size":"BIGINT","Process Group Name":"VARCHAR","Process Group Description":"VARCHAR",
              "Process Group Ranks":"VARCHAR","In split size":"VARCHAR","Out split size":"VARCHAR","Rank":"BIGINT",
              "Global rank start":"BIGINT","Global rank stride":"BIGINT"}'
        ) as a
    from batch
    where contains(args, '"Collective name"')
)

select
    event_id,
    a."Collective name" as name,
    a.dtype,
    a."In msg nelems" as in_elements,
    a."Out msg nelems" as out_elements,
    a."Group size" as group_size,
    a."Process Group Name" as group_name,
    a."Process Group Description" as group_description,
    a."Process Group Ranks" as group_ranks,
    a."In split size" as in_split,
    a."Out split size" as out_split,
    a."Rank" as peer,
    a."Global rank start" as global_rank_start,
    a."Global rank stride" as global_rank_stride,
    (a."Collective name" is not null)::integer + (a.dtype is not null)::integer
    + (a."In msg nelems" is not null)::integer + (a."Out msg nelems" is not null)::integer
    + (a."Group size" is not null)::integer + (a."Process Group Name" is not null)::integer
    + (a."Process Group Description" is not null)::integer + (a."Process Group Ranks" is not null)::integer
    + (a."In split size" is not null)::integer + (a."Out split size" is not null)::integer
    + (a."Rank" is not null)::integer + (a."Global rank start" is not null)::integer
    + (a."Global rank stride" is not null)::integer as claimed
from parsed_event
