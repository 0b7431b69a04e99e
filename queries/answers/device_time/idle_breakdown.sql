-- Gaps without work on a device, or on each stream, by cause.
--
-- Each gap is attributed to its largest part:
--
--   host           the host had not launched the next work
--   sync           the host was in a synchronising call
--   communication  the launched work waited for communication on another stream
--   kernel         the launched work waited for other work on another stream, or the gap is the usual one between two
--                  kernels
--   other          the launched work waited for another reason
--   unobserved     the launched work waited for no reason visible in the file
--   unknown        the launch of the work is not in the trace
--
-- The parts are also summed over all gaps: `host_ns`, `sync_ns`, `queued_ns`, `unobserved_ns` and `unknown_ns` add up
-- to `idle_ns`. A device is idle while all its streams are idle; a stream may be idle while others work.
--
-- :param by VARCHAR in (device, stream) = 'device'
--                                       gaps of a device (all streams idle), or of each stream
-- :param rank BIGINT = NULL             only this rank
-- :param device BIGINT = NULL           only this device
-- :param stream BIGINT = NULL           only gaps of this stream, regardless of `by`
-- :param step BIGINT = NULL             only gaps ending with work of this step
-- :param phase PHASE = NULL             only gaps ending with work of this phase
-- :param module VARCHAR = NULL          only gaps ending with work of this module or its submodules, by path
-- :param micro_ns BIGINT >= 0 = 10000   gaps shorter than this are micro gaps
-- :reads idle_gap, label, model_op
-- :column rank RANK
-- :column device DEVICE             -1 without a device
-- :column stream BIGINT             stream; NULL for gaps of the device, or if the events have no stream
-- :column cause GAP_CAUSE           largest part of the gap
-- :column gap_count BIGINT          number of gaps
-- :column idle_ns BIGINT            sum of the gaps
-- :column idle_pct DOUBLE           share of the idle time of the device or stream
-- :column micro_count BIGINT        number of micro gaps
-- :column micro_total_ns BIGINT     time of the micro gaps
-- :column mean_ns DOUBLE            mean gap
-- :column median_ns BIGINT          median gap
-- :column max_ns BIGINT             longest gap
-- :column host_ns BIGINT            idle time until the launch of the next work took effect
-- :column launch_ns BIGINT          part of `host_ns` after the start of the launching call
-- :column sync_ns BIGINT            idle time caused by a synchronising call
-- :column queued_ns BIGINT          idle time with launched work waiting for other GPU work
-- :column unobserved_ns BIGINT      idle time with launched work waiting for no reason visible in the file
-- :column unknown_ns BIGINT         idle time before work without a known launch
-- :column example_event_id BIGINT   GPU event at the end of the longest gap; NULL for a gap after the last work

-- one row per selected gap
with gap as (
    select
        idle_gap.*,
        idle_gap.end_ns - idle_gap.start_ns as dur_ns
    from idle_gap
    left join label on idle_gap.rank = label.rank and idle_gap.next_id = label.event_id
    left join model_op on label.rank = model_op.rank and label.module_id = model_op.module_id
    where
        idle_gap.scope = case when $stream is null then $by else 'stream' end
        and is_asked($rank, idle_gap.rank)
        and is_asked($device, idle_gap.device)
        and is_asked($stream, idle_gap.stream)
        and is_asked($step, idle_gap.step)
        and is_asked($phase, idle_gap.phase)
        and in_module(model_op.path, $module)
)

select
    rank,
    device,
    stream,
    cause,
    count(*) as gap_count,
    sum(dur_ns)::bigint as idle_ns,
    100.0 * sum(dur_ns) / sum(sum(dur_ns)) over (partition by rank, device, stream) as idle_pct,
    count(*) filter (where dur_ns < $micro_ns) as micro_count,
    coalesce(sum(dur_ns) filter (where dur_ns < $micro_ns), 0)::bigint as micro_total_ns,
    avg(dur_ns) as mean_ns,
    quantile_disc(dur_ns, 0.5) as median_ns,
    max(dur_ns) as max_ns,
    sum(host_ns)::bigint as host_ns,
    sum(launch_ns)::bigint as launch_ns,
    sum(sync_ns)::bigint as sync_ns,
    sum(queued_ns)::bigint as queued_ns,
    sum(unobserved_ns)::bigint as unobserved_ns,
    sum(unknown_ns)::bigint as unknown_ns,
    arg_max({'event_id': next_id}, (dur_ns, -start_ns)).event_id as example_event_id
from gap
group by rank, device, stream, cause
order by rank, device, stream, idle_ns desc, cause
