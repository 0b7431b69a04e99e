-- Ranges and marks of NVTX: ops and annotations.
--
-- PyTorch appends the op's attributes to the name (`getNvtxStr` in torch/csrc/profiler/util.cpp): `aten::mm, seq = 12,
-- op_id = 7, sizes = [[4, 5], [5, 6]], input_op_ids = [(3,0)]`. The order differs between versions. Each attribute is
-- found with `instr`: a regular expression takes several times as long, and the text of every op is different.
--
-- A range still open at the end of the recording lasts until the end. A range with its end on another thread has no
-- thread, because it does not nest.
with named_range as (
    select
        raw.*,
        coalesce(raw.text, string_value."value", '') as full_text,
        coalesce(raw."jsonText", json_string."value") as json_text,
        coalesce(nvtx_domain.name, '') as domain_name,
        case
            when type.name in ('NvtxMark', 'NvtxtMark') then 'mark'
            when type.name in ('NvtxStartEndRange', 'NvtxtStartEndRange') then 'range'
            else 'push'
        end as kind
    from raw
    left join string_value on raw."textId" = string_value.id
    left join string_value as json_string on raw."jsonTextId" = json_string.id
    left join nvtx_domain
        on raw."domainId" = nvtx_domain.domain_id and process_of(raw."globalTid") = nvtx_domain.process
    inner join enumeration as type on type.kind = 'ENUM_NSYS_EVENT_TYPE' and raw."eventType" = type.id
    where
        type.name in (
            'NvtxMark', 'NvtxtMark', 'NvtxPushPopRange', 'NvtxtPushPopRange', 'NvtxStartEndRange', 'NvtxtStartEndRange'
        )
),

-- Ranges with the 1-based positions of the attributes in the name.
located_range as (
    select
        *,
        case when domain_name = '' then nullif(instr(full_text, ', seq = '), 0) end as seq_at,
        case when domain_name = '' then nullif(instr(full_text, ', op_id = '), 0) end as op_id_at,
        case when domain_name = '' then nullif(instr(full_text, ', sizes = '), 0) end as sizes_at,
        least(seq_at, op_id_at, sizes_at) as told_at
    from named_range
),

-- Ranges with the name and the attributes separated.
split_range as (
    select
        *,
        case when told_at is null then full_text else left(full_text, told_at - 1) end as plain_name,
        try_cast(split_part(substr(full_text, seq_at + 8, 20), ',', 1) as bigint) as told_seq,
        case when told_seq >= 0 then told_seq end as sequence_number,
        try_cast(split_part(substr(full_text, op_id_at + 10, 20), ',', 1) as bigint) as record_function_id,
        case
            when sizes_at is not null
                then regexp_extract(substr(full_text, sizes_at + 10), '^(\[.*?\])(?:, \w+ = .*)?$', 1)
        end as sizes,
        case when json_valid(sizes) then json(sizes)::varchar end as input_dims,
        coalesce("endGlobalTid" = "globalTid", true) as has_thread,
        case when json_valid(json_text) then json_text::json end as fields
    from located_range
)

select
    event_id,
    case kind when 'mark' then 'i' else 'X' end as ph,
    case
        when is_library_domain(domain_name) then 'library_range'
        when sequence_number is not null or input_dims is not null or starts_with(plain_name, 'aten::') then 'cpu_op'
        -- Module calls, pushed by `hotline_analysis.nvtx`.
        when starts_with(plain_name, 'nn.Module: ') then 'python_function'
        when told_at is not null and is_op_name(plain_name) then 'cpu_op'
        else 'user_annotation'
    end as category,
    plain_name as name,
    case when has_thread then process_of("globalTid")::varchar end as pid,
    case when has_thread then thread_of("globalTid")::varchar end as tid,
    start_in_time("start") as start_ns,
    case when kind != 'mark' then duration_in_time("start", coalesce("end", $end_ns)) end as dur_ns,
    null::bigint as correlation,
    sequence_number,
    record_function_id,
    input_dims,
    case
        when domain_name != '' or payload is not null or json_text is not null or ("end" is null and kind != 'mark')
            then
                json_merge_patch(
                    case when domain_name = '' then '{}' else json_object('domain', domain_name) end,
                    case
                        when fields is not null then json_object('payload', fields)
                        when coalesce(json_text, payload) is not null
                            then json_object('payload', coalesce(json_text, payload))
                        else '{}'
                    end,
                    case when "end" is null and kind != 'mark' then '{"open":true}' else '{}' end
                )
    end as args,
    case when domain_name = 'NCCL' then fields end as nccl_fields
from split_range
