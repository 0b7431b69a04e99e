-- Names of the processes, threads and devices with events, in Kineto's format.
with thread_name as (
    select
        process_of(thread_row."globalTid")::varchar as pid,
        thread_of(thread_row."globalTid")::varchar as tid,
        any_value(string_value."value") as name
    from thread_row
    inner join string_value on thread_row."nameId" = string_value.id
    group by all
),

process_name as (
    select
        process_of("globalPid")::varchar as pid,
        any_value(name) as name
    from process_row
    group by all
),

process as (
    select
        used_track.pid,
        bool_or(used_track.is_gpu) as is_gpu,
        coalesce(any_value(process_name.name), any_value(main_thread.name)) as name
    from used_track
    left join process_name
        on case when used_track.is_gpu then $own_pid::varchar else used_track.pid end = process_name.pid
    left join thread_name as main_thread
        on used_track.pid = main_thread.pid and main_thread.pid = main_thread.tid and not used_track.is_gpu
    where used_track.pid is not null
    group by used_track.pid
)

select
    'process_name' as field,
    pid,
    '0' as tid,
    name as "value"
from process
where name is not null
union all
select
    'process_labels',
    pid,
    '0',
    case when is_gpu then 'GPU ' || pid else 'CPU' end
from process
union all
select
    'thread_name',
    used_track.pid,
    used_track.tid,
    case
        when used_track.is_gpu then 'stream ' || used_track.tid
        else thread_name.name
    end
from used_track
left join thread_name on used_track.pid = thread_name.pid and used_track.tid = thread_name.tid
where used_track.tid is not null and (used_track.is_gpu or thread_name.name is not null)
order by field, pid, tid
