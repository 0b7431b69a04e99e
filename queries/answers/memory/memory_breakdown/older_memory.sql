-- One row per device: allocated bytes beyond the known blocks, which are older than the trace (or negative).
--
-- :reads asked_moment, asked_block
-- :column rank RANK
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE        -1 for the CPU
-- :column bytes BIGINT         bytes at the peak
-- :column byte_ns HUGEINT      bytes, times duration
-- :column duration_ns BIGINT   length of the selected time
select
    asked_moment.rank,
    asked_moment.device_type,
    asked_moment.device,
    asked_moment.peak_bytes - coalesce(sum(asked_block.bytes) filter (where asked_block.at_peak), 0)::bigint as bytes,
    asked_moment.byte_ns - coalesce(sum(asked_block.byte_ns), 0)::hugeint as byte_ns,
    asked_moment.until_ns - asked_moment.from_ns as duration_ns
from asked_moment
left join asked_block
    on
        (asked_moment.rank, asked_moment.device_type, asked_moment.device)
        = (asked_block.rank, asked_block.device_type, asked_block.device)
where not asked_moment.is_estimated
group by
    asked_moment.rank, asked_moment.device_type, asked_moment.device, asked_moment.peak_bytes, asked_moment.byte_ns,
    asked_moment.until_ns, asked_moment.from_ns
