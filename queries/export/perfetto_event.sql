-- Events of the file as JSON, rebuilt from the tables: the output of `hotline export --format perfetto`.
--
-- Each text is an event of the trace format with all its args, so that importing it again gives the same rows in every
-- table. Times are microseconds with nanosecond precision. Old recordings, recognised by their `Trace name`, get the
-- args of their format. Events added by an earlier export (category `hotline`) are left out.
--
-- :param rank BIGINT = NULL        only this rank
-- :param first_id BIGINT = NULL    only events from this id on
-- :param last_id BIGINT = NULL     only events up to this id
-- :reads event, track, op, python_call, runtime_call, gpu_op, collective, memory_event, sync, flow, counter, event_args
-- :column rank RANK
-- :column event_id BIGINT          the event
-- :column json VARCHAR             JSON text of the event
with asked_event as (
    select *
    from event
    where
        coalesce(category, '') != 'hotline'
        and is_asked($rank, rank)
        and is_in_range($first_id, $last_id, event_id)
),

event_body as (
    select
        op.rank,
        op.event_id,
        concat_ws(
            ',',
            '"Record function id":' || op.record_function_id,
            '"Concrete Inputs":' || coalesce(try_cast(op.concrete_inputs as json), to_json(op.concrete_inputs)),
            '"Input type":' || coalesce(try_cast(op.input_types as json), to_json(op.input_types)),
            '"Input Strides":' || coalesce(try_cast(op.input_strides as json), to_json(op.input_strides)),
            '"Input Dims":' || coalesce(try_cast(op.input_dims as json), to_json(op.input_dims)),
            case when op.trace_name is null then '"Ev Idx":' else '"Profiler Event Index":' end || op.profiler_index,
            '"Fwd thread id":' || op.forward_thread,
            '"Sequence number":' || op.sequence_number,
            '"Module Hierarchy":'
            || to_json(coalesce(op.module_hierarchy, case when op.trace_name is not null then '' end)),
            '"Call stack":' || to_json(coalesce(op.call_stack, case when op.trace_name is not null then '' end)),
            '"Trace name":' || to_json(op.trace_name),
            '"Trace iteration":' || op.trace_iteration
        ) as body
    from op
    where
        is_asked($rank, op.rank)
        and is_in_range($first_id, $last_id, op.event_id)
    union all
    select
        python_call.rank,
        python_call.event_id,
        concat_ws(
            ',',
            '"Python parent id":' || coalesce(python_call.python_parent_id::varchar, 'null'),
            '"Python id":' || python_call.python_id,
            '"Python module id":' || python_call.python_module_id,
            '"Ev Idx":' || python_call.profiler_index
        ) as body
    from python_call
    where
        is_asked($rank, python_call.rank)
        and is_in_range($first_id, $last_id, python_call.event_id)
    union all
    select
        runtime_call.rank,
        runtime_call.event_id,
        concat_ws(
            ',',
            case when starts_with(asked_event.name, 'hip') then '"cid":' else '"cbid":' end || runtime_call.callback_id,
            '"kernel":' || to_json(runtime_call.kernel),
            '"grid":' || coalesce(try_cast(runtime_call.grid as json), to_json(runtime_call.grid)),
            '"block":' || coalesce(try_cast(runtime_call.block as json), to_json(runtime_call.block)),
            '"shared memory":' || runtime_call.shared_memory_bytes,
            '"src":' || to_json(runtime_call.source),
            '"dst":' || to_json(runtime_call.destination),
            '"bytes":"' || runtime_call.bytes || '"',
            '"kind":' || to_json(runtime_call.kind)
        ) as body
    from runtime_call
    inner join asked_event on runtime_call.rank = asked_event.rank and runtime_call.event_id = asked_event.event_id
    where
        is_asked($rank, runtime_call.rank)
        and is_in_range($first_id, $last_id, runtime_call.event_id)
    union all
    select
        gpu_op.rank,
        gpu_op.event_id,
        concat_ws(
            ',',
            '"queued":' || gpu_op.queued,
            '"device":' || gpu_op.device,
            '"context":' || gpu_op.context,
            '"stream":' || gpu_op.stream,
            '"registers per thread":' || gpu_op.registers_per_thread,
            '"shared memory":' || gpu_op.shared_memory_bytes,
            '"blocks per SM":' || case when isfinite(gpu_op.blocks_per_sm) then gpu_op.blocks_per_sm end,
            '"warps per SM":' || case when isfinite(gpu_op.warps_per_sm) then gpu_op.warps_per_sm end,
            '"grid":' || coalesce(try_cast(gpu_op.grid as json), to_json(gpu_op.grid)),
            '"block":' || coalesce(try_cast(gpu_op.block as json), to_json(gpu_op.block)),
            '"est. achieved occupancy %":' || case when isfinite(gpu_op.occupancy_pct) then gpu_op.occupancy_pct end,
            '"bytes":' || gpu_op.bytes,
            '"memory bandwidth (GB/s)":'
            || case when isfinite(gpu_op.bandwidth_gb_per_s) then gpu_op.bandwidth_gb_per_s end,
            '"kind":' || to_json(gpu_op.kind)
        ) as body
    from gpu_op
    where
        is_asked($rank, gpu_op.rank)
        and is_in_range($first_id, $last_id, gpu_op.event_id)
    union all
    select
        memory_event.rank,
        memory_event.event_id,
        concat_ws(
            ',',
            '"Ev Idx":' || memory_event.profiler_index,
            '"Device Type":' || memory_event.device_type,
            '"Device Id":' || memory_event.device_id,
            '"Addr":' || memory_event.address,
            '"Bytes":' || memory_event.bytes,
            '"Total Allocated":' || memory_event.total_allocated_bytes,
            '"Total Reserved":' || memory_event.total_reserved_bytes,
            '"finished":' || memory_event.finished
        ) as body
    from memory_event
    where
        is_asked($rank, memory_event.rank)
        and is_in_range($first_id, $last_id, memory_event.event_id)
    union all
    select
        sync.rank,
        sync.event_id,
        concat_ws(
            ',',
            '"cuda_sync_kind":' || to_json(sync.kind),
            '"device":' || sync.device,
            '"context":' || sync.context,
            '"stream":' || sync.stream,
            '"wait_on_stream":' || sync.wait_on_stream,
            '"wait_on_cuda_event_id":' || sync.wait_on_event_id,
            '"wait_on_cuda_event_record_corr_id":' || sync.wait_on_correlation
        ) as body
    from sync
    where
        is_asked($rank, sync.rank)
        and is_in_range($first_id, $last_id, sync.event_id)
    union all
    select
        counter.rank,
        counter.event_id,
        string_agg(
            to_json(counter.series) || ':' || case when isfinite(counter.value) then counter.value else 0 end, ','
            order by counter.series
        )
    from counter
    where
        counter.value is not null
        and is_asked($rank, counter.rank)
        and is_in_range($first_id, $last_id, counter.event_id)
    group by counter.rank, counter.event_id
),

