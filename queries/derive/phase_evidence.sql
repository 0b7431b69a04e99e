-- Which phase the trace shows on each thread, where it shows one: strong markers over weak
-- ones over autograd's stretches over asides.
--
-- Every layer's borders go into one list; at each border the last word of each layer counts, an empty word meaning
-- none. Steps put borders of their own, so that no stretch reaches across them.
--
-- :reads marker_segment, backward_burst, step, main_track
with layer as (
    select
        family,
        track_id,
        start_ns,
        end_ns,
        label,
        evidence,
        event_id
    from marker_segment
    where family in ('strong', 'weak', 'aside')
    union all
    select
        'burst',
        track_id,
        start_ns,
        end_ns,
        'backward',
        'autograd',
        event_id
    from backward_burst
),

border as (
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        case when family = 'strong' then {'label': label, 'evidence': evidence, 'event_id': event_id} end as strong,
        case when family = 'weak' then {'label': label, 'evidence': evidence, 'event_id': event_id} end as weak,
        case when family = 'burst' then {'label': label, 'evidence': evidence, 'event_id': event_id} end as burst,
        case when family = 'aside' then {'label': label, 'evidence': evidence, 'event_id': event_id} end as aside
    from layer
    union all
    select
        track_id,
        end_ns,
        0,
        case when family = 'strong' then {'label': '', 'evidence': '', 'event_id': null::bigint} end,
        case when family = 'weak' then {'label': '', 'evidence': '', 'event_id': null::bigint} end,
        case when family = 'burst' then {'label': '', 'evidence': '', 'event_id': null::bigint} end,
        case when family = 'aside' then {'label': '', 'evidence': '', 'event_id': null::bigint} end
    from layer
    union all
    select
        main_track.track_id,
        step.start_ns,
        2,
        null,
        null,
        null,
        null
    from step
    cross join main_track
),

held as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over in_order as end_ns,
        last_value(strong ignore nulls) over in_order as strong,
        last_value(weak ignore nulls) over in_order as weak,
        last_value(burst ignore nulls) over in_order as burst,
        last_value(aside ignore nulls) over in_order as aside
    from border
    window in_order as (partition by track_id order by at_ns, opens rows between unbounded preceding and current row)
)

select
    track_id,
    start_ns,
    end_ns,
    case
        when strong.label != '' then strong
        when weak.label != '' then weak
        when burst.label != '' then burst
        when aside.label != '' then aside
    end as found
from held
where end_ns > start_ns
