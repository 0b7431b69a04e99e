-- Devices and streams.

-- The number of a device; -1 stands for the one that events do not name.
create or replace macro device_of(device) as
coalesce(device, -1);

-- The number of a stream; -1 stands for the one that events do not name.
create or replace macro stream_of(stream) as
coalesce(stream, -1);

-- Whether a call takes the grid in threads, and so the trace has it in threads, too: HIP's calls that came from OpenCL
-- (HIP documentation, `hipExtModuleLaunchKernel`: "globalWorkSizeX: grid dimension X specified as work-items"). All
-- others take it in blocks.
create or replace macro grid_is_in_threads(call) as
call in ('hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel');

-- The mean of a value over work, weighted by how long each took; of work that takes no time, its plain mean. NULL
-- values do not count.
create or replace macro weighted_mean(measure, dur_ns) as
coalesce(
    sum(measure * dur_ns) / nullif(sum(dur_ns) filter (where measure is not null), 0), avg(measure)
);