collective_body as (
    select
        collective.rank,
        collective.event_id,
        concat_ws(
            ',',
            '"Collective name":' || to_json(collective.name),
            '"dtype":' || to_json(collective.dtype),
            '"In msg nelems":' || collective.in_elements,
            '"Out msg nelems":' || collective.out_elements,
            '"Group size":' || collective.group_size,
            '"Process Group Name":' || to_json(collective.group_name),
            '"Process Group Description":' || to_json(collective.group_description),
            '"Process Group Ranks":' || to_json(collective.group_ranks),
            '"In split size":' || to_json(collective.in_split),
            '"Out split size":' || to_json(collective.out_split),
            '"Rank":' || collective.peer,
            '"Global rank start":' || collective.global_rank_start,
            '"Global rank stride":' || collective.global_rank_stride
        ) as body
    from collective
    where
        is_asked($rank, collective.rank)
        and is_in_range($first_id, $last_id, collective.event_id)
),

remainder as (
    select
        rank,
        event_id,
        args,
        -- for an event with times changed by the importer, `fields` has the original duration and the rule
        case
            when not json_valid(fields) or not list_has_any(json_keys(fields), ['ph', 'name']) then null
            when contains(fields, '"time_rule"') then json_merge_patch(fields, '{"time_rule":null}')
            else fields
        end as whole,
        case when json_valid(fields) then json_extract(fields, '$.dur') end as taken_us
    from event_args
    where
        is_asked($rank, rank)
        and is_in_range($first_id, $last_id, event_id)
),

