-- Devices and streams.

-- The number of a device; -1 stands for the one that events do not name.
create or replace macro device_of(device) as
coalesce(device, -1);

-- The number of a stream; -1 stands for the one that events do not name.
create or replace macro stream_of(stream) as
coalesce(stream, -1);
