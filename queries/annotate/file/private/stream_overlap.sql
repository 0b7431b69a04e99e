-- GPU work overlapping the next work of its stream, an impossible overlap. The importer cuts the work at the next
-- start.
--
-- A stream runs its work in order. Real traces show four exceptions, which keep their times:
--
-- * Kernels of one graph launch share a stream in the file, and run in parallel (31 of 15,632 on a V100, up to 13 µs).
-- * A kernel launched with programmatic dependent launch (`cuLaunchKernelEx`) may start before the previous kernel
--   ends, but does not end before it (74 of 929 on a B200, up to 3.7 µs).
-- * Times of NVIDIA and AMD are not exact (3 of 12,406 on an MI300, up to 2.4 µs; 15 on an H100, up to 1.5 µs).
-- * Old traces round to microseconds.
--
-- In 29 real traces, only work of the first exception runs beyond the end of the next work.
--
-- :reads event, gpu_op
-- :column event_id BIGINT      the work
-- :column rule VARCHAR         overlap
-- :column start_ns BIGINT      start, unchanged
-- :column dur_ns BIGINT        time up to the next start on the stream
-- :column given_dur_ns BIGINT  duration in the file
with work as (
    -- GPU work with its stream. `launch_key` is equal for work of one launch.
    select
        event.event_id,
        event.start_ns,
        event.end_ns,
        event.correlation,
        case when event.correlation > 0 then event.correlation else -event.event_id - 1 end as launch_key,
        coalesce(event.track_id, -1) as track_id,
        device_of(gpu_op.device) as device,
        coalesce(gpu_op.context, -1) as context,
        coalesce(gpu_op.stream, -1) as stream
    from event
    left join gpu_op on event.event_id = gpu_op.event_id
    where event.category in ('kernel', 'gpu_memcpy', 'gpu_memset') and event.dur_ns is not null
),

-- Work in stream order, with the previous launch and the next start.
ordered_work as materialized (
    select
        *,
        row_number() over in_stream as place,
        coalesce(lag(launch_key) over in_stream != launch_key, true) as is_first,
        lead(start_ns) over in_stream as next_ns
    from work
    window in_stream as (
        partition by track_id, device, context, stream
        order by start_ns, end_ns > start_ns, end_ns desc, event_id
    )
),

running_work as (
    select * from ordered_work
    where end_ns > next_ns
),

-- The first work of each launch, in streams with overlaps.
first_work as (
    select
        track_id,
        device,
        context,
        stream,
        place,
        start_ns,
        end_ns,
        correlation
    from ordered_work
    where is_first and track_id in (select running_work.track_id from running_work)
),

-- Work overlapping the next launch of the stream.
overlapping_work as (
    select
        running_work.event_id,
        running_work.start_ns,
        running_work.end_ns,
        first_work.start_ns as next_ns,
        first_work.end_ns as next_end_ns,
        first_work.correlation as next_correlation
    from running_work
    asof inner join first_work
        on
            running_work.track_id = first_work.track_id
            and running_work.device = first_work.device
            and running_work.context = first_work.context
            and running_work.stream = first_work.stream
            and running_work.place < first_work.place
    where running_work.end_ns > first_work.start_ns + stream_overlap_ns()
),

-- Correlations of calls that launch work early, by programmatic dependent launch.
early_call as (
    select distinct correlation
    from event
    where category in ('cuda_runtime', 'cuda_driver') and is_early_launch(name)
)

select
    overlapping_work.event_id,
    'overlap' as rule,
    overlapping_work.start_ns,
    overlapping_work.next_ns - overlapping_work.start_ns as dur_ns,
    overlapping_work.end_ns - overlapping_work.start_ns as given_dur_ns
from overlapping_work
left join early_call on overlapping_work.next_correlation = early_call.correlation
where overlapping_work.end_ns > overlapping_work.next_end_ns or early_call.correlation is null
order by overlapping_work.event_id