flow_end as (
    select
        rank,
        event_id,
        flow_id,
        binding
    from flow
    where
        is_asked($rank, rank)
        and is_in_range($first_id, $last_id, event_id)
),

track_identity as (
    select
        rank,
        track_id,
        concat_ws(
            ',',
            '"pid":' || case when regexp_full_match(pid, '0|-?[1-9][0-9]{0,17}') then pid else to_json(pid) end,
            '"tid":' || case when regexp_full_match(tid, '0|-?[1-9][0-9]{0,17}') then tid else to_json(tid) end
        ) as ids
    from track
),

event_text as (
    select
        asked_event.rank,
        asked_event.event_id,
        remainder.whole,
        concat_ws(
            ',',
            '"ph":' || to_json(asked_event.ph),
            '"cat":' || to_json(coalesce(asked_event.raw_category, asked_event.category)),
            '"name":' || to_json(asked_event.name),
            track_identity.ids,
            '"ts":' || case when asked_event.start_ns < 0 then '-' else '' end || abs(asked_event.start_ns) // 1000
            || case
                when asked_event.start_ns % 1000 != 0
                    then '.' || lpad((abs(asked_event.start_ns) % 1000)::varchar, 3, '0')
                else ''
            end,
            case
                when asked_event.ph not in ('B', 'E')
                    then
                        '"dur":' || asked_event.dur_ns // 1000
                        || case
                            when asked_event.dur_ns % 1000 != 0
                                then '.' || lpad((asked_event.dur_ns % 1000)::varchar, 3, '0')
                            else ''
                        end
            end,
            case when asked_event.dur_ns is null then '"dur":' || remainder.taken_us end,
            '"s":' || to_json(asked_event.scope),
            '"id":'
            || case
                when regexp_full_match(flow_end.flow_id, '0|[1-9][0-9]{0,17}') then flow_end.flow_id
                else to_json(flow_end.flow_id)
            end,
            '"bp":' || to_json(flow_end.binding)
        ) as head,
        coalesce(
            remainder.args,
            '{'
            || nullif(
                concat_ws(
                    ',',
                    '"External id":' || asked_event.external_id,
                    nullif(collective_body.body, ''),
                    nullif(event_body.body, ''),
                    '"correlation":' || asked_event.correlation
                ),
                ''
            )
            || '}'
        ) as args
    from asked_event
    left join track_identity
        on asked_event.rank = track_identity.rank and asked_event.track_id = track_identity.track_id
    left join event_body on asked_event.rank = event_body.rank and asked_event.event_id = event_body.event_id
    left join collective_body
        on asked_event.rank = collective_body.rank and asked_event.event_id = collective_body.event_id
    left join remainder on asked_event.rank = remainder.rank and asked_event.event_id = remainder.event_id
    left join flow_end on asked_event.rank = flow_end.rank and asked_event.event_id = flow_end.event_id
)

select
    rank,
    event_id,
    coalesce(whole, '{' || concat_ws(',', nullif(head, ''), '"args":' || args) || '}')::varchar as json
from event_text
order by rank, event_id
