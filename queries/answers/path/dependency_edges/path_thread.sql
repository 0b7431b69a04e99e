-- One row per thread that launches work of the window or has phases, and one for the main thread.
--
-- :takes rank
-- :reads nesting, phase_span, window_work
-- :column track_id BIGINT  thread
-- :column is_main BOOLEAN  the thread runs the training loop; without a loop, the thread with the most events

-- one row: the main thread
with main_thread as (
    select coalesce(
        (select min(track_id) from phase_span where rank = $rank and is_main),
        (select arg_max(track_id, (size, -track_id)) from (
            select
                track_id,
                count(*) as size
            from nesting
            where rank = $rank
            group by track_id
        ))
    ) as track_id
),

thread as (
    select track_id from main_thread where track_id is not null
    union
    select call_track_id from window_work where call_track_id is not null
    union
    select track_id from phase_span where rank = $rank
)

select
    thread.track_id,
    coalesce(thread.track_id = main_thread.track_id, false) as is_main
from thread
cross join main_thread
